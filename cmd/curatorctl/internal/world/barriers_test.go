// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/gocurator/curator/recipes/barriers"
)

// gate is what is known of the barrier.
type gate struct {
	setSince time.Time // since when it surely is set; zero if it may be open
	changes  int       // of it that are under way, or of which nobody knows whether they are
}

// gates prepares a barrier.
func (m *member) gates() error {
	barrier, err := barriers.NewDistributedBarrier(m.client, "/gate")
	if err != nil {
		return err
	}
	m.acts["barrier"] = func(ctx context.Context, random *rand.Rand) {
		switch random.IntN(4) {
		case 0:
			m.setGate(ctx, barrier)
		case 1:
			m.removeGate(ctx, barrier)
		default:
			m.waitAtGate(ctx, barrier, upTo(random, 10*time.Second))
		}
	}
	return nil
}

func (m *member) setGate(ctx context.Context, barrier *barriers.DistributedBarrier) {
	err := barrier.SetBarrier(ctx)
	m.logf("sets the barrier: %v", err)
	m.all.Lock()
	defer m.all.Unlock()
	if g := &m.all.gate; err == nil && g.changes == 0 && g.setSince.IsZero() {
		g.setSince = time.Now()
	}
}

func (m *member) removeGate(ctx context.Context, barrier *barriers.DistributedBarrier) {
	g := &m.all.gate
	m.all.Lock()
	g.setSince = time.Time{}
	g.changes++
	m.all.Unlock()
	err := barrier.RemoveBarrier(ctx)
	m.logf("removes the barrier: %v", err)
	m.all.Lock()
	defer m.all.Unlock()
	if err == nil { // otherwise it may be removed later
		g.changes--
	}
}

// waitAtGate finds that a process passes a barrier that was set all the time.
func (m *member) waitAtGate(ctx context.Context, barrier *barriers.DistributedBarrier, patience time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	began := time.Now()
	err := barrier.WaitOnBarrier(ctx)
	m.logf("waits at the barrier: %v", err)
	m.all.Lock()
	since := m.all.gate.setSince
	m.all.Unlock()
	if !m.o.is("faults", "clients") && !m.o.is("faults", "processes") { // a server that lags may not know it
		return
	}
	if isSet := !since.IsZero() && since.Add(100*time.Millisecond).Before(began); isSet && err == nil {
		m.findf("passes the barrier, which is set since %v", since)
	} else if isSet {
		m.all.chance(ruleGateHolds)
	}
}

// settleGate has all processes wait at the barrier, until it is removed.
func (all *truth) settleGate(ctx context.Context, m *member) {
	if !m.o.plays("barrier") {
		return
	}
	all.chance(ruleGateOpens)
	barrier, err := barriers.NewDistributedBarrier(m.client, "/gate")
	if err == nil {
		err = barrier.SetBarrier(ctx)
	}
	if err != nil {
		m.findf("the barrier: %v", err)
	}
	var removed time.Time
	var waiting sync.WaitGroup
	for _, other := range all.members {
		own, err := barriers.NewDistributedBarrier(other.client, "/gate")
		if err != nil {
			m.findf("the barrier: %v", err)
			return
		}
		waiting.Go(func() {
			if err := own.WaitOnBarrier(ctx); err != nil || removed.IsZero() || time.Since(removed) > time.Second {
				other.findf("waits at the barrier, which was removed at %v: %v", removed, err)
			}
		})
	}
	time.Sleep(time.Second)
	removed = time.Now()
	if err := barrier.RemoveBarrier(ctx); err != nil {
		m.findf("the barrier: %v", err)
	}
	waiting.Wait()
}

// together is how many processes a double barrier takes.
const together = 2

// visit is one process at the double barrier, from the call of Enter on.
type visit struct {
	client         int
	session        int64
	began, entered time.Time
	leaves, gone   time.Time // when Leave was called, and when nothing is left of the visit
}

// meetings are the visits of a double barrier.
type meetings struct{ visits []*visit }

