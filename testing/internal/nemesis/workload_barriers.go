// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/gocurator/curator/recipes/barriers"
)

// noBarrierLeak says that no member passes a double barrier before enough have
// come, or leaves it before all have left.
const noBarrierLeak promise = "barrier_leaks"

const (
	entered eventKind = "entered" // a member has passed the barrier; Called is when its Enter was
	left    eventKind = "left"    // its Leave has succeeded; Owner is the one of the entry
)

// barrierMembers is how many open the barrier.
const barrierMembers = 3

// prepareBarrier enters a double barrier and leaves it. In the last turn others
// may have made theirs already, so the worker then brings all members itself.
func prepareBarrier(w *worker) (func(context.Context), error) {
	member, err := barriers.NewDistributedDoubleBarrier(w.client.framework, w.spec.path(), barrierMembers)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) {
		if w.last {
			w.meetAlone(ctx)
			return
		}
		w.meet(ctx, member)
	}, nil
}

// meet is a round at the barrier.
func (w *worker) meet(ctx context.Context, member *barriers.DistributedDoubleBarrier) {
	enter, cancel := w.bounds(ctx)
	defer cancel()
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		select {
		case <-w.client.stopping: // the others will come no more
			cancel()
		case <-stop:
		}
	}()
	c := w.call(w.spec.Name, "", false)
	if err := member.Enter(enter); err != nil {
		c.failed(monotonic(), err)
		return
	}
	w.client.history.add(event{Kind: entered, Lock: w.spec.Name, Owner: c.id, Called: c.asked, Outcome: accepted})
	w.pause(w.upTo(middleHold))
	leave, cancelLeave := context.WithTimeout(ctx, patience)
	defer cancelLeave()
	if err := member.Leave(leave); err != nil {
		c.failed(monotonic(), err)
		return
	}
	w.client.history.add(event{Kind: left, Lock: w.spec.Name, Owner: c.id, Outcome: accepted})
	c.ended(monotonic(), nil)
}

// meetAlone is a round of a barrier that the worker has for itself.
func (w *worker) meetAlone(ctx context.Context) {
	ctx, cancel := w.bounds(ctx)
	defer cancel()
	c := w.call(w.spec.Name, "", false)
	errs := make([]error, barrierMembers)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() {
			member, err := barriers.NewDistributedDoubleBarrier(w.client.framework, w.spec.path()+"-last/"+w.client.cfg.Name, barrierMembers)
			if err == nil {
				err = member.Enter(ctx)
			}
			if err == nil {
				err = member.Leave(ctx)
			}
			errs[i] = err
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		c.failed(monotonic(), err)
		return
	}
	c.ended(monotonic(), nil)
}

func entriesOf(r *roundReport, spec lockSpec) int { return r.countOf(spec, entered) }

// opening is a life of the node that opens a double barrier.
type opening struct {
	logWrite

	closed int64 // zxid; math.MaxInt64 is never
	ended  int64 // when the leader began with that, as the time
	peak   int   // how many members there were at one time when it was created, at most; -1 if that is not known
}

// meeting is what the servers have of one barrier in an era.
type meeting struct {
	round    *roundReport
	queue    *queue
	members  []*lockNode // in the order of their creation
	openings []opening
	few      []logWrite // of openings, that no majority has
	sessions map[int64]string
}

func newMeeting(r *roundReport, log *transactionLog, spec lockSpec) *meeting {
	const ready = "/ready"
	m := &meeting{round: r, few: log.few.writes[spec.path()+ready], sessions: r.sessions()}
	if m.queue = log.queues[spec.path()]; m.queue == nil {
		m.queue = &queue{}
	}
	m.members = m.queue.nodes
	for _, w := range log.writes[spec.path()+ready] {
		switch {
		case !w.deleted:
			m.openings = append(m.openings, opening{logWrite: w, closed: math.MaxInt64, ended: math.MaxInt64, peak: m.peak(w)})
		case len(m.openings) > 0:
			last := &m.openings[len(m.openings)-1]
			last.closed, last.ended = w.zxid, w.time
		}
	}
	return m
}

