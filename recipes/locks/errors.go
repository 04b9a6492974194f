package locks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cenkalti/backoff/v4"

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

// ended returns the error of a context that has ended, joined with its cause if they differ.
func ended(ctx context.Context) error {
	if cause := context.Cause(ctx); !errors.Is(cause, ctx.Err()) {
		return fmt.Errorf("%w: %w", ctx.Err(), cause)
	}
	return context.Cause(ctx)
}

func nodeGone(err error) error { return fmt.Errorf("%w: %w", errOwnNodeGone, err) }

func permanent(err error) error {
	if err == nil {
		return nil
	}
	return backoff.Permanent(err)
}

// absent returns err, unless it says that a node is missing.
func absent(err error) error {
	if errors.Is(err, framework.ErrNoNode) {
		return nil
	}
	return err
}

// unsettled returns the error of a release if the node may stay. It is nil for a lease that
// was lost and for a node that is being deleted.
func unsettled(err error) error {
	var lost *LostError
	if errors.As(err, &lost) || errors.Is(err, framework.ErrCleanupPending) || errors.Is(err, framework.ErrClosed) {
		return nil
	}
	return err
}
