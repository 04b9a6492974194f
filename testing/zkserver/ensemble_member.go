// SPDX-License-Identifier: Apache-2.0

package zkserver

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"time"
)

// member is what a server of an ensemble has beside one that stands alone. Server.mu, which is Ensemble.mu, guards it.
type member struct {
	e  *Ensemble
	s  *Server
	id int // from 1

	observes bool // it never votes
	left     bool // the ensemble, which goes on without it

	// What it keeps on its disk beside tree and sessions of the server, which have what it has applied.
	tail      []*entry // logged and not applied, in order
	committed int64    // the newest transaction that it knows to be committed
	before    *state   // what it had before it joined, for LoseUnsynced; nil if it has lost that

	as        *learner                // its part in a term; nil while it looks for a leader, or is stopped
	looksFrom time.Duration           // on the server's clock
	heard     time.Duration           // likewise, when it heard its leader last
	touched   map[int64]time.Duration // sessions that its clients have used since it last told the leader, with their timeouts
	syncs     []syncing
	inbox     []func() // what has arrived while it was paused

	lag       *lag  // nil for none
	ripe      int64 // the newest transaction that it may apply, as far as time is concerned
	forced    int64 // the newest that it applies without waiting for later ones
	applying  *entry
	preferred bool // ChangeLeader wants it
	beating   bool // its beat is scheduled
}

type lag struct {
	time         time.Duration
	transactions int
}

// syncing is a sync that is answered once a transaction is applied.
type syncing struct {
	zxid int64
	p    *pending
}

// state is what a server keeps over a stop.
type state struct {
	tree      *tree
	sessions  map[int64]*session
	tail      []*entry
	committed int64
}

// become replaces what a server keeps.
func (m *member) become(st state) {
	m.s.tree, m.s.sessions = st.tree, st.sessions
	m.tail, m.committed = st.tail, st.committed
	m.ripe, m.forced = st.committed, 0
}

// copySessions copies sessions without what belongs to one server.
func copySessions(from map[int64]*session) map[int64]*session {
	copied := make(map[int64]*session, len(from))
	for id, ss := range from {
		if !ss.local {
			copied[id] = &session{id: id, password: ss.password, timeout: ss.timeout}
		}
	}
	return copied
}

// term is the time of one leader, until it gives up.
type term struct {
	e         *Ensemble
	leader    *member
	zxid      int64 // proposed last; its upper half is the epoch
	committed int64
	learners  []*learner        // by id, nil for a server that does not follow; the leader is one of them
	owners    map[int64]*member // of sessions: the server that a session has come to last
	isOver    bool
	noQuorum  int // half ticks in a row without a majority
}

// learner is a server's part in a term: a connection to the leader. What is sent over a connection that has ended does nothing.
type learner struct {
	term  *term
	m     *member
	acked int64         // the newest transaction that it has logged
	heard time.Duration // when the leader heard it last, on the leader's clock
}

func (m *member) votes() bool     { return !m.observes && !m.left }
func (m *member) isLooking() bool { return m.as == nil }
func (m *member) isLeading() bool { return m.as != nil && m.as.term.leader == m }
func (m *member) isPaused() bool  { return m.s.gate.isShut() }
func (m *member) isUp() bool      { return m.s.run != nil && !m.isPaused() }

func (e *Ensemble) quorum() int {
	voters := 0
	for _, m := range e.members {
		if m.votes() {
			voters++
		}
	}
	return voters/2 + 1
}

// term returns the term of the leader that a majority follows, or nil.
func (e *Ensemble) term() *term {
	for _, m := range e.members {
		if m.isLeading() && m.isUp() && m.as.term.followers(m) >= e.quorum() {
			return m.as.term
		}
	}
	return nil
}

// followers counts the servers in the term that vote, run and hear m, and the leader among them.
func (t *term) followers(m *member) int {
	n := 0
	for _, l := range t.learners {
		if l != nil && l.m.votes() && l.m.isIn(t) && t.e.reaches(l.m, m) {
			n++
		}
	}
	return n
}