// meets prepares a double barrier.
func (m *member) meets() error {
	m.acts["double barrier"] = func(ctx context.Context, random *rand.Rand) {
		barrier, err := barriers.NewDistributedDoubleBarrier(m.client, "/double", together)
		if err != nil {
			m.findf("the double barrier: %v", err)
			return
		}
		m.meet(ctx, barrier, upTo(random, 15*time.Second), upTo(random, 3*time.Second))
	}
	return nil
}

func (m *member) meet(ctx context.Context, barrier *barriers.DistributedDoubleBarrier, patience, lasts time.Duration) {
	v := &visit{client: m.c.Index, session: m.c.Session().ID(), began: time.Now()}
	m.all.Lock()
	m.all.meetings.visits = append(m.all.meetings.visits, v)
	m.all.Unlock()
	waiting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := barrier.Enter(waiting)
	m.logf("enters the double barrier: %v", err)
	m.entersMeeting(v, err)
	if err != nil {
		return
	}
	sleep(ctx, lasts)
	m.all.Lock()
	v.leaves = time.Now()
	m.all.Unlock()
	leaving, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err = barrier.Leave(leaving)
	m.logf("leaves the double barrier: %v", err)
	m.leavesMeeting(ctx, v, err)
}

// longestSession is how long what a killed process has left may be there.
const longestSession = 10 * time.Second

// entersMeeting finds that a process enters alone.
func (m *member) entersMeeting(v *visit, err error) {
	restored := m.forgets()
	m.all.Lock()
	defer m.all.Unlock()
	if err != nil {
		v.gone = time.Now().Add(2 * longestSession) // or earlier, if the deletion in the background succeeds
		return
	}
	v.entered = time.Now()
	n := 0
	for _, other := range m.all.meetings.visits {
		if other.gone.IsZero() || !other.gone.Before(v.began) {
			n++
		}
	}
	if n < together && !restored {
		defer m.findf("enters the double barrier with %d others", n-1)
	}
	m.all.chance(ruleMeet)
}

// leavesMeeting finds that a process has left before another one that it was inside with.
func (m *member) leavesMeeting(ctx context.Context, v *visit, err error) {
	session, restored := m.c.Session(), m.forgets()
	m.all.Lock()
	defer m.all.Unlock()
	v.gone = time.Now()
	switch {
	case ctx.Err() != nil || err != nil: // the deletion goes on in the background
		v.gone = v.gone.Add(2 * longestSession)
		return
	case restored || session.ID() != v.session || session.Err() != nil: // the round may have ended without this process
		return
	}
	for _, other := range m.all.meetings.visits {
		if other == v || other.entered.IsZero() || !other.entered.Before(v.leaves) || !other.gone.IsZero() && other.gone.Before(v.entered) {
			continue
		}
		m.all.chance(rulePart)
		before := m.all.members[other.client]
		if isAlive := before != nil && before.c.Session().ID() == other.session && before.c.Session().Err() == nil; isAlive && other.leaves.IsZero() {
			m.findf("has left the double barrier, and %d has not begun to", other.client)
		}
	}
}

// settleMeetings has processes meet twice.
func (all *truth) settleMeetings(ctx context.Context, m *member) {
	if !m.o.plays("double barrier") || len(all.members) < together {
		return
	}
	time.Sleep(2 * longestSession) // what killed processes have left is gone
	all.chance(ruleMeetAgain)
	for round := range 2 {
		var meeting sync.WaitGroup
		began := time.Now()
		for i, other := range all.sorted()[:together] {
			barrier, err := barriers.NewDistributedDoubleBarrier(other.client, "/double", together)
			if err != nil {
				m.findf("the double barrier: %v", err)
				return
			}
			meeting.Go(func() {
				time.Sleep(time.Duration(i) * time.Second)
				other.meet(ctx, barrier, time.Minute, time.Duration(i)*time.Second)
			})
		}
		meeting.Wait()
		if took := time.Since(began); took < 2*time.Second || took > 3*time.Second {
			m.findf("two processes have met for the %s time, in %v", []string{"first", "second"}[round], took)
		}
	}
	for _, z := range m.znodes("/double") {
		if z.Path != "/double" {
			m.findf("%s is left behind", z.Path)
		}
	}
}
