// SPDX-License-Identifier: Apache-2.0

package locks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/locks/internal/identity"
)

var (
	// ErrNotAcquired reports that a contender was in the way: TryAcquire found one, or
	// the context ended while contenders stood before in the queue. The error is then a
	// [*NotAcquiredError] too. An acquisition that fails without a connection matches
	// [framework.ErrNotConnected] instead: it is unknown then whether another client holds
	// the lock. The error of an acquisition whose context has ended always matches the
	// context's error and its cause. The attempt leaves no node behind, or the node is
	// being deleted in the background.
	ErrNotAcquired = errors.New("not acquired")

	// ErrReleased is the cause of a lease's contexts after its release.
	ErrReleased = errors.New("lease released")

	// ErrSequenceExhausted reports that the lock's folder has had 2^31 - 1 nodes. The
	// server gives every further node the same number, so the queue has no order any more.
	// No contender is admitted until the folder is empty and has been deleted, which the
	// server does by itself when the folder is a container. (ZooKeeper 3.5 goes on with
	// negative numbers instead, and so does the lock.)
	ErrSequenceExhausted = errors.New("the folder's sequence numbers are exhausted, it must be deleted once it is empty")

	// ErrTooManyLeases reports that an acquisition wants more leases at once than a
	// semaphore has. Waiting for them would never end. A semaphore that is paused, with 0
	// leases, does not return it.
	ErrTooManyLeases = errors.New("more leases are wanted than there may be")

	// ErrUpgrade reports an acquisition of the write lock with the context of a read lease
	// of the same lock. The writer would wait forever for its own reader, so it is refused
	// at once. Release the read lease first; another writer may then be faster.
	ErrUpgrade = errors.New("a read lock cannot be upgraded: the writer would wait for its own reader")

	// ErrReentered reports that a lock made [WithoutReentry] was acquired with a context that
	// holds it already.
	ErrReentered = errors.New("re-entered")

	// errOwnNodeGone starts an acquisition again from the beginning.
	errOwnNodeGone = errors.New("the lock node is gone")
)

// Both start an acquisition of leases again from the beginning, the second after a pause that grows.
var (
	errTurnLost    = errors.New("the turn or a lease was lost before all leases were acquired")
	errTurnGivenUp = errors.New("an outage has outlasted the turn")
)

// joined is errors.Join with a text without newlines, which would break the lines of a log.
func joined(errs ...error) error {
	errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	switch len(errs) {
	case 0:
		return nil
	case 1:
		return errs[0]
	}
	all := make([]any, len(errs))
	for i, err := range errs {
		all[i] = err
	}
	return fmt.Errorf(strings.Repeat("%w; ", len(all)-1)+"%w", all...)
}

// LostError is the error and the cause of a lease that was lost; see
// [framework.LostError].
type LostError = framework.LostError

// ended returns the error of a context that has ended, joined with its cause if they differ.
func ended(ctx context.Context) error {
	cause := context.Cause(ctx)
	// A context that was derived from that of a lease says of a deadline that it was canceled.
	if cause == context.DeadlineExceeded || errors.Is(cause, ctx.Err()) { //nolint:errorlint // this very error
		return cause
	}
	return fmt.Errorf("%w: %w", ctx.Err(), cause)
}

func nodeGone(err error) error { return fmt.Errorf("%w: %w", errOwnNodeGone, err) }

// absent returns err, unless it says that a node is missing.
func absent(err error) error {
	if errors.Is(err, framework.ErrNoNode) {
		return nil
	}
	return err
}

// unsettled returns the error of a release if the node may stay. It is nil for a lease that
// was lost and for a node that is being deleted. A node that the client may not delete stays, until it may.
func unsettled(err error) error {
	var lost *LostError
	switch {
	case errors.As(err, &lost), errors.Is(err, framework.ErrClosed):
		return nil
	case errors.Is(err, framework.ErrCleanupPending) && !errors.Is(err, framework.ErrNoAuth):
		return nil
	default:
		return err
	}
}

// NotAcquiredError says which contenders kept an acquisition from the lock. It matches
// [ErrNotAcquired], and the context's error and cause when the end of the context has ended
// the wait.
type NotAcquiredError struct {
	// Position is the number of contenders that were known to stand before this
	// acquisition. An acquisition that has waited in memory counts the goroutines of its
	// client; see [WithQueuePlaces].
	Position int

	path       string // of the lock
	lockName   string
	ahead      []string      // names of contenders
	identities []string      // of the first contenders ahead, "" if it was not known
	local      bool          // goroutines of this process were in the way
	delay      time.Duration // that is left after a loss; see WithLockDelay
	cause      error         // nil for a try
}

// Ahead returns the contenders that were known to stand before this acquisition, in the
// order of the queue: the first one holds the lock, or is about to. Ahead makes no request,
// so only Path, LockName, Position and Sequence are always set. Identity, Host, PID and
// Label are set for contenders of this client and for the contenders that this acquisition
// watched, among the first hundred. [LockInternals.Participants] returns everything.
func (e *NotAcquiredError) Ahead() []Participant {
	var participants []Participant
	for i := range e.ahead {
		participants = append(participants, e.participant(i))
	}
	return participants
}

// participant returns a contender ahead, as far as it was known without a request.
func (e *NotAcquiredError) participant(position int) Participant {
	name := e.ahead[position]
	p := Participant{Path: framework.JoinPath(e.path, name), LockName: e.lockName, Position: position}
	p.Sequence, _ = trailingNumber(name)
	if position < len(e.identities) {
		p.Identity = e.identities[position]
		p.Host, p.PID, p.Label = identity.Parse(p.Identity)
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
	case e.delay > 0:
		return fmt.Sprintf("a holder was lost, and %v are left of the lock delay", e.delay.Round(time.Millisecond))
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
