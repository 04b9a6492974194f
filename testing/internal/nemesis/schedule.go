// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/gocurator/curator/framework"
)

// The time between two faults, in which things may recover or not, and how long it may
// take to undo one.
const (
	leastPause = 500 * time.Millisecond
	mostPause  = 2500 * time.Millisecond
	undoTime   = time.Minute
)

// combined is the fault that consists of two at the same time.
const combined = "N15"

// progress tells people what goes on.
type progress func(format string, args ...any)

// schedule chooses faults at random, but so that each comes about as often as any other in a
// campaign: it goes through all of them, in a new order each time.
type schedule struct {
	random   *rand.Rand
	chosen   []fault // what may come
	pair     bool    // also two together
	left     []int   // of this time through; the pair is one more
	progress progress
	start    int64
}

// choose returns what the names, by id and separated by commas, stand for; all is every one. The
// pair is among them if N15 is.
func choose(list string) (chosen []fault, pair bool, err error) {
	switch list {
	case "all":
		return faults, true, nil
	case "none":
		return nil, false, nil
	}
	for id := range strings.SplitSeq(list, ",") {
		if id == combined {
			pair = true
			continue
		}
		i := slices.IndexFunc(faults, func(f fault) bool { return f.id == id })
		if i < 0 {
			return nil, false, fmt.Errorf("nemesis: fault %q, expected all, none, or some of N1 to %s", id, lastFault)
		}
		chosen = append(chosen, faults[i])
	}
	if pair && len(chosen) == 0 {
		chosen = faults
	}
	if len(possible(chosen)) == 0 {
		return nil, false, fmt.Errorf("nemesis: fault %s cannot be done here: %s", chosen[0].id, chosen[0].impossible())
	}
	return chosen, pair, nil
}

// kindsOf lists them for the record.
func kindsOf(chosen []fault, pair bool) []kindRecord {
	var kinds []kindRecord
	for _, f := range chosen {
		kinds = append(kinds, kindRecord{Fault: f.id, Name: f.name, Cannot: f.impossible()})
	}
	if pair {
		kinds = append(kinds, kindRecord{Fault: combined, Name: "two at the same time"})
	}
	return kinds
}

// impossible says why the fault cannot be done here, or nothing.
func (f fault) impossible() string {
	if f.cannot == nil {
		return ""
	}
	return text(f.cannot())
}

// possible are those that can be done here.
func possible(all []fault) []fault {
	return slices.DeleteFunc(slices.Clone(all), func(f fault) bool { return f.impossible() != "" })
}

// run hurts the cluster until the context ends, and returns what it did. All is undone
// then. A fault that could not be done or undone is in the record.
func (s *schedule) run(ctx context.Context, c *cluster) []faultRecord {
	var records []faultRecord
	for s.sleep(ctx, between(leastPause, mostPause)(s.random)) {
		for _, r := range s.strike(ctx, c, s.next(c)) {
			records = append(records, r)
			s.progress("%s", r.line(s.start))
		}
	}
	return records
}

// line is the record's in the time line.
func (r *faultRecord) line(start int64) string {
	since := func(at int64) time.Duration { return time.Duration(at - start).Round(time.Millisecond) }
	line := fmt.Sprintf("%10v %10v  %-4s %s: %s", since(r.Start), since(r.End), r.Fault, r.Name, r.Detail)
	if r.Error != "" {
		line += " (" + r.Error + ")"
	}
	return line
}

// next returns the faults that come next, in order: one, or two that hurt different parts.
func (s *schedule) next(c *cluster) []fault {
	var all []fault
	for _, f := range possible(s.chosen) {
		times := 1
		if f.frames {
			times = c.setup.frames
		}
		all = append(all, slices.Repeat([]fault{f}, times)...)
	}
	if len(s.left) == 0 {
		n := len(all)
		if s.pair {
			n++
		}
		s.left = s.random.Perm(n)
	}
	i := s.left[0]
	s.left = s.left[1:]
	if i < len(all) {
		return all[i : i+1]
	}
	partners := slices.DeleteFunc(slices.Clone(all), func(f fault) bool { return f.alone })
	if len(partners) == 0 {
		return all[:1]
	}
	first := oneOf(s.random, partners...)
	for range 100 {
		second := oneOf(s.random, partners...)
		switch cmp.Compare(first.what, second.what) {
		case -1:
			return []fault{first, second}
		case 1:
			return []fault{second, first}
		}
	}
	return []fault{first} // all that were chosen hurt the same part
}

// strike does the faults at the same time and undoes them when their time has come. It does
// nothing if the context ends before the servers are ready for it.
func (s *schedule) strike(ctx context.Context, c *cluster, all []fault) []faultRecord {
	var unready error
	if slices.ContainsFunc(all, func(f fault) bool { return f.what == servers || f.what == links }) {
		unready = c.awaitSync(ctx)
		if ctx.Err() != nil {
			return nil
		}
	}
	records, undos := make([]faultRecord, len(all)), make([]undo, len(all))
	var length time.Duration
	for i, f := range all {
		r := &records[i]
		r.Fault, r.Name, r.Start = f.id, f.name, monotonic()
		var err error
		undos[i], err = f.strike(ctx, c, s.random, r)
		r.fail(err)
		r.unready(unready)
		if undos[i] != nil {
			length = max(length, f.length(s.random))
		}
	}
	if len(all) > 1 {
		combine(all, records)
	}
	s.sleep(ctx, length)
	undoing, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTime)
	defer cancel()
	for _, atServers := range []bool{false, true} { // a server that is cut off would not come up
		for i, f := range all {
			if undos[i] != nil && (f.what == servers) == atServers {
				records[i].fail(undos[i](undoing))
			}
		}
	}
	for i := range records {
		records[i].End = monotonic()
	}
	return records
}

// unready tells in the record that the servers were not in sync before they were hurt, if they were not.
func (r *faultRecord) unready(err error) {
	const told = ", not all servers in sync before"
	if err != nil && !strings.Contains(r.Detail, told) {
		r.Detail += told
	}
}

// fail notes why it could not be done or undone.
func (r *faultRecord) fail(err error) {
	if err != nil && r.Error != "" {
		r.Error += "; "
	}
	r.Error += text(err)
}

// combine says that faults come together. A server that is cut off and then falls silent, for
// some of its clients at least, tells them too late for StandardErrorPolicy.
func combine(all []fault, records []faultRecord) {
	silent := slices.ContainsFunc(all, func(f fault) bool { return f.silent })
	for i := range records {
		records[i].Fault = combined + " " + records[i].Fault
		if silent && len(records[i].Voids) > 0 {
			records[i].Voids = []framework.ErrorPolicy{framework.SessionErrorPolicy, framework.StandardErrorPolicy}
		}
	}
}

// sleep reports whether the time has passed before the context has ended.
func (s *schedule) sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
