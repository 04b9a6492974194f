// SPDX-License-Identifier: Apache-2.0

package zkserver

import (
	"cmp"
	"context"
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

// Intercept lets hook decide about every request from now on, pings and connect requests included, until remove is
// called. With several hooks, the server asks them in the order in which they were added, until one returns
// something else than [Pass].
//
// The requests of one connection reach hook in their order, before they are applied. Calls of the hooks of one
// server never overlap, so a hook needs no lock for its own state. For the same reason it must not block: to hold
// a request back, return [HoldUntil]. It may use the server, except for Stop, Restart and Close. A call that has
// begun when remove is called may end after remove has returned. A hook that ends its goroutine, as
// testing.T.FailNow does, ends the connection. Intercept panics if hook is nil.
func (s *Server) Intercept(decide func(Request) Fault) (remove func()) {
	if decide == nil {
		panic("zkserver: Intercept of a nil hook, expected a func(Request) Fault")
	}
	h := &hook{decide: decide}
	s.hooks.mu.Lock()
	defer s.hooks.mu.Unlock()
	s.hooks.list = append(slices.Clip(s.hooks.list), h)
	return func() {
		s.hooks.mu.Lock()
		defer s.hooks.mu.Unlock()
		s.hooks.list = slices.DeleteFunc(slices.Clone(s.hooks.list), func(other *hook) bool { return other == h })
	}
}

// Log returns what happened, in order. Every request is among the events, pings included. The log keeps the latest
// 10,000 to 20,000 events, and fewer when their paths and details add up to more than 8 MiB. The servers of an ensemble
// have one log.
func (s *Server) Log() []Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.journal.events)
}

// Log is [Server.Log] of all servers. It also says when a server leads, follows, or looks for a leader.
func (e *Ensemble) Log() []Event { return e.members[0].s.Log() }

// Await returns the first event of the log that match accepts, and waits until there is one. Events that are in the log
// already count; compare [Event.Seq] to leave them out. It fails only when the context ends. The function match runs
// without locks.
func (s *Server) Await(ctx context.Context, match func(Event) bool) (Event, error) {
	seen := 0
	for {
		fresh, added := s.eventsAfter(seen)
		for _, e := range fresh {
			if match(e) {
				return e, nil
			}
			seen = e.Seq
		}
		select {
		case <-added:
		case <-ctx.Done():
			return Event{}, fmt.Errorf("zkserver: no such event among the first %d: %w", seen, context.Cause(ctx))
		}
	}
}

func (s *Server) eventsAfter(seq int) ([]Event, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.journal.after(seq)
}
