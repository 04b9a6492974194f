// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"maps"
	"slices"
)

// leftBehind finds what was still there when all was closed, or when the workers had stopped: by
// what the servers say, and by their log.
func leftBehind(r *roundReport) (found []violation) {
	left := func(p promise, n int, what string) {
		if n > 0 {
			found = append(found, violation{promise: p, count: n, round: r, what: fmt.Sprintf("%d %s", n, what)})
		}
	}
	quiet, after := r.record.Left, r.record.After
	left(noOrphan, quiet.Ephemerals+quiet.LockNodes, "ephemeral nodes or nodes of locks were left when all workers had stopped")
	left(noOrphan, after.Ephemerals+after.LockNodes, "ephemeral nodes or nodes of locks were left when all sessions were closed")
	left(noForgottenWatch, quiet.Watches, "watches were left when all workers had stopped")
	left(noForgottenWatch, after.Watches, "watches were left when all sessions were closed")
	if r.log == nil {
		return found
	}
	settled := r.settled()
	for _, n := range r.log.all {
		what := "was deleted only when all was closed"
		switch {
		case n.deleted == 0:
			what = "was never deleted"
		case n.ended <= settled:
			continue
		}
		found = append(found, violation{
			promise: noOrphan, round: r, what: fmt.Sprintf("%s of session %#x, created by %#x, %s", n.path, n.session, n.czxid, what),
		})
	}
	return found
}

// settled is when, by the clock of the log, everything has to be deleted that is deleted in the
// background after the workers have stopped.
func (r *roundReport) settled() int64 {
	var last int64
	for _, events := range r.events {
		for _, e := range events {
			if e.Kind == quiet {
				last = max(last, e.At)
			}
		}
	}
	if last == 0 || r.record.WallOffset == 0 {
		return forever // it is not known
	}
	return r.wall(last + int64(settleTime))
}

// stuck finds the locks that somebody could not get in the end.
func stuck(r *roundReport) (found []violation) {
	for _, lock := range r.record.Stuck {
		found = append(found, violation{promise: nobodyStuck, round: r, what: lock + " could not be acquired after the last fault"})
	}
	return found
}

// unconfirmed finds sessions whose end no server has confirmed, although all faults were over. A Close
// that meets the loss of its connection does not wait for another one, and says so. On a busy machine a server can lose
// its leader without a fault.
func unconfirmed(r *roundReport) (found []violation) {
	for _, client := range slices.Sorted(maps.Keys(r.events)) {
		lost := int64(0) // when the client last needed another connection
		for _, e := range r.events[client] {
			if e.Kind == dialed {
				lost = e.At
			}
			if e.Kind == closed && e.Unconfirmed != "" && e.At-lost > r.record.SessionTimeout {
				found = append(found, violation{promise: nobodyStuck, round: r, at: e.At, what: fmt.Sprintf("client %s: %s", client, e.Unconfirmed)})
			}
		}
	}
	return found
}

// unfinished finds processes that could not be closed or have left something behind, and calls that
// never returned.
func unfinished(r *roundReport) (found []violation) {
	add := func(at int64, format string, args ...any) {
		found = append(found, violation{promise: nobodyStuck, round: r, at: at, what: fmt.Sprintf(format, args...)})
	}
	killed := r.killed()
	for _, client := range slices.Sorted(maps.Keys(r.events)) {
		if killed[client] {
			continue
		}
		open := make(map[string]event) // acquisitions that were called
		isClosed := false
		for _, e := range r.events[client] {
			switch e.Kind {
			case called:
				open[e.Hold] = e
			case acquired, failed:
				delete(open, acquisition(e.Hold))
			case closed:
				isClosed = true
				if e.Error != "" {
					add(e.At, "client %s has left something behind: %s", client, e.Error)
				}
			default: // neither begins nor ends anything
			}
		}
		if !isClosed {
			add(0, "client %s was not closed, and not killed", client)
			continue
		}
		for _, e := range open {
			add(e.At, "acquisition %s of %s was called and has never returned", e.Hold, e.Lock)
		}
	}
	return found
}
