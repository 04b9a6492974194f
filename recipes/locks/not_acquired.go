package locks

import (
	"fmt"
)

// NotAcquiredError says which contenders kept an acquisition from the lock. It matches
// [ErrNotAcquired], and the context's error and cause when the end of the context has ended
// the wait.
type NotAcquiredError struct {
	// Position is the number of contenders that were known to stand before this
	// acquisition. Under [WithLocalHandoff] it may be the number of goroutines of this
	// process instead.
	Position int

	ahead    []string // names of contenders
	describe func(names []string) []Participant
	local    bool  // goroutines of this process were in the way
	cause    error // nil for a try
}

// Ahead returns the contenders that were known to stand before this acquisition, in the
// order of the queue: the first one holds the lock, or is about to. Ahead makes no request,
// so only Path, LockName, Position and Sequence are always set. Identity, Host, PID and
// Label are set for contenders of this client and for contenders that its waiters have
// read. [LockInternals.Participants] returns everything.
func (e *NotAcquiredError) Ahead() []Participant {
	if len(e.ahead) == 0 {
		return nil
	}
	return e.describe(e.ahead)
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
	first := e.describe(e.ahead[:1])[0]
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
