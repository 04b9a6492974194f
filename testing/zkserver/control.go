// SPDX-License-Identifier: Apache-2.0

package zkserver

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// SessionInfo describes a session.
type SessionInfo struct {
	ID         int64
	Timeout    time.Duration // as negotiated
	Addr       string        // of its client, or empty while it has no connection
	Ephemerals int           // how many ephemeral nodes it owns
}

// Sessions lists the sessions that are alive, by id.
func (s *Server) Sessions() []SessionInfo {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]SessionInfo, 0, len(s.sessions))
	for id, ss := range s.sessions {
		info := SessionInfo{ID: id, Timeout: ss.timeout, Ephemerals: len(s.tree.ephemerals[id])}
		if ss.conn != nil {
			info.Addr = ss.conn.remote()
		}
		list = append(list, info)
	}
	slices.SortFunc(list, func(a, b SessionInfo) int { return cmp.Compare(a.ID, b.ID) })
	return list
}

// KillSession ends a session as if its client had closed it on another connection. Its ephemeral nodes are
// deleted, their watches fire, and its connection is closed. When the client comes back it learns that the
// session has expired; it cannot tell this from an expiry. KillSession returns false if there is no such
// session. In an ensemble the leader of the server's side ends it; without a leader KillSession returns false.
func (s *Server) KillSession(id int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.member != nil {
		if s = s.member.leaderServer(); s == nil {
			return false
		}
	}
	ss := s.sessions[id]
	if ss == nil || ss.ending {
		return false
	}
	s.note(Event{Kind: SessionKilled, SessionID: id})
	s.log.Info("session killed", "session", hexID(id))
	s.end(ss)
	return true
}

// SetSequence sets the number of the next sequential child of path, for tests near 2^31. [WithVersion] says what a
// version does there. The number is the count of children ever created, so the node's cversion changes with it.
// SetSequence fails if there is no such node.
func (s *Server) SetSequence(path string, next int32) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.tree.lookup(path)
	if n == nil {
		return fmt.Errorf("zkserver: set sequence of %q: no such node", path)
	}
	n.creates = next
	if s.member != nil {
		for _, other := range s.member.e.members {
			if n := other.s.tree.lookup(path); n != nil {
				n.creates = next
			}
		}
	}
	return nil
}

// Pause makes the server silent until [Server.Resume]: it accepts connections, but reads no requests, sends
// nothing and closes nothing. Time goes on and sessions expire. On Resume, the requests that have arrived are
// served if their session still lives.
func (s *Server) Pause() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.commandf(0, "Pause")
	s.gate.close()
}

// Resume ends [Server.Pause].
func (s *Server) Resume() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.commandf(0, "Resume")
	s.gate.open()
	if s.member != nil {
		s.member.resumed()
	}
}
