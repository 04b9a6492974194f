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
