// SPDX-License-Identifier: Apache-2.0

package zkserver_test

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// check returns how a history breaks the rules of ensembles, or nil. A read may be old. But each answer is that of the contents
// after the transaction that it names, transactions happen once and in one order, and no client goes back.
func (h *history) check() error {
	h.resolve()
	for _, rule := range []func(*history) error{
		(*history).sessionsNeverGoBack, (*history).timeIsKept, (*history).syncsReach, (*history).movedSessionsStay,
		(*history).calmServersLoseNothing, (*history).answersAreExplained,
	} {
		if err := rule(h); err != nil {
			return err
		}
	}
	return nil
}

// resolve gives writes without an answer the numbers that others have seen their data with.
func (h *history) resolve() {
	seen := make(map[string]int64)
	for _, e := range h.exchanges {
		if e.op == 4 && e.ended != 0 && e.err == 0 && e.outcome.data != "" {
			seen[e.outcome.data] = e.stat.mzxid
		}
	}
	for i, e := range h.exchanges {
		if !e.isWrite() || e.ended != 0 {
			continue
		}
		for _, w := range append(slices.Clone(e.wish.parts), e.wish) {
			if zxid := seen[w.data]; w.data != "" && zxid != 0 {
				h.exchanges[i].zxid = zxid
			}
		}
	}
}

// sessionsNeverGoBack: what a session hears is never older than what it has heard, at whatever server.
func (h *history) sessionsNeverGoBack() error {
	newest := make(map[int64]exchange)
	for _, e := range h.exchanges {
		if e.ended == 0 || e.stale || e.op == opAttach {
			continue
		}
		if before := newest[e.session]; e.zxid < before.zxid {
			return fmt.Errorf("a session goes back:\n%v\n%v", before, e)
		}
		newest[e.session] = e
	}
	return nil
}

// hasNumber reports whether it is known which transaction a write was.
func (e exchange) hasNumber() bool {
	return e.isWrite() && e.zxid != 0 && e.err != -112 && e.err != -118
}

// timeIsKept: each write has a number of its own, which is larger than all that was heard before the write began.
func (h *history) timeIsKept() error {
	for _, w := range h.exchanges {
		if !w.hasNumber() {
			continue
		}
		for _, e := range h.exchanges {
			switch {
			case e.ended == 0 || e.op == opAttach:
			case e.ended < w.began && e.zxid >= w.zxid:
				return fmt.Errorf("a write is numbered before what was heard before it:\n%v\n%v", e, w)
			case e.hasNumber() && e.zxid == w.zxid && (e.began != w.began || e.String() != w.String()):
				return fmt.Errorf("two writes have one number:\n%v\n%v", e, w)
			}
		}
	}
	return nil
}

// syncsReach: a sync brings all that was written before it began. A leader that is none may answer one, and the last client comes
// when there is none.
func (h *history) syncsReach() error {
	for _, s := range h.exchanges {
		if s.op != 9 || s.ended == 0 || s.err != 0 || h.deposed && s.client != "last" {
			continue
		}
		for _, w := range h.exchanges {
			if w.hasNumber() && w.ended != 0 && w.ended < s.began && w.zxid > s.zxid {
				return fmt.Errorf("a sync lacks what was written before:\n%v\n%v", w, s)
			}
		}
	}
	return nil
}

// movedSessionsStay: over a connection that its session has left nothing is written, and over another one nothing is refused.
func (h *history) movedSessionsStay() error {
	attached := make(map[int64]int)
	for _, e := range h.exchanges {
		switch {
		case e.op == opAttach:
			attached[e.session]++
		case e.stale && e.hasNumber():
			return fmt.Errorf("a session that has moved writes where it was:\n%v", e)
		case !e.stale && e.err == -118 && attached[e.session] < 2:
			return fmt.Errorf("a session has moved that has not:\n%v", e)
		}
	}
	return nil
}

// calmServersLoseNothing: without faults each request is answered, and no session ends of a client that was heard a moment ago.
func (h *history) calmServersLoseNothing() error {
	heard := make(map[int64]time.Duration)
	for _, e := range h.exchanges {
		if e.op == opClose {
			heard[e.session] = -time.Hour // what comes behind it is for nothing
			continue
		}
		isGone := e.err == -112 || e.ended == 0 && e.op != opAttach
		if h.calm && !e.stale && isGone && e.began-heard[e.session] < 900*time.Millisecond {
			return fmt.Errorf("lost without faults:\n%v", e)
		}
		if e.ended != 0 {
			heard[e.session] = e.ended
		}
	}
	return nil
}

// uncertain is a write without an answer, or the end of a session, which may have happened between two transactions.
type uncertain struct {
	exchange

	after, before int64 // it has a number between these
	must          bool  // it has happened by then
}

// possible is what there may be after a transaction.
type possible struct {
	*znodes

	pending uint64 // bits of uncertain writes that have not happened yet
}

const forever = 1<<63 - 1

