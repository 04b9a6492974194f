// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// promise is a property that no campaign may find broken, by its name in the
// last line of the report.
type promise string

const (
	noOverlap        promise = "overlaps"          // of holds that exclude each other
	risingTokens     promise = "token_regressions" // a token is above all before
	noLostUpdate     promise = "lost_updates"      // what was acknowledged is there, once
	legal            promise = "illegal"           // a history that the recipe's model allows
	decided          promise = "unknown"           // one that could be checked in time
	firstComeFirst   promise = "fifo_inversions"   // the queue is served in order
	withinPermits    promise = "over_permits"      // no more leases than there are
	noOrphan         promise = "orphans"           // nodes that outlive their use
	noForgottenWatch promise = "watches"           // likewise
	nobodyStuck      promise = "stuck"             // waiters, calls and processes end
)

// promisesOf returns the common promises, and those that have another name for a recipe of a campaign, in the
// order of the last line. A zero for a recipe that was not played would prove nothing.
func promisesOf(record *campaignRecord) []promise {
	played := make(map[string]bool)
	for _, r := range record.Rounds {
		for _, spec := range r.Locks {
			played[spec.Workload] = true
		}
	}
	all := slices.Clone(promises)
	for _, w := range workloads {
		if played[w.name] && w.overlap != "" {
			all = append(all, w.overlap)
		}
	}
	return all
}

// name gives overlaps the names that their recipes have for them.
func name(found []violation) []violation {
	for i, v := range found {
		if len(v.holds) == 0 {
			continue
		}
		if own := workloadOf(v.holds[0].spec).overlap; own != "" && v.promise == noOverlap {
			found[i].promise = own
		}
	}
	return found
}

// promises are the common ones, in the order of the last line.
var promises = []promise{
	noOverlap, risingTokens, noLostUpdate, legal, decided, firstComeFirst, withinPermits, noOrphan, noForgottenWatch, nobodyStuck,
}

// violation is one breach of a promise, with what proves it.
type violation struct {
	promise promise
	count   int // 0 is 1
	round   *roundReport
	at      int64 // when; 0 is in the end
	what    string
	holds   []*hold // concerned
}

// check looks for violations in one round.
type check struct {
	find func(*roundReport) ([]violation, error)

	// servers says that it relies on what the servers have in the end, in their logs, or in their answers
	// to a client that only looks. The others rely on what the clients know among themselves.
	servers bool
}

// checks are all that there are.
var checks = []check{
	{find: without(overlaps)},
	{find: without(permits)},
	{find: without(tokens)},
	{find: without(fifo)},
	{find: models},
	{find: without(unfinished)},
	{find: without(sets), servers: true},
	{find: without(serverTokens), servers: true},
	{find: without(serverOrder), servers: true},
	{find: without(leftBehind), servers: true},
	{find: without(stuck), servers: true},
	{find: without(unconfirmed), servers: true},
}

// without makes a search of one that cannot fail.
func without(c func(*roundReport) []violation) func(*roundReport) ([]violation, error) {
	return func(r *roundReport) ([]violation, error) { return c(r), nil }
}

// String is the violation with its evidence: the holds concerned and the faults of that
// time. Times are those since the round began.
func (v violation) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: round %s", v.promise, v.round.record.Folder)
	if v.at != 0 {
		fmt.Fprintf(&b, " at %s", v.round.since(v.at))
	}
	fmt.Fprintf(&b, ": %s", v.what)
	from := v.at
	for _, h := range v.holds {
		fmt.Fprintf(&b, "\n    %s", v.round.describe(h))
		from = min(from, h.called)
	}
	if v.at != 0 {
		for _, f := range v.round.active(from, v.at) {
			fmt.Fprintf(&b, "\n    %s to %s: %s %s: %s", v.round.since(f.Start), v.round.since(f.End), f.Fault, f.Name, f.Detail)
		}
	}
	return b.String()
}

// describe is a hold in one line.
func (r *roundReport) describe(h *hold) string {
	var b strings.Builder
	fmt.Fprintf(&b, "hold %s of %s by %s: token %#x, node %s, session %#x", h.id, h.lock, h.owner, h.token, h.node, h.session)
	if h.shared {
		b.WriteString(", shared")
	}
	fmt.Fprintf(&b, ": called %s, acquired %s", r.since(h.called), r.since(h.acquired))
	for _, moment := range []struct {
		name string
		at   int64
	}{
		{"valid until", h.validUntil()}, {"releasing", h.releasing}, {"released", h.released}, {"lost", h.lost}, {"hurt from outside", h.outside},
	} {
		if moment.at != 0 {
			fmt.Fprintf(&b, ", %s %s", moment.name, r.since(moment.at))
		}
	}
	if h.failed != "" {
		fmt.Fprintf(&b, ", with %q", h.failed)
	}
	return b.String()
}

// since is a moment as the time since the round began.
func (r *roundReport) since(at int64) string {
	if at >= forever {
		return "never"
	}
	return fmt.Sprintf("%.6fs", time.Duration(at-r.record.Start).Seconds())
}
