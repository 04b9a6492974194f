// SPDX-License-Identifier: Apache-2.0

package zkserver

import (
	"slices"
	"time"
)

// link is one direction of the network between two servers. What is sent over it arrives in order. As with TCP, a link that is
// cut keeps what is sent, and delivers it once it is healed.
type link struct {
	cuts  int // how many are in force
	delay time.Duration
	last  time.Time // when what was sent last arrives
	held  []func()
}

// occurrence is something that happens to a server at a time.
type occurrence struct {
	due time.Time
	seq int // of those due at the same time the first comes first
	m   *member
	do  func()
}

// at has do happen to m after d, and once m is not paused. m may be nil.
func (e *Ensemble) at(d time.Duration, m *member, do func()) {
	e.schedule(time.Now().Add(d), m, do)
}

func (e *Ensemble) schedule(due time.Time, m *member, do func()) {
	e.scheduled++
	ev := occurrence{due: due, seq: e.scheduled, m: m, do: do}
	i, _ := slices.BinarySearchFunc(e.events, ev, func(a, b occurrence) int {
		if c := a.due.Compare(b.due); c != 0 {
			return c
		}
		return a.seq - b.seq
	})
	e.events = slices.Insert(e.events, i, ev)
	if i == 0 && !e.settling && (e.alarm.IsZero() || due.Before(e.alarm)) {
		select {
		case e.wake <- struct{}{}:
		default:
		}
	}
}

// settle runs what is due. Whatever makes something due for now calls it before it unlocks mu.
func (e *Ensemble) settle() {
	if e.settling {
		return
	}
	e.settling = true
	defer func() { e.settling = false }()
	for len(e.events) > 0 && !e.events[0].due.After(time.Now()) {
		ev := e.events[0]
		e.events = slices.Delete(e.events, 0, 1)
		ev.m.receive(ev.do)
	}
	if len(e.events) > 0 && (e.alarm.IsZero() || e.events[0].due.Before(e.alarm)) {
		select {
		case e.wake <- struct{}{}:
		default:
		}
	}
}

// receive has something happen to a server, once it is not paused. m may be nil.
func (m *member) receive(do func()) {
	if m != nil && m.isPaused() {
		m.inbox = append(m.inbox, do)
		return
	}
	do()
}

// run runs what becomes due later.
func (e *Ensemble) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-e.wake:
		case <-e.stop:
			return
		}
		e.mu.Lock()
		e.alarm = time.Time{}.Add(1) // what is scheduled now needs no wake-up
		e.settle()
		e.alarm = time.Time{}
		if len(e.events) > 0 {
			e.alarm = e.events[0].due
			timer.Reset(time.Until(e.alarm))
		}
		e.mu.Unlock()
	}
}

// send has do happen to a server when what another one sends now arrives.
func (e *Ensemble) send(from, to *member, do func()) {
	if from == to {
		do()
		return
	}
	l := &e.links[from.id-1][to.id-1]
	arrives := time.Now().Add(l.delay)
	if arrives.Before(l.last) {
		arrives = l.last
	}
	l.last = arrives
	e.schedule(arrives, nil, func() { // also while the receiver is paused, or what was held would come after it
		if l.cuts > 0 || len(l.held) > 0 { // what was held comes first
			l.held = append(l.held, do)
			return
		}
		to.receive(do)
	})
}

// reaches reports whether two servers hear each other.
func (e *Ensemble) reaches(a, b *member) bool {
	return a == b || e.links[a.id-1][b.id-1].cuts == 0 && e.links[b.id-1][a.id-1].cuts == 0
}

// Cut cuts the network between two servers until heal is called. Neither learns of it, and clients reach both. What they send
// each other arrives after heal, unless they have given each other up by then: a follower does so after syncLimit ticks
// without its leader, and a leader after syncLimit ticks without a majority. Until then both go on answering. Calling heal
// again does nothing.
func (e *Ensemble) Cut(a, b *Server) (heal func()) {
	e.mustHave("Cut", a, b)
	return e.cut("Cut", a, [][2]*Server{{a, b}, {b, a}})
}

// CutOneWay is [Ensemble.Cut] for what one server sends to the other.
func (e *Ensemble) CutOneWay(from, to *Server) (heal func()) {
	e.mustHave("CutOneWay", from, to)
	return e.cut("CutOneWay", from, [][2]*Server{{from, to}})
}

// Isolate cuts the network between these servers and all others.
func (e *Ensemble) Isolate(servers ...*Server) (heal func()) {
	if len(servers) == 0 {
		return func() {}
	}
	e.mustHave("Isolate", servers...)
	var pairs [][2]*Server
	for _, s := range servers {
		for _, m := range e.members {
			if !slices.Contains(servers, m.s) {
				pairs = append(pairs, [2]*Server{s, m.s}, [2]*Server{m.s, s})
			}
		}
	}
	return e.cut("Isolate", servers[0], pairs)
}

func (e *Ensemble) cut(how string, first *Server, pairs [][2]*Server) (heal func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, p := range pairs {
		first.commandf(0, "%s: server %d to %d", how, p[0].member.id, p[1].member.id)
		e.links[p[0].member.id-1][p[1].member.id-1].cuts++
	}
	healed := false
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		if healed {
			return
		}
		healed = true
		first.commandf(0, "%s: heal", how)
		for _, p := range pairs {
			e.heal(p[0].member, p[1].member)
		}
		e.settle()
	}
}

func (e *Ensemble) heal(from, to *member) {
	l := &e.links[from.id-1][to.id-1]
	if l.cuts--; l.cuts > 0 {
		return
	}
	e.at(l.delay, nil, func() {
		for len(l.held) > 0 && l.cuts == 0 {
			do := l.held[0]
			l.held = l.held[1:]
			to.receive(do)
		}
	})
}

// Delay has what one server sends to another arrive after d, in order. 0, the default, is at once.
func (e *Ensemble) Delay(from, to *Server, d time.Duration) {
	e.mustHave("Delay", from, to)
	e.mu.Lock()
	defer e.mu.Unlock()
	from.commandf(0, "Delay to server %d: %v", to.member.id, d)
	e.links[from.member.id-1][to.member.id-1].delay = d
}
