// SPDX-License-Identifier: Apache-2.0

package zkserver

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// EventKind says what happened.
type EventKind string

// What happens to connections.
const (
	Accepted EventKind = "accepted" // a client connected
	Refused  EventKind = "refused"  // a client connected and was turned away; Detail says why
	Ended    EventKind = "ended"    // the server gave the connection up, or its client did; Detail says why
)

// What happens to sessions.
const (
	SessionOpened  EventKind = "session opened"
	SessionTaken   EventKind = "session taken"   // its client came back on another connection
	SessionDenied  EventKind = "session denied"  // a client asked for an unknown session, or with a wrong password
	SessionClosed  EventKind = "session closed"  // by its client
	SessionKilled  EventKind = "session killed"  // by [Server.KillSession]
	SessionExpired EventKind = "session expired" // its time was up
)

// What happens to requests.
const (
	Served    EventKind = "served"    // applied and answered; Err is the error code of the answer
	Faulted   EventKind = "faulted"   // a hook wants Fault for it; Served follows if it is answered all the same
	Swallowed EventKind = "swallowed" // lost in a [Server.Blackhole], or, where there is no Request, what was sent to the client
	Stuck     EventKind = "stuck"     // not answered, ever, because of [Server.CutOff]
)

// Commanded is a call of a method that changes how the server behaves; Detail names it.
const Commanded EventKind = "commanded"

// Event is one entry of a server's log.
type Event struct {
	Seq       int           // from 1
	At        time.Duration // since Start, on the monotonic clock
	Server    int           // of an ensemble, by [Server.ID]; 0 if the server stands alone
	Kind      EventKind
	Conn      int     // number of the connection, from 1 in the order in which they came; 0 if none is concerned
	SessionID int64   // 0 if none is concerned
	Request   Request // zero if none is concerned
	Fault     Fault   // of Faulted
	Err       int32   // of Served
	Detail    string  // for people
}

// String returns a line for failure messages.
func (e Event) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d %v %s", e.Seq, e.At.Round(time.Microsecond), e.Kind)
	if e.Server != 0 {
		fmt.Fprintf(&b, " at server %d", e.Server)
	}
	if e.Conn != 0 {
		fmt.Fprintf(&b, " conn %d", e.Conn)
	}
	if e.SessionID != 0 {
		fmt.Fprintf(&b, " session %s", hexID(e.SessionID))
	}
	if e.Request.Op != 0 {
		fmt.Fprintf(&b, " %v xid %d %s", e.Request.Op, e.Request.Xid, e.Request.Path)
	}
	if e.Kind == Faulted {
		fmt.Fprintf(&b, " %v", e.Fault)
	}
	if e.Err != 0 {
		fmt.Fprintf(&b, " err %d", e.Err)
	}
	if e.Detail != "" {
		fmt.Fprintf(&b, " (%s)", e.Detail)
	}
	return b.String()
}

// The bounds of the log. When one of them is reached, the older half is forgotten.
const (
	maxEvents    = 20_000
	maxEventText = 16 << 20 // bytes of paths and other text
)

// text is how many bytes of text the event keeps alive.
func (e Event) text() int {
	n := len(e.Request.Path) + len(e.Detail) + len(e.Fault.frame)
	for _, path := range e.Request.Reads {
		n += stringFootprint + len(path)
	}
	return n
}

// stringFootprint is what a string of a list takes beside its text.
const stringFootprint = 16

// journal is the log of a server. Server.mu guards it.
type journal struct {
	events []Event
	bytes  int           // of text in all events
	last   int           // Seq of the latest event
	added  chan struct{} // closed at the next event; nil while no caller waits for one
}

// add appends an event. The bound on text gives way to a single event that is larger.
func (j *journal) add(e Event) {
	if len(j.events) == maxEvents || j.bytes+e.text() > maxEventText {
		j.forget()
	}
	j.bytes += e.text()
	j.events = append(j.events, e)
}

// forget drops events, oldest first, until at most half of each bound is in use.
func (j *journal) forget() {
	n := 0
	for n < len(j.events) && (len(j.events)-n > maxEvents/2 || j.bytes > maxEventText/2) {
		j.bytes -= j.events[n].text()
		n++
	}
	j.events = slices.Delete(j.events, 0, n)
}

func (s *Server) note(e Event) {
	j := s.journal
	j.last++
	e.Seq, e.At = j.last, time.Since(s.created)
	if s.member != nil {
		e.Server = s.member.id
	}
	j.add(e)
	if j.added != nil {
		close(j.added)
		j.added = nil
	}
}

// noteConn adds an event about a connection and the session that it has or asks for.
func (s *Server) noteConn(kind EventKind, c *conn, detail string) {
	s.note(Event{Kind: kind, Conn: c.number, SessionID: c.claims, Detail: detail})
}

func (s *Server) noteRequest(kind EventKind, c *conn, r Request) {
	s.note(Event{Kind: kind, Conn: c.number, SessionID: c.claims, Request: r})
}

// commandf notes a call of a method.
func (s *Server) commandf(sessionID int64, format string, args ...any) {
	s.note(Event{Kind: Commanded, SessionID: sessionID, Detail: fmt.Sprintf(format, args...)})
}

// takeBack returns a function that ends what a call has put in force, and notes that. Calling it again does nothing.
func (s *Server) takeBack(sessionID int64, what string, back func()) func() {
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.note(Event{Kind: Commanded, SessionID: sessionID, Detail: what})
		back()
	})
}

// Log returns what happened, in order. Every request is among the events, pings included. The log keeps the latest
// 10,000 to 20,000 events, and fewer when their paths and details add up to more than 8 MiB. The servers of an ensemble
// have one log.
func (s *Server) Log() []Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.journal.events)
}

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

// eventsAfter returns the events with greater numbers, and a channel that is closed when there are more.
func (s *Server) eventsAfter(seq int) ([]Event, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	j := s.journal
	if j.added == nil {
		j.added = make(chan struct{})
	}
	fresh := min(j.last-seq, len(j.events))
	return slices.Clone(j.events[len(j.events)-fresh:]), j.added
}
