// SPDX-License-Identifier: Apache-2.0

package zkserver

import (
	"bytes"
	"crypto/rand"
	"slices"
	"time"
)

// entry is a transaction of an ensemble: a request that every server applies. Servers that have applied the same entries have
// the same contents, so they come to the same result.
type entry struct {
	zxid int64
	time int64 // the leader's, in milliseconds since the Unix epoch
	op   OpCode
	body []byte
	who  caller
	path string // of a node that is swept, for OpDeleteContainer

	origin *pending // the request that waits for it, or nil

	// Of OpReconfig that the ensemble makes itself.
	change func() // of who is in the ensemble
	config string // what /zookeeper/config has then; "" until a server has applied it

	// Of OpCreateSession.
	session *session
	conn    *conn  // that waits for it
	then    func() // see Server.attach
}

// propose has the leader number a transaction and all learners log it.
func (m *member) propose(en *entry) {
	t := m.as.term
	t.zxid++
	en.zxid, en.time = t.zxid, m.s.wallClock().UnixMilli()
	for _, l := range t.learners {
		if l == nil {
			continue
		}
		t.tell(l, func() {
			l.m.tail = append(l.m.tail, en)
			l.toLeader(func() {
				l.acked = max(l.acked, en.zxid)
				t.commit()
			})
		})
	}
}

// commit commits what a majority has logged.
func (t *term) commit() {
	var acked []int64
	for _, l := range t.learners {
		if l != nil && l.m.votes() {
			acked = append(acked, l.acked)
		}
	}
	quorum := t.e.quorum()
	if len(acked) < quorum {
		return
	}
	slices.Sort(acked)
	zxid := acked[len(acked)-quorum]
	if zxid <= t.committed {
		return
	}
	t.committed = zxid
	for _, l := range t.learners {
		if l != nil {
			t.tell(l, func() { l.m.commit(zxid) })
		}
	}
}

// commit notes that transactions are committed, and applies them as soon as the server's lag lets it.
func (m *member) commit(zxid int64) {
	m.committed = zxid
	for _, en := range m.tail {
		if en.zxid <= zxid && m.isOrigin(en) {
			m.forced = en.zxid
		}
	}
	if m.lag == nil || m.lag.time == 0 {
		m.ripe = zxid
		m.applyRipe()
		return
	}
	as := m.as
	m.e.at(m.lag.time, m, func() {
		if m.as == as {
			m.ripe = max(m.ripe, zxid)
			m.applyRipe()
		}
	})
}

// isOrigin reports whether a client of this server waits for the entry.
func (m *member) isOrigin(en *entry) bool {
	return en.origin != nil && en.origin.c.srv == m.s || en.conn != nil && en.conn.srv == m.s
}

// applyRipe applies what is due, and answers what has waited for it.
func (m *member) applyRipe() {
	for len(m.tail) > 0 && m.tail[0].zxid <= m.ripe && !m.isHeldBack(m.tail[0].zxid) {
		en := m.tail[0]
		m.tail = slices.Delete(m.tail, 0, 1)
		m.apply(en)
		m.answerSyncs()
	}
	m.answerSyncs()
}

// isHeldBack reports whether the server waits for later transactions before it applies one.
func (m *member) isHeldBack(zxid int64) bool {
	if m.lag == nil || zxid <= m.forced {
		return false
	}
	later := 0
	for _, en := range m.tail[1:] {
		if en.zxid <= m.committed {
			later++
		}
	}
	return later < m.lag.transactions
}

func (m *member) answerSyncs() {
	for len(m.syncs) > 0 && m.syncs[0].zxid <= m.s.tree.zxid {
		p := m.syncs[0].p
		m.syncs = m.syncs[1:]
		if p.c.attached {
			m.proceed(p, func() { m.s.answer(p) })
		}
	}
}

