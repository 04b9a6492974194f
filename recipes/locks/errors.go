package locks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gocurator/curator/framework"
)

var (
	// ErrNotAcquired reports that a contender was in the way: TryAcquire found one, or
	// the context ended while contenders stood before in the queue. The error is then a
	// [*NotAcquiredError] too. An acquisition that fails without a connection matches
	// [framework.ErrNotConnected] instead: it is unknown then whether another client holds
	// the lock. The error of an acquisition whose context has ended always matches the
	// context's error and its cause. The attempt leaves no node behind, or the node is
	// being deleted in the background.
	//
	// [Condition.Await] returns it whenever its context has ended: the lock is not held.
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

	errNilContext = fmt.Errorf("%w: context nil, expected one such as context.Background()", framework.ErrInvalidOption)

	// errOwnNodeGone starts an acquisition again from the beginning.
	errOwnNodeGone = errors.New("the lock node is gone")
)

// joinedError is several errors with a text of one line.
type joinedError struct{ errs []error }

// joined is errors.Join with a text without newlines, which would break the lines of a log.
func joined(errs ...error) error {
	errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	switch len(errs) {
	case 0:
		return nil
	case 1:
		return errs[0]
	default:
		return &joinedError{errs}
	}
}

func (e *joinedError) Error() string {
	texts := make([]string, len(e.errs))
	for i, err := range e.errs {
		texts[i] = err.Error()
	}
	return strings.Join(texts, "; ")
}

func (e *joinedError) Unwrap() []error { return e.errs }

// LostError is the error and the cause of a lease that was lost; see
// [framework.LostError].
type LostError = framework.LostError

// NotAcquiredError says which contenders kept an acquisition from the lock. It matches
// [ErrNotAcquired], and the context's error and cause when the end of the context has ended
// the wait.
type NotAcquiredError struct {
	// Position is the number of contenders that were known to stand before this
	// acquisition. Under [WithLocalHandoff] it may be the number of goroutines of this
	// process instead.
	Position int

	l      *LockInternals
	folder *folder  // knows the data of contenders
	ahead  []string // names of contenders
	cause  error    // nil for a try
}

// Ahead returns the contenders that were known to stand before this acquisition, in the
// order of the queue: the first one holds the lock, or is about to. Ahead makes no request,
// so only Path, LockName, Position and Sequence are always set. Identity, Host, PID and
// Label are set for contenders of this client and for contenders that its waiters have
// read. [LockInternals.Participants] returns everything.
func (e *NotAcquiredError) Ahead() []Participant { return e.l.describe(e.folder, e.ahead) }

func (e *NotAcquiredError) Error() string {
	text := ErrNotAcquired.Error() + ": " + e.inTheWay()
	if e.cause != nil {
		text += ": " + e.cause.Error()
	}
	return text
}

// inTheWay names the first contender ahead.
func (e *NotAcquiredError) inTheWay() string {
	if len(e.ahead) == 0 && e.l.handoff == nil { // a maximum of 0
		return "no contender is let in, as while a semaphore is paused"
	}
	if len(e.ahead) == 0 {
		return "it is held or waited for in this process"
	}
	first := e.l.describe(e.folder, e.ahead[:1])[0]
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

// notAcquired returns the error of an acquisition behind these contenders.
func (l *LockInternals) notAcquired(f *folder, ahead []string, cause error) error {
	return &NotAcquiredError{Position: len(ahead), l: l, folder: f, ahead: ahead, cause: cause}
}

// ended returns the error of a context that has ended, joined with its cause if they differ.
func ended(ctx context.Context) error {
	if cause := context.Cause(ctx); !errors.Is(cause, ctx.Err()) {
		return fmt.Errorf("%w: %w", ctx.Err(), cause)
	}
	return context.Cause(ctx)
}

// acquireError returns the error of an acquisition with the prefix that all of them have.
func (l *LockInternals) acquireError(ctx context.Context, path string, err error) error {
	return fmt.Errorf("locks: acquire %s: %w", path, l.whyNot(ctx, err))
}

// whyNot returns the reason for a failed acquisition: err, the end of the context if it has
// ended, and the missing connection if there is none.
func (l *LockInternals) whyNot(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	end := ended(ctx)
	// Without a connection it is unknown which contenders are in the way now.
	if health := l.client.Health().Err; errors.Is(health, framework.ErrNotConnected) {
		return fmt.Errorf("%w: %w", health, end)
	}
	if !errors.Is(err, ctx.Err()) || !errors.Is(err, context.Cause(ctx)) {
		return fmt.Errorf("%w: %w", end, err)
	}
	return err
}

// awaitError returns the reason for a failed Await.
func awaitError(ctx context.Context, err error) error {
	if ctx.Err() == nil || errors.Is(err, ErrNotAcquired) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrNotAcquired, ended(ctx))
}

// describe returns the contenders ahead as participants, as far as they are known without a
// request.
func (l *LockInternals) describe(f *folder, contenders []string) []Participant {
	_, lockName := framework.SplitPath(l.basePath)
	participants := make([]Participant, len(contenders))
	for i, name := range contenders {
		p := Participant{Path: framework.JoinPath(l.path, name), LockName: lockName, Position: i}
		p.Sequence, _ = trailingNumber(name)
		p.Identity = f.identityOf(name)
		p.Host, p.PID, p.Label = parseIdentity(p.Identity)
		participants[i] = p
	}
	return participants
}
