// SPDX-License-Identifier: Apache-2.0

package zkserver

import (
	"bytes"
	"crypto/rand"
	"maps"
	"slices"
	"time"
)

// passwordSize is the length in bytes of a session's password.
const passwordSize = 16

// session is the state that a client keeps across connections. Server.mu guards it.
type session struct {
	id       int64
	password [passwordSize]byte
	timeout  time.Duration // as negotiated by its latest connection
	expires  time.Duration // on the server's clock, a multiple of the tick
	conn     *conn         // nil while its client is away
	local    bool          // opened while LoseQuorum was in force, and no part of the transactions
	ending   bool          // the leader of an ensemble has proposed its end
}

// timing is how a server's clock runs, from a time on.
type timing struct {
	rate float64
	from time.Time
	at   time.Duration // what the clock said then
}

// clock is the time since the server was created. It is monotonic, and a fake one under testing/synctest. In an ensemble it may
// be fast or slow.
func (s *Server) clock() time.Duration {
	p := s.timing.Load()
	if p == nil {
		return time.Since(s.created)
	}
	return p.at + time.Duration(float64(time.Since(p.from))*p.rate)
}

// wallClock is what the server takes for the time.
func (s *Server) wallClock() time.Time {
	return time.Now().Add(s.clock() - time.Since(s.created))
}

// realTime is how long it takes until d has passed on the server's clock.
func (s *Server) realTime(d time.Duration) time.Duration {
	p := s.timing.Load()
	if p == nil {
		return d
	}
	return time.Duration(float64(d)/p.rate) + 1 // not before
}

// touch gives a session its full timeout again. Expiry times are rounded up to the next tick, as in ZooKeeper's
// ExpiryQueue: a session ends later than its timeout after the last touch, by at most one tick.
func (s *Server) touch(ss *session) {
	tick := s.cfg.tick
	ss.expires = (s.clock() + ss.timeout).Truncate(tick) + tick
}

// touchBy is touch for a request on a connection. A connection that is cut off touches nothing. Requests of the
// types auth and sasl prove nothing about the session: ZooKeeper answers them before it looks at the session.
func (s *Server) touchBy(c *conn, op OpCode) {
	if c.cutOff == nil && op != OpAuth && op != OpSASL {
		s.touch(c.session)
		if s.member != nil && !s.member.isLeading() {
			s.member.touched[c.session.id] = c.session.timeout
		}
	}
}

// newSessionID lays ids out as ZooKeeper does: 8 bits of the server's id, which is 1 for a standalone one, 40 bits of
// time in milliseconds, then a counter. The counter starts with the nanoseconds, so two servers of one process hardly ever give
// out the same id. Those that are made at the same instant of fake time do.
func newSessionID(server int) int64 {
	now := time.Now()
	return int64(server)<<56 | int64(uint64(now.UnixMilli())<<24>>8) | now.UnixNano()&0xffff
}

// nextID returns the next id that no session has. A session of a backup may have it, of a server that was made at the same instant.
func (s *Server) nextID() int64 {
	for s.sessions[s.nextSession] != nil {
		s.nextSession++
	}
	s.nextSession++
	return s.nextSession - 1
}

func (s *Server) openSession(c *conn, timeout time.Duration) *session {
	ss := &session{id: s.nextID(), timeout: timeout, conn: c, local: s.readOnly}
	if !ss.local {
		s.tree.zxid++
	}
	if !s.cfg.keeper {
		rand.Read(ss.password[:]) // never returns an error
	}
	s.sessions[ss.id] = ss
	s.touch(ss)
	c.claims = ss.id
	s.noteConn(SessionOpened, c, timeout.String())
	s.hold(c, 0) // what sessions take, connections may not
	return ss
}

// takeSession moves a session to another connection of its client. The earlier connection is closed first, before
// the password is checked, as in ZooKeeper. It returns nil for a session that does not exist or a wrong password.
func (s *Server) takeSession(c *conn, id int64, password []byte, timeout time.Duration) *session {
	ss := s.sessions[id]
	if ss == nil {
		return nil
	}
	if old := ss.conn; old != nil && old.cutOff == nil {
		s.log.Info("session moves to another connection", "session", hexID(id), "from", old.remote(), "to", c.remote())
		s.drop(old, "its client has come back")
	}
	if !bytes.Equal(password, ss.password[:]) {
		return nil
	}
	ss.conn, ss.timeout = c, timeout
	s.touch(ss)
	s.noteConn(SessionTaken, c, timeout.String())
	return ss
}

// endSession removes a session and its ephemeral nodes in one transaction.
func (s *Server) endSession(ss *session) {
	if ss.local {
		delete(s.sessions, ss.id)
		return
	}
	t := s.begin()
	for _, path := range s.tree.ephemeralsOf(ss.id) {
		t.remove(path)
	}
	delete(s.sessions, ss.id)
	t.commit()
}

// killSession ends a session from outside its connection. The connection is closed without a reply. A connection that
// is cut off stays open.
func (s *Server) killSession(ss *session) {
	c := ss.conn
	if c != nil && c.cutOff != nil {
		ss.conn, c = nil, nil
	}
	if c != nil {
		s.detach(c)
	}
	s.endSession(ss)
	if c != nil {
		c.finish(sendQueued)
	}
}

// nextTick is the time of the next check of sessions, on the server's clock.
func (s *Server) nextTick() time.Duration {
	return s.clock().Truncate(s.cfg.tick) + s.cfg.tick
}

// expireSessions ends the sessions that were due at the tick due. A session lives on while a request of its client
// waits for mu. Ticks that have passed since, because one request took long or the process stood still, count for
// no session: the server may not even have read what clients sent in that time.
func (s *Server) expireSessions(due time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expireLocked(due)
}

func (s *Server) expireLocked(due time.Duration) {
	if s.run == nil {
		return
	}
	missed := (s.clock() - due).Truncate(s.cfg.tick)
	awaited := s.awaited()
	for _, id := range slices.Sorted(maps.Keys(s.sessions)) {
		ss := s.sessions[id]
		if ss == nil {
			continue // the end of another session has committed what had ended this one
		}
		if s.expired(ss, due) && !awaited[ss.id] {
			s.note(Event{Kind: SessionExpired, SessionID: ss.id})
			s.log.Info("session expired", "session", hexID(ss.id), "timeout", ss.timeout)
			s.end(ss)
			continue
		}
		ss.expires += missed
		if s.member != nil && !ss.local && s.gate.isShut() {
			ss.expires += s.cfg.tick // a leader that is paused hears nothing from its followers
		}
	}
}

// end is killSession, by a transaction if the server is the leader of an ensemble.
func (s *Server) end(ss *session) {
	if s.member == nil || ss.local {
		s.killSession(ss)
		return
	}
	ss.ending = true
	s.member.propose(&entry{op: OpCloseSession, who: caller{session: ss.id}})
	s.member.e.settle()
}

// expired reports whether a session's time is up at now. Only a leader expires the sessions of a quorum.
func (s *Server) expired(ss *session, now time.Duration) bool {
	isLeader := s.member == nil || s.member.isLeading() && !s.gate.isShut() && !ss.ending
	return ss.expires <= now && (ss.local || !s.readOnly && isLeader)
}

// awaited are the sessions for which a request waits, unless it is lost on its way.
func (s *Server) awaited() map[int64]bool {
	sessions := make(map[int64]bool)
	for c := range s.run.conns {
		if id := c.awaits.Load(); id != 0 && c.cutOff == nil && s.hole(c, ToServer) == nil {
			sessions[id] = true
		}
	}
	return sessions
}