// apply applies a transaction, and answers it to a client of this server.
func (m *member) apply(en *entry) {
	s := m.s
	s.tree.zxid = en.zxid - 1
	m.applying = en
	var p *pending
	if en.origin != nil && en.origin.c.srv == s && en.origin.c.attached {
		p = en.origin
	}
	switch {
	case en.op == OpCreateSession:
		m.applyOpen(en)
	case en.op == OpCloseSession:
		m.applyClose(en, p)
	case en.change != nil:
		m.applyReconfig(en)
	case en.op == OpDeleteContainer && en.path != "":
		if n := s.tree.lookup(en.path); n != nil && n.outlived(en.time) {
			s.removeSwept(en.path)
		}
	default:
		m.applyRequest(en, p)
	}
	m.applying = nil
	s.tree.zxid = en.zxid
}

func (m *member) applyRequest(en *entry, p *pending) {
	s := m.s
	x := s.newCall(nil, en.op, decoder{b: en.body})
	x.who = &caller{session: en.who.session, ids: en.who.ids, checks: &s.checks}
	err := codeSessionExpired
	if s.sessions[en.who.session] != nil {
		err = s.handlers[en.op](x)
	} else {
		x.wrote, x.end = true, true
	}
	if p != nil {
		s.tree.zxid = en.zxid
		x.c = p.c
		m.proceed(p, func() { s.deliver(p, x.outcome(p.xid, err)) })
	}
}

// applyReconfig changes the configuration. As soon as one server has, the ensemble counts votes by it.
func (m *member) applyReconfig(en *entry) {
	if en.config == "" {
		en.change()
		m.e.configure(en.zxid)
		en.config = m.e.config
	}
	n := m.s.tree.lookup(configPath)
	m.s.tree.setData(n, []byte(en.config))
	n.version, n.mzxid, n.mtime = -1, en.zxid, en.time
	m.s.watches.fire(event{kind: eventDataChanged, path: configPath, acl: n.acl})
}

// applyOpen begins a session.
func (m *member) applyOpen(en *entry) {
	s, c := m.s, en.conn
	ss := s.sessions[en.session.id]
	if ss == nil {
		ss = &session{id: en.session.id, password: en.session.password, timeout: en.session.timeout}
		s.sessions[ss.id] = ss
	}
	s.touch(ss)
	if c.srv != s || c.isEnded() {
		return
	}
	ss.conn, c.claims = c, ss.id
	s.noteConn(SessionOpened, c, ss.timeout.String())
	s.hold(c, 0)
	s.serveSession(c, 0, ss)
	en.then()
}

// applyClose ends a session. Its connection ends, after the answer if it was its client's wish.
func (m *member) applyClose(en *entry, p *pending) {
	s := m.s
	ss := s.sessions[en.who.session]
	if ss == nil {
		return
	}
	if p == nil {
		s.killSession(ss)
		return
	}
	s.noteConn(SessionClosed, p.c, "")
	x := s.newCall(p.c, p.op, p.in)
	x.wrote, x.end = true, true
	s.endSession(ss)
	s.detach(p.c)
	s.deliver(p, x.outcome(p.xid, codeOK))
}

// take takes a request of a client: what needs the leader goes there, and all behind it waits.
func (m *member) take(p *pending) {
	s, c := m.s, p.c
	if m.isLooking() && !s.readOnly { // the connection was ending when the leader was lost
		s.detach(c)
		return
	}
	switch p.fault.kind {
	case faultLoseRequest:
		s.cut(c)
		return
	case faultNeverAnswer:
		return
	default:
	}
	s.touchBy(c, p.op)
	forwards := m.forwards(p)
	if !forwards && len(c.pending) == 0 {
		s.answer(p)
		return
	}
	p.in = decoder{b: bytes.Clone(p.in.b)}
	p.waits = forwards
	c.pending = append(c.pending, p)
	s.hold(c, entryFootprint+len(p.in.b))
	if forwards {
		m.forward(p)
		if p.fault.kind == faultLoseReply {
			c.seal()
			s.cut(c)
		}
		m.e.settle()
	}
}