// isIn reports whether the server runs and has a part in a term.
func (m *member) isIn(t *term) bool { return m.as != nil && m.as.term == t && m.isUp() }

// leaderServer is the server that leads m's side, or nil.
func (m *member) leaderServer() *Server {
	if m.as == nil || m.as.term.isOver {
		return nil
	}
	return m.as.term.leader.s
}

// started begins the life of the server's process.
func (m *member) started() {
	m.look("it has started")
	if !m.beating {
		m.beating = true
		m.beat()
	}
	m.e.settle()
}

// stopped ends it. What it has logged stays.
func (m *member) stopped() {
	m.leave()
	m.s.readOnly = false
	m.inbox = nil
	m.e.settle()
}

// resumed has what arrived during a pause happen.
func (m *member) resumed() {
	inbox := m.inbox
	m.inbox = nil
	for _, do := range inbox {
		m.e.at(0, m, do)
	}
	m.e.settle()
}

// leave ends the server's part in its term. The other side hears of it, as of a connection that is closed.
func (m *member) leave() {
	l := m.as
	m.as, m.syncs = nil, nil
	clear(m.touched)
	if l == nil {
		return
	}
	t := l.term
	if t.leader != m {
		m.e.send(m, t.leader, func() { t.drop(l, "") })
		return
	}
	t.isOver = true
	for _, other := range t.learners {
		if other != nil && other != l {
			m.e.send(m, other.m, func() { other.closed("its leader is gone") })
		}
	}
}

// drop forgets a learner.
func (t *term) drop(l *learner, why string) {
	if t.isOver || t.learners[l.m.id-1] != l {
		return
	}
	t.learners[l.m.id-1] = nil
	if why != "" {
		t.e.send(t.leader, l.m, func() { l.closed(why) })
	}
}

// closed has a server look for a leader when its connection to the leader is over.
func (l *learner) closed(why string) {
	if l.m.as == l {
		l.m.look(why)
	}
}

// look has the server look for a leader. Its clients lose their connections.
func (m *member) look(why string) {
	m.leave()
	m.looksFrom = m.s.clock()
	m.s.note(Event{Kind: Looks, Detail: why})
	m.s.elect()
	m.e.at(m.s.realTime(electionTime), m, m.e.elect)
}

// beat does what a server does every half tick.
func (m *member) beat() {
	if m.s.closed {
		m.beating = false
		return
	}
	m.e.at(m.s.realTime(m.e.tick/2), nil, m.beat)
	if !m.isUp() {
		return
	}
	switch now, patience := m.s.clock(), time.Duration(m.e.syncLimit)*m.e.tick; {
	case m.isLooking():
		if !m.s.readOnly && now-m.looksFrom >= 2*m.e.tick {
			m.s.readOnly = true
		}
		m.e.elect()
	case m.isLeading():
		m.as.term.beat(now, patience)
	case now-m.heard > patience:
		m.look("it has not heard its leader for syncLimit ticks")
	}
}

// beat has a leader ask its learners for the sessions that they have heard, and give up without a majority.
func (t *term) beat(now, patience time.Duration) {
	present := 0
	for _, l := range t.learners {
		switch {
		case l == nil:
		case l.m == t.leader:
			present++
		case now-l.heard > patience:
			t.drop(l, "the leader has not heard it for syncLimit ticks")
		default:
			if l.m.votes() {
				present++
			}
			t.tell(l, func() {
				touched := maps.Clone(l.m.touched)
				clear(l.m.touched)
				l.toLeader(func() { t.touch(touched) })
			})
		}
	}
	if present >= t.e.quorum() {
		t.noQuorum = 0
		return
	}
	if t.noQuorum++; t.noQuorum >= 2 { // it counts once a tick
		t.leader.look("it leads no majority")
	}
}

// touch gives sessions their timeouts again.
func (t *term) touch(sessions map[int64]time.Duration) {
	for id, timeout := range sessions {
		if ss := t.leader.s.sessions[id]; ss != nil && !ss.ending {
			ss.timeout = timeout
			t.leader.s.touch(ss)
		}
	}
}

