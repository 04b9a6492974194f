// SPDX-License-Identifier: Apache-2.0

package zkserver

import (
	"math"
	"time"
)

// connectRequest opens a connection. Its session id is 0 for a new session.
type connectRequest struct {
	lastZxid    int64
	timeout     time.Duration
	session     int64
	password    []byte
	hasReadOnly bool // the client knows of read-only servers, and wants to hear of it in the reply
	readOnly    bool // and can do with one
}

func decodeConnect(in *decoder) connectRequest {
	in.int32() // protocol version, always 0
	r := connectRequest{
		lastZxid: in.int64(),
		timeout:  time.Duration(in.int32()) * time.Millisecond,
		session:  in.int64(),
		password: in.buffer(),
	}
	if !in.bad && len(in.b) > 0 {
		r.hasReadOnly, r.readOnly = true, in.bool()
	}
	return r
}

// greet answers the connect request of c.
func (s *Server) greet(c *conn, r connectRequest) {
	arrived := time.Now()
	asked := Request{SessionID: r.session, Op: OpCreateSession}
	c.awaits.Store(r.session)
	defer c.awaits.Store(0)
	s.mu.Lock()
	c.claims = r.session
	s.mu.Unlock()
	if !s.arrive(c, asked) {
		return
	}
	f := s.ask(c, &asked)
	if !c.holdBack(f) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.isEnded() {
		return
	}
	s.received(c)
	switch f.kind {
	case faultLoseRequest:
		c.finish(sendQueued)
	case faultNeverAnswer:
	case faultFail:
		s.answerConnect(c, r, nil)
	case faultLoseReply:
		s.attach(c, r, func() {
			c.seal()
			s.cut(c)
		})
	case faultApplyNeverAnswer:
		s.attach(c, r, func() {})
	case faultRespond:
		s.attach(c, r, func() { s.reply(c, []byte(f.frame)) })
	case faultPass:
		s.attach(c, r, func() {
			s.answerConnect(c, r, c.session)
			if c.attached {
				s.answered(c, request{op: OpCreateSession}, codeOK, arrived)
				s.cutAgain(c)
			}
		})
	}
}

// attach gives c the session that its client asks for, unless there is no such session, or the client is hung up on. Then it
// calls then: at once, or in an ensemble when the leader has answered.
func (s *Server) attach(c *conn, r connectRequest, then func()) {
	if why := s.rejects(r); why != "" {
		s.log.Warn("client hung up on", "client", c.remote(), "reason", why, "client zxid", r.lastZxid, "zxid", s.tree.zxid)
		s.noteConn(Ended, c, why)
		c.finish(sendQueued)
		then()
		return
	}
	timeout := min(max(r.timeout, s.cfg.minTimeout), s.cfg.maxTimeout)
	isNew := r.session == 0 || s.cfg.keeper
	switch {
	case s.member != nil && !s.readOnly && isNew:
		s.member.openSession(c, timeout, then)
		return
	case s.member != nil && !s.readOnly:
		s.member.takeSession(c, r, timeout, then)
		return
	case isNew:
		s.serveSession(c, r.session, s.openSession(c, timeout))
	default:
		s.serveSession(c, r.session, s.takeSession(c, r.session, r.password, timeout))
	}
	then()
}

// rejects returns why a connect request is answered by hanging up, or "" if it is accepted. The order of checks is
// ZooKeeperServer.processConnectRequest's. A client that has seen a later zxid must look for a server that is as
// far. A server without a quorum cannot say whether a session of the quorum still exists.
func (s *Server) rejects(r connectRequest) (why string) {
	ss := s.sessions[r.session]
	switch {
	case s.member != nil && s.member.isLooking() && !s.readOnly:
		return "the server has no leader"
	case s.readOnly && !r.readOnly:
		return "its client does not accept a read-only server"
	case r.lastZxid > s.tree.zxid:
		return "its client has seen a later zxid"
	case s.readOnly && ss != nil && !ss.local:
		return "its session is one of the quorum"
	case r.session == 0 && s.heldBySessions()+sessionFootprint > s.cfg.maxMemory/2:
		return "sessions hold too much memory"
	}
	return ""
}

// serveSession gives c the session, or nil if it was refused the one that it has asked for.
func (s *Server) serveSession(c *conn, asked int64, ss *session) {
	if ss == nil {
		s.noteConn(SessionDenied, c, "")
		s.log.Info("session refused", "session", hexID(asked), "client", c.remote())
		return
	}
	c.session, c.attached = ss, true
	s.log.Info("session connected", "session", hexID(ss.id), "timeout", ss.timeout, "client", c.remote())
}

// answerConnect sends a session's facts, or zeros and the end of the connection without one.
func (s *Server) answerConnect(c *conn, r connectRequest, ss *session) {
	e := &s.scratch
	e.b = append(e.b[:0], 0, 0, 0, 0) // the length, below
	e.int32(0)                        // protocol version
	if ss == nil {
		ss = &session{}
	}
	e.int32(int32(min(ss.timeout/time.Millisecond, math.MaxInt32)))
	e.int64(ss.id)
	e.buffer(ss.password[:])
	if r.hasReadOnly {
		e.bool(s.readOnly)
	}
	s.reply(c, e.sized())
	if ss.id == 0 {
		c.finish(sendQueued)
	}
}
