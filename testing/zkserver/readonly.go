package zkserver

// LoseQuorum makes the server that of an ensemble without a majority, started with readonlymode.enabled=true and
// localSessionsEnabled=true, until regain is called: it ends all connections, accepts only clients that say they can do
// with a read-only server, tells them so, and answers reads. What needs a leader, writes and sync, fails with -119 (not
// read-only). Clients get sessions of their own, which know no ephemeral nodes and end with regain. Whoever comes back
// with a session from before is hung up on, and no such session expires.
//
// With regain, which ends all connections too, those sessions have their full timeout again. Calling it again, or
// LoseQuorum while it is in force, does nothing.
func (s *Server) LoseQuorum() (regain func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.readOnly {
		s.commandf(0, "LoseQuorum")
		s.readOnly = true
		s.elect()
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if !s.readOnly {
			return
		}
		s.commandf(0, "LoseQuorum: regain")
		s.readOnly = false
		s.elect()
		for _, ss := range s.sessions {
			if ss.local {
				s.endSession(ss)
			} else {
				s.touch(ss)
			}
		}
	}
}

// elect ends all connections, as a server does that has to look for a leader.
func (s *Server) elect() {
	for _, c := range s.connsOf(0) {
		s.noteConn(Ended, c, "the quorum has changed")
		s.detach(c)
		c.finish(dropQueued)
	}
}

// rejects tells why a connect request is answered by hanging up, and is empty if it is not. The order is that of
// ZooKeeperServer.processConnectRequest. A client that has seen a later zxid must look for a server that knows what it
// knows; a session of the quorum is nothing that a server without one can say anything about.
func (s *Server) rejects(r connectRequest) (why string) {
	ss := s.sessions[r.session]
	switch {
	case s.readOnly && !r.readOnly:
		return "its client cannot do with a read-only server"
	case r.lastZxid > s.tree.zxid:
		return "its client has seen a later zxid"
	case s.readOnly && ss != nil && !ss.local:
		return "its session is one of the quorum"
	}
	return ""
}

// needsLeader tells the requests that a server cannot answer by itself (ReadOnlyRequestProcessor).
func (op OpCode) needsLeader() bool {
	switch op {
	case OpCreate, OpCreate2, OpCreateContainer, OpCreateTTL, OpDelete, OpDeleteContainer, OpSetData, OpSetACL, OpCheck,
		OpMulti, OpReconfig, OpSync:
		return true
	default: // a server answers the others by itself
		return false
	}
}
