// SPDX-License-Identifier: Apache-2.0

package zkserver

// LoseQuorum takes the majority of its ensemble away from the server until regain is called, with
// readonlymode.enabled=true and localSessionsEnabled=true. The server ends all connections. Then it accepts only
// clients that accept a read-only server, and answers reads. Writes and sync fail with -119 (not read-only).
// Clients get local sessions, which cannot own ephemeral nodes and end with regain. A client that presents an
// earlier session is disconnected, and no earlier session expires.
//
// regain ends all connections too, and gives the earlier sessions their full timeout again. Calling it again does
// nothing, nor does LoseQuorum while it is in force.
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

// elect ends all connections, as a server does when it looks for a leader.
func (s *Server) elect() {
	for _, c := range s.connsOf(0) {
		s.drop(c, "the quorum has changed")
	}
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
