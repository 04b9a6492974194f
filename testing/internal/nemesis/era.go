// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
)

// era is the time between two restores of the servers, with the history that they had in it. A history
// begins with what the backup had. A restore undoes the rest of the history before it.
//
// So what clients were told in an era is judged by the log of that era. Of what they knew before it, the
// servers have what is in both logs, and nothing else.
type era struct {
	log    *transactionLog
	base   int64 // the newest transaction that the backup had; 0 in the first era
	newest int64 // transaction
	down   int64 // when the servers had been killed for the restore that ends it; forever in the last
	until  int64 // when clients could reach the servers of the next; likewise
}

// readLogs reads the servers' logs of all eras. The log of the round is the last one.
func (r *roundReport) readLogs() error {
	restores := slices.DeleteFunc(slices.Clone(r.record.Faults), func(f faultRecord) bool { return f.Log == "" })
	var before *served
	for _, f := range append(restores, faultRecord{Log: "log", Down: forever, Up: forever}) {
		now, err := readServed(filepath.Join(r.folder, f.Log))
		switch {
		case err != nil:
			return err
		case now == nil && len(restores) == 0:
			return nil // there are records without one
		case now == nil:
			return fmt.Errorf("nemesis: %s has no %s, the servers' transactions around a restore", r.folder, f.Log)
		}
		own := era{newest: now.newest, down: f.Down, until: cmp.Or(f.Up, f.End)}
		if before != nil {
			if own.base, err = now.goOn(before); err != nil {
				return fmt.Errorf("%w: in %s", err, f.Log)
			}
		}
		if own.log, err = now.log(); err != nil {
			return err
		}
		r.eras, r.log, before = append(r.eras, own), own.log, now
	}
	return nil
}

// goOn takes the transactions up to the newest that was committed in both histories from the one before, and returns that
// one. For them the logs of the restored servers prove nothing: all are copies of one, which may lack what its server got as
// a snapshot, and may have what was cut off the others' logs. The transactions after it must be newer than all that were
// undone, so that a number tells what is meant: the restore sees to it.
func (s *served) goOn(before *served) (base int64, err error) {
	for _, t := range before.committed {
		if s.ids[t.identity()] {
			base = max(base, t.zxid)
		}
	}
	for id := range s.ids {
		if id.zxid > base && id.zxid <= before.newest && !before.ids[id] {
			return 0, fmt.Errorf("nemesis: restored servers have %#x, which is no newer than %#x from before", id.zxid, before.newest)
		}
	}
	isNew := func(t transaction) bool { return t.zxid > base }
	isOld := func(t transaction) bool { return t.zxid <= base }
	s.committed = append(slices.DeleteFunc(s.committed, isOld), slices.DeleteFunc(slices.Clone(before.committed), isNew)...)
	s.others = append(slices.DeleteFunc(s.others, isOld), slices.DeleteFunc(slices.Clone(before.others), isNew)...)
	s.ids = make(map[identity]bool)
	for _, t := range slices.Concat(s.committed, s.others) {
		s.ids[t.identity()] = true
	}
	return base, nil
}

// eraAt is the era of a moment.
func (r *roundReport) eraAt(at int64) int {
	for i, e := range r.eras {
		if at < e.until {
			return i
		}
	}
	return max(len(r.eras)-1, 0)
}

// logAt is the log of the servers that clients talked to at a moment; nil if there is none.
func (r *roundReport) logAt(at int64) *transactionLog {
	if r.log == nil {
		return nil
	}
	return r.eras[r.eraAt(at)].log
}

// tookBack reports whether a restore has taken back something that was acknowledged at a moment: the servers had
// it by the log of that era, and did not have it by the log of the next.
func (r *roundReport) tookBack(at int64, has func(*transactionLog) bool) bool {
	i := r.eraAt(at)
	return i+1 < len(r.eras) && has(r.eras[i].log) && !has(r.eras[i+1].log)
}
