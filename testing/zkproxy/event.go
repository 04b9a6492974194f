// SPDX-License-Identifier: Apache-2.0

package zkproxy

import (
	"context"
	"fmt"
	"time"
)

// Action is what happened to a frame or a connection.
type Action string

// What happens to connections. The Frame of such an [Event] has only Conn.
const (
	Accepted Action = "accepted"  // a client connected
	Refused  Action = "refused"   // a client connected and was reset, because of Refuse or after Close
	Unserved Action = "unserved"  // the target could not be reached, so the client was reset; Detail says why
	HalfShut Action = "half shut" // one side ended its sending, which the other was told; Detail tells the direction
	Ended    Action = "ended"     // both sides ended their sending, or CutAfter a reply, or CutNext: closed in good order
	Reset    Action = "reset"     // the connection was reset, by either side or the proxy; Detail says why
)

// Commanded is a call of a method that changes what the proxy does; Detail names it.
const Commanded Action = "commanded"

// What happens to frames.
const (
	Forwarded  Action = "forwarded"  // passed to the other side; logged before that, so a reply comes after its request
	Dropped    Action = "dropped"    // by a verdict
	Replaced   Action = "replaced"   // by a verdict; Forwarded follows
	Answered   Action = "answered"   // by a verdict, or a ping during CutOff, instead of the server
	Duplicated Action = "duplicated" // by a verdict; Forwarded follows, twice
	Stalled    Action = "stalled"    // by a verdict; what Heal makes of it follows
	Swallowed  Action = "swallowed"  // lost in a Blackhole
	Withheld   Action = "withheld"   // the reply that CutAfter a request has waited for; Reset follows
	Garbage    Action = "garbage"    // not a frame; Reset follows. Detail says why
)

// Event is one entry of the log.
type Event struct {
	Seq    int           // from 1
	At     time.Duration // since Start, on the monotonic clock
	Action Action
	Frame  Frame  // without its body
	Detail string // for people
}

// String returns a line for failure messages.
func (e Event) String() string {
	s := fmt.Sprintf("%d %v %s", e.Seq, e.At.Round(time.Microsecond), e.Action)
	if e.Action != Commanded {
		s += ": " + e.Frame.String()
	}
	if e.Detail != "" {
		s += " (" + e.Detail + ")"
	}
	return s
}

// maxEvents bounds the log. When it is full, its older half is forgotten.
const maxEvents = 100_000

// journal is the log of a proxy. Its owner's lock guards it.
type journal struct {
	begun  time.Time
	events []Event
	last   int           // Seq of the latest event
	added  chan struct{} // closed and replaced at each event
}

// commandf notes a call of a method, and does with mu held what the method changes.
func (p *Proxy) commandf(change func(), format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.journal.add(Commanded, Frame{}, fmt.Sprintf(format, args...))
	change()
}

func newJournal() journal { return journal{begun: time.Now(), added: make(chan struct{})} }

func (j *journal) add(a Action, f Frame, detail string) {
	if len(j.events) == maxEvents {
		j.events = append(j.events[:0], j.events[maxEvents/2:]...)
	}
	f.Body = nil
	j.last++
	j.events = append(j.events, Event{Seq: j.last, At: time.Since(j.begun), Action: a, Frame: f, Detail: detail})
	close(j.added)
	j.added = make(chan struct{})
}

// Log returns what happened, in order: the latest 100,000 events or at least half of that.
func (p *Proxy) Log() []Event {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]Event(nil), p.journal.events...)
}

// Await returns the first event of the log that match accepts, and waits until there is one. Events that are in the log already count;
// compare [Event.Seq] to leave them out. It fails only when the context ends. The function match runs without locks.
func (p *Proxy) Await(ctx context.Context, match func(Event) bool) (Event, error) {
	seen := 0
	for {
		fresh, added := p.eventsAfter(seen)
		for _, e := range fresh {
			if match(e) {
				return e, nil
			}
			seen = e.Seq
		}
		select {
		case <-added:
		case <-ctx.Done():
			return Event{}, fmt.Errorf("zkproxy: no such event among the first %d: %w", seen, context.Cause(ctx))
		}
	}
}

// eventsAfter returns the events with greater numbers, and a channel that is closed when there are more.
func (p *Proxy) eventsAfter(seq int) ([]Event, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	j := &p.journal
	fresh := min(j.last-seq, len(j.events))
	return append([]Event(nil), j.events[len(j.events)-fresh:]...), j.added
}
