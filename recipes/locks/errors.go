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
	// ErrNotAcquired says that the lock was not acquired: another one has it
	// (TryAcquire), or the context ended first, whose cause the error then matches
	// too. Nothing of the attempt is left, or what is left is being deleted in the
	// background.
	ErrNotAcquired = errors.New("not acquired")

	// ErrReleased is the cause with which the contexts of a lease end when it is
	// released.
	ErrReleased = errors.New("lease released")

	// ErrSequenceExhausted says that the lock's folder has had 2^31 - 1 nodes. The
	// server then gives every further node the same number, so that the queue has no
	// order any more: nobody is admitted until the folder is empty and has been
	// deleted, which the server does by itself when it is a container. (ZooKeeper 3.5
	// goes on with negative numbers instead, and so does the lock.)
	ErrSequenceExhausted = errors.New("the folder's sequence numbers are exhausted, it must be deleted once it is empty")

	// ErrTooManyLeases says that more leases are wanted at once than a semaphore has.
	// Waiting for them would never end. A semaphore that is paused, with 0 leases, does
	// not return it.
	ErrTooManyLeases = errors.New("more leases are wanted than there may be")

	// ErrUpgrade says that the write side was asked for with the context of a read
	// lease of the same lock. The writer would wait for its own reader, for ever, so
	// it is refused at once; release the read lease first, and expect another writer
	// to be faster.
	ErrUpgrade = errors.New("a read lock cannot be upgraded: the writer would wait for its own reader")

	errNilContext = fmt.Errorf("%w: context nil, expected one such as context.Background()", framework.ErrInvalidOption)

	// errOwnNodeGone starts an acquisition again from the beginning.
	errOwnNodeGone = errors.New("the lock node is gone")
)

// joinedError is several errors in one line.
type joinedError struct{ errs []error }

// joined is errors.Join with a text without newlines, which would break lines of logs.
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

// acquireError is the form of every error of an acquisition.
func acquireError(ctx context.Context, path string, err error) error {
	return fmt.Errorf("locks: acquire %s: %w", path, notAcquired(ctx, err))
}

// notAcquired returns the error, or the end of the context if that has come first.
func notAcquired(ctx context.Context, err error) error {
	if ctx.Err() != nil && !errors.Is(err, ErrNotAcquired) {
		return fmt.Errorf("%w: %w", ErrNotAcquired, context.Cause(ctx))
	}
	return err
}
