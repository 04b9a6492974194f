package locks

import (
	"fmt"

	"github.com/gocurator/curator/framework"
)

// NotAcquiredError says which contenders kept an acquisition from the lock. It matches
// [ErrNotAcquired], and the context's error and cause when the end of the context has ended
// the wait.
type NotAcquiredError struct {
	// Position is the number of contenders that were known to stand before this
	// acquisition. Under [WithLocalHandoff] it may be the number of goroutines of this
	// process instead.
	Position int

	path       string // of the lock
	lockName   string
	ahead      []string // names of contenders
	identities []string // of the first contenders ahead, "" if it was not known
	local      bool     // goroutines of this process were in the way
	cause      error    // nil for a try
}

// Ahead returns the contenders that were known to stand before this acquisition, in the
// order of the queue: the first one holds the lock, or is about to. Ahead makes no request,
// so only Path, LockName, Position and Sequence are always set. Identity, Host, PID and
// Label are set for contenders of this client and for contenders that its waiters had
// read, among the first hundred. [LockInternals.Participants] returns everything.
func (e *NotAcquiredError) Ahead() []Participant {
	var participants []Participant
	for i := range e.ahead {
		participants = append(participants, e.participant(i))
	}
	return participants
}

// identified is how many contenders ahead an error describes. A crowd of waiters that give up
// together would take much memory with more.
const identified = 100

// participant returns a contender ahead, as far as it was known without a request.
func (e *NotAcquiredError) participant(position int) Participant {
	name := e.ahead[position]
	p := Participant{Path: framework.JoinPath(e.path, name), LockName: e.lockName, Position: position}
	p.Sequence, _ = trailingNumber(name)
	if position < len(e.identities) {
		p.Identity = e.identities[position]
		p.Host, p.PID, p.Label = parseIdentity(p.Identity)
	}
	return p
}

func (e *NotAcquiredError) Error() string {
	text := ErrNotAcquired.Error() + ": " + e.inTheWay()
	if e.cause != nil {
		text += ": " + e.cause.Error()
	}
	return text
}

// inTheWay names the first contender ahead.
func (e *NotAcquiredError) inTheWay() string {
	switch {
	case e.local:
		return "it is held or waited for in this process"
	case len(e.ahead) == 0: // a maximum of 0
		return "no contender is let in, as while a semaphore is paused"
	}
	first := e.participant(0)
	text := fmt.Sprintf("%d ahead in the queue, the first is %s", e.Position, first.Path)
	if first.Host != "" {
		text += fmt.Sprintf(" (%s)", first.Identity)
	}
	return text
}

// Unwrap returns ErrNotAcquired and, if there is one, the error of the context.
func (e *NotAcquiredError) Unwrap() []error {
	if e.cause == nil {
		return []error{ErrNotAcquired}
	}
	return []error{ErrNotAcquired, e.cause}
}