// answersAreExplained: there is an order of all writes in which each answer is right. Those that are answered have their numbers.
// Those that are not may have happened, once. A session ends once.
func (h *history) answersAreExplained() error {
	events, doubts := h.sorted()
	start := &znodes{nodes: map[string]znode{"/": {}}, over: map[int64]bool{}}
	all := []possible{{znodes: start, pending: 1<<len(doubts) - 1}}
	last := int64(0)
	for _, e := range events {
		free := int64(len(doubts)) // numbers for what is uncertain
		if e.zxid>>32 == last>>32 {
			free = e.zxid - last
		}
		if e.isWrite() && free > 0 {
			free--
		}
		var next []possible
		for _, p := range withDoubts(all, doubts, e, free) {
			if after, holds := p.allows(e); holds {
				next = append(next, possible{znodes: after, pending: p.pending})
			}
		}
		if len(next) == 0 {
			return fmt.Errorf("no order of writes explains an answer:\n%v\nThere may be %+v\nuncertain: %v", e, all[0].znodes, doubts)
		}
		all, last = next, e.zxid
	}
	return nil
}

// allows returns what there is after an event, if it can happen.
func (p possible) allows(e exchange) (*znodes, bool) {
	if e.isRead() {
		return p.znodes, e.matches(p.read(e.wish))
	}
	if p.over[e.session] { // ZooKeeper refuses a multi by its first part, and this package refuses it as a whole
		return p.znodes, e.err == -112 || len(e.outcome.parts) > 0 && e.outcome.parts[0].err == -112
	}
	after, want := p.write(e.wish, e.session, e.zxid)
	return after, e.ended == 0 || e.matches(want) // without an answer, a client has seen its data
}

func (o outcome) succeeds() bool {
	return o.err == 0 && !slices.ContainsFunc(o.parts, func(part outcome) bool { return part.err != 0 })
}

// withDoubts adds what there may be at an event when some of what is uncertain has happened before, at most free of it.
func withDoubts(all []possible, doubts []uncertain, e exchange, free int64) []possible {
	seen := make(map[string]bool)
	for _, p := range all {
		seen[fmt.Sprint(p.key(), p.pending)] = true
	}
	for newest := all; free > 0 && len(newest) > 0; free-- {
		var more []possible
		for _, p := range newest {
			for i, d := range doubts {
				if p.pending>>i&1 == 0 || d.after >= e.zxid || !p.mayHappen(doubts, i) {
					continue
				}
				after, o := p.write(d.wish, d.session, unseen)
				next := possible{znodes: after, pending: p.pending &^ (1 << i)}
				if key := fmt.Sprint(next.key(), next.pending); o.succeeds() && !seen[key] {
					seen[key] = true
					more = append(more, next)
				}
			}
		}
		all = append(all, more...)
		newest = more
	}
	var left []possible
	for _, p := range all {
		late := false
		for i, d := range doubts {
			if p.pending>>i&1 == 1 && d.before <= e.zxid {
				late = late || d.must && !p.over[d.session]
				p.pending &^= 1 << i
			}
		}
		if !late {
			left = append(left, p)
		}
	}
	return left
}

// mayHappen reports whether no later write of the session has happened.
func (p possible) mayHappen(doubts []uncertain, i int) bool {
	for j := i + 1; j < len(doubts); j++ {
		if doubts[j].session == doubts[i].session && p.pending>>j&1 == 0 {
			return false
		}
	}
	return true
}

// sorted returns what has a number, in its order, and what has none.
func (h *history) sorted() (events []exchange, doubts []uncertain) {
	ended := make(map[int64]bool)
	for i, e := range h.exchanges {
		switch {
		case e.hasNumber(), e.isRead() && e.ended != 0:
			events = append(events, e)
		case e.err == -112 && !ended[e.session]:
			ended[e.session] = true
			doubts = append(doubts, h.endOf(e))
		case e.isWrite() && e.ended == 0 && !e.stale:
			doubts = append(doubts, h.uncertain(i))
		}
	}
	slices.SortStableFunc(events, func(a, b exchange) int {
		if a.zxid == b.zxid && a.isWrite() != b.isWrite() {
			return cmp.Compare(rank(a), rank(b))
		}
		return cmp.Compare(a.zxid, b.zxid)
	})
	return events, doubts
}

// rank has a write come before those that read its result.
func rank(e exchange) int {
	if e.isWrite() {
		return 0
	}
	return 1
}

// uncertain returns the bounds of a write without an answer: what was heard before it, and what its session has written later.
func (h *history) uncertain(i int) uncertain {
	d := uncertain{exchange: h.exchanges[i], before: forever}
	for j, e := range h.exchanges {
		switch {
		case e.op == opAttach || e.ended == 0:
		case e.ended < d.began:
			d.after = max(d.after, e.zxid)
		case j > i && e.session == d.session && e.hasNumber():
			d.before = min(d.before, e.zxid)
		}
	}
	return d
}

// endOf returns the bounds of the end of a session that was refused. If the leader was the same before and after, it has proposed
// the end by then. Another leader need not know of that. A leader that is none may be wrong about sessions, and so may any server
// about a session that has heard nothing yet.
func (h *history) endOf(refused exchange) uncertain {
	d := uncertain{exchange: refused, before: forever}
	d.wish = wish{op: opClose}
	newest := int64(0)
	for _, e := range h.exchanges {
		if e.hasNumber() && e.began > refused.ended {
			d.before = min(d.before, e.zxid)
		}
		if e.hasNumber() && e.ended != 0 && e.ended < refused.began {
			newest = max(newest, e.zxid)
		}
	}
	if d.must = refused.zxid != 0 && !h.deposed && newest>>32 == d.before>>32; !d.must {
		d.before = forever
	}
	return d
}
