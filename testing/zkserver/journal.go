// SPDX-License-Identifier: Apache-2.0

package zkserver

import (
	"fmt"
	"slices"
	"strings"
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

// after returns the events with greater numbers, and a channel that is closed when there are more.
func (j *journal) after(seq int) ([]Event, <-chan struct{}) {
	if j.added == nil {
		j.added = make(chan struct{})
	}
	fresh := min(j.last-seq, len(j.events))
	return slices.Clone(j.events[len(j.events)-fresh:]), j.added
}