// tell has the leader send something to a learner, which may be itself.
func (t *term) tell(l *learner, do func()) {
	t.e.send(t.leader, l.m, func() {
		if l.m.as == l {
			l.m.heard = l.m.s.clock()
			do()
		}
	})
}

// toLeader sends something to the leader.
func (l *learner) toLeader(do func()) {
	t := l.term
	t.e.send(l.m, t.leader, func() {
		if !t.isOver && t.learners[l.m.id-1] == l {
			l.heard = t.leader.s.clock()
			do()
		}
	})
}

// elect gives servers that look for a leader one, if they can have one: that of a majority, or one of them.
func (e *Ensemble) elect() {
	var looking []*member
	for _, m := range e.members {
		if !m.isLooking() || !m.isUp() || m.s.clock()-m.looksFrom < electionTime {
			continue
		}
		if t := e.term(); t != nil && e.reaches(m, t.leader) && t.followers(m) >= e.quorum() {
			t.join(m)
			continue
		}
		looking = append(looking, m)
	}
	slices.SortFunc(looking, func(a, b *member) int { return compareVotes(b, a) })
	for i, m := range looking {
		near := slices.DeleteFunc(slices.Clone(looking[i:]), func(other *member) bool { return !e.reaches(m, other) })
		votes := 0
		for _, other := range near {
			if other.votes() {
				votes++
			}
		}
		if m.votes() && votes >= e.quorum() {
			e.lead(m, near)
			return
		}
	}
}

// logged is the newest transaction that the server has logged.
func (m *member) logged() int64 {
	if n := len(m.tail); n > 0 {
		return m.tail[n-1].zxid
	}
	return m.s.tree.zxid
}

// compareVotes orders servers as candidates. A zxid begins with its epoch. Observers are none.
func compareVotes(a, b *member) int {
	switch {
	case a.votes() != b.votes():
		if a.votes() {
			return 1
		}
		return -1
	case a.logged() != b.logged():
		return cmp.Compare(a.logged(), b.logged())
	case a.preferred != b.preferred:
		if a.preferred {
			return 1
		}
		return -1
	}
	return a.id - b.id
}

// lead makes m the leader of servers, and of itself. What it has logged counts as committed.
func (e *Ensemble) lead(m *member, servers []*member) {
	for _, other := range servers {
		other.preferred = false
	}
	for _, en := range m.tail {
		m.apply(en)
	}
	t := &term{e: e, leader: m, owners: make(map[int64]*member), learners: make([]*learner, len(e.members))}
	t.zxid = (m.logged()>>32 + 1) << 32
	t.committed = t.zxid
	m.tail, m.committed, m.ripe = nil, t.zxid, t.zxid
	m.s.tree.zxid = t.zxid
	m.s.tree.setData(m.s.tree.lookup(configPath), []byte(e.config)) // a backup may have an older one
	m.enter(t, Leads)
	for _, ss := range m.s.sessions {
		ss.ending = false
		m.s.touch(ss)
	}
	for _, other := range servers {
		if other != m {
			t.join(other)
		}
	}
}

// join gives a server all that the leader has.
func (t *term) join(m *member) {
	leader := t.leader
	m.before = &state{tree: m.s.tree, sessions: copySessions(m.s.sessions), tail: m.tail, committed: m.committed}
	m.become(state{
		tree: leader.s.tree.snapshot(), sessions: copySessions(leader.s.sessions),
		tail: slices.Clone(leader.tail), committed: t.committed,
	})
	m.enter(t, Follows)
	m.applyRipe()
	m.as.acked = t.zxid
	t.commit()
}

// enter gives a server its part in a term.
func (m *member) enter(t *term, kind EventKind) {
	if m.s.readOnly {
		m.s.readOnly = false
		m.s.elect()
	}
	maps.DeleteFunc(m.s.sessions, func(_ int64, ss *session) bool { return ss.local })
	m.as = &learner{term: t, m: m, heard: t.leader.s.clock(), acked: t.zxid}
	m.heard = m.s.clock()
	t.learners[m.id-1] = m.as
	m.s.note(Event{Kind: kind, Detail: "epoch " + strconv.FormatInt(t.zxid>>32, 10)})
}