// peak is how many members there were at one time, at most, from when the one
// came that has opened the barrier until it did. What it has counted may be
// older than the opening, but not older than itself.
func (m *meeting) peak(ready logWrite) int {
	client := m.sessions[ready.session]
	place, _ := slices.BinarySearchFunc(m.members, ready.zxid, func(n *lockNode, zxid int64) int { return cmp.Compare(n.czxid, zxid) })
	creator := lastOf(m.members[:place], func(n *lockNode) bool { return client != "" && m.sessions[n.session] == client })
	if creator == nil {
		return -1
	}
	there := m.queue.ahead(ready.zxid, creator.created-1)
	most := 0
	for _, at := range there {
		moment, n := max(at.czxid, creator.czxid), 0
		for _, other := range there {
			if other.czxid <= moment && (other.deleted == 0 || other.deleted > moment) {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

// lastOf is the last of the nodes for which fn is true, nil if there is none.
func lastOf(nodes []*lockNode, fn func(*lockNode) bool) *lockNode {
	for _, n := range slices.Backward(nodes) {
		if fn(n) {
			return n
		}
	}
	return nil
}

// memberOf is the node by which a client has entered, nil if its session is not
// known: the one that was created during the call.
func (m *meeting) memberOf(e event) (found *lockNode) {
	from, until := m.round.wall(e.Called-clockTolerance), m.round.wall(e.At+clockTolerance)
	first, _ := slices.BinarySearchFunc(m.members, from, func(n *lockNode, at int64) int { return cmp.Compare(n.created, at) })
	for _, n := range m.members[first:] {
		if n.created > until {
			break
		}
		if m.sessions[n.session] == e.Client {
			found = n
		}
	}
	return found
}

// passes returns the first opening by which a member may have passed until a
// moment: one that is younger than it, or one that was there already, with a
// member that is older still.
func (m *meeting) passes(n *lockNode, until int64) *opening {
	for i, o := range m.openings {
		switch {
		case o.time > until:
			return nil
		case o.zxid > n.czxid, o.closed > n.czxid && m.hasOlder(o.zxid, n.czxid):
			return &m.openings[i]
		}
	}
	return nil
}

// hasOlder reports whether a member that came before an opening was there after
// another moment.
func (m *meeting) hasOlder(opened, moment int64) bool {
	return slices.ContainsFunc(m.members, func(n *lockNode) bool {
		return n.czxid <= opened && (n.deleted == 0 || n.deleted > moment)
	})
}

// barrierLeaks finds members that the servers' log contradicts: they have passed
// a barrier that nothing had opened for them, or that was opened before enough
// members were there; or they have left while a member of their round was there.
// A restore ends the sessions of all members, so nothing is left of a round that was there before.
func barrierLeaks(r *roundReport, spec lockSpec) (found []violation) {
	if r.log == nil || r.record.WallOffset == 0 {
		return nil
	}
	add := func(at int64, format string, args ...any) {
		found = append(found, violation{promise: noBarrierLeak, round: r, at: at, what: spec.Name + ": " + fmt.Sprintf(format, args...)})
	}
	var meetings []*meeting
	for _, e := range r.eras {
		m := newMeeting(r, e.log, spec)
		meetings = append(meetings, m)
		for _, o := range m.openings {
			if o.zxid > e.base && o.peak >= 0 && o.peak < barrierMembers {
				add(0, "the opening %#x was made by one of %d members, expected %d", o.zxid, o.peak, barrierMembers)
			}
		}
	}
	for _, events := range r.events {
		passages := make(map[string]passage) // by call
		for _, e := range events {
			until, m := r.wall(e.At+clockTolerance), meetings[r.eraAt(e.At)]
			switch {
			case e.Lock != spec.Name:
			case e.Kind == entered:
				p := passage{meeting: m, member: m.memberOf(e), until: until}
				if p.member == nil {
					continue // its session is not known
				}
				if p.by = m.passes(p.member, until); p.by == nil && len(m.few) == 0 {
					add(e.At, "%s has passed by %s, and nothing had opened the barrier", e.Client, p.member.path)
				}
				passages[e.Owner] = p
			case e.Kind == left && passages[e.Owner].by != nil && passages[e.Owner].meeting == m:
				if other := m.stays(passages[e.Owner], until); other != nil {
					add(e.At, "%s has left while %s of session %#x was there, which is of its round", e.Client, other.path, other.session)
				}
			}
		}
	}
	return found
}

// passage is how a member has passed.
type passage struct {
	meeting *meeting
	member  *lockNode
	by      *opening
	until   int64 // when it had
}

// stays is a member of the same round that was still there at a moment after p's
// has left. A member that was told of an opening, but did not see it, knows only
// those that came before itself.
func (m *meeting) stays(p passage, moment int64) *lockNode {
	last := p.by.zxid
	if last > p.member.czxid && p.by.ended <= p.until {
		last = p.member.czxid
	}
	for _, other := range m.queue.ahead(last+1, moment) {
		if other != p.member {
			return other
		}
	}
	return nil
}