// forwards reports whether a request is one for the leader. What is refused in any case is not.
func (m *member) forwards(p *pending) bool {
	s, c := m.s, p.c
	return p.fault.kind != faultFail && (p.op.is(forLeader) || p.op == OpCloseSession) &&
		!s.readOnly && !c.session.local && c.isSASLAuthenticated(p.op) && s.cfg.version.knows(p.op)
}

// forward sends a request to the leader.
func (m *member) forward(p *pending) {
	l, t := m.as, m.as.term
	if p.op == OpSync {
		l.toLeader(func() { t.sync(l, p) })
		return
	}
	who := caller{session: p.c.session.id, ids: slices.Clone(p.c.ids)}
	en := &entry{op: p.op, body: p.in.b, who: who, origin: p}
	l.toLeader(func() {
		if p.op == OpCloseSession {
			if ss := t.leader.s.sessions[who.session]; ss != nil {
				ss.ending = true
			}
		} else if !t.owns(m, who.session) {
			t.tell(l, func() { m.refuse(p, codeSessionMoved) })
			return
		}
		t.leader.propose(en)
	})
}

// owns reports whether a session is at a server, and not at another one by now.
func (t *term) owns(m *member, session int64) bool {
	owner := t.owners[session]
	if owner == nil {
		t.owners[session] = m
	}
	return owner == nil || owner == m
}

// refuse answers a request with an error, and ends its connection.
func (m *member) refuse(p *pending, err code) {
	if !p.c.attached {
		return
	}
	x := m.s.newCall(p.c, p.op, p.in)
	x.end = true
	m.proceed(p, func() { m.s.deliver(p, x.outcome(p.xid, err)) })
}

// sync answers a sync of a learner's client once the learner has what was proposed before. Without anything proposed the leader
// answers by itself, even if it leads nobody any more.
func (t *term) sync(l *learner, p *pending) {
	after := t.zxid
	t.tell(l, func() {
		l.m.forced = max(l.m.forced, after)
		l.m.syncs = append(l.m.syncs, syncing{zxid: after, p: p})
		l.m.applyRipe()
	})
}

// proceed answers a request that has waited for the leader, and what was behind it.
func (m *member) proceed(p *pending, answer func()) {
	c := p.c
	c.pending = slices.DeleteFunc(c.pending, func(other *pending) bool { return other == p })
	m.s.hold(c, -entryFootprint-len(p.in.b))
	answer()
	for len(c.pending) > 0 && !c.pending[0].waits {
		next := c.pending[0]
		c.pending = c.pending[1:]
		m.s.hold(c, -entryFootprint-len(next.in.b))
		m.s.answer(next)
	}
}

// openSession has the leader open a session for c.
func (m *member) openSession(c *conn, timeout time.Duration, then func()) {
	ss := &session{id: m.s.nextID(), timeout: timeout}
	rand.Read(ss.password[:]) // never returns an error
	en := &entry{op: OpCreateSession, session: ss, conn: c, then: then}
	t := m.as.term
	m.as.toLeader(func() {
		t.owners[ss.id] = m
		t.leader.propose(en)
	})
	m.e.settle()
}

// takeSession asks the leader whether c may have the session that it asks for.
func (m *member) takeSession(c *conn, r connectRequest, timeout time.Duration, then func()) {
	l, t := m.as, m.as.term
	l.toLeader(func() {
		known := t.leader.s.sessions[r.session]
		isValid := known != nil && !known.ending && bytes.Equal(r.password, known.password[:])
		if isValid {
			t.owners[r.session] = m
			t.touch(map[int64]time.Duration{r.session: timeout})
		}
		t.tell(l, func() {
			if c.isEnded() {
				return
			}
			var ss *session
			if isValid {
				if m.s.sessions[r.session] == nil { // its creation is still to be applied here
					m.s.sessions[r.session] = &session{id: r.session, password: known.password, timeout: timeout}
				}
				ss = m.s.takeSession(c, r.session, r.password, timeout)
			}
			m.s.serveSession(c, r.session, ss)
			then()
		})
	})
	m.e.settle()
}
