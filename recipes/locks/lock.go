package locks

import (
	"context"
	"errors"
	"fmt"
)

// InterProcessLock is the interface that the recipes of this package share: a mutex, either
// side of a read/write lock, or one permit of a semaphore.
type InterProcessLock interface {
	// Path is the path of the lock.
	Path() string

	// Acquire blocks until the lock is held or ctx ends.
	Acquire(ctx context.Context) (*Lease, error)

	// TryAcquire acquires the lock if it is free, and does not wait for it.
	TryAcquire(ctx context.Context) (*Lease, error)
}

// Do acquires the lock, runs fn, and releases the lock when fn has returned or
// panicked. The context of fn ends when the lease is lost, and carries ownership:
// acquiring the same lock with it re-enters, and [LeaseFrom] returns the lease. The
// release does not depend on ctx; it takes at most ten seconds.
//
// Goroutines that fn starts with its context share the lock, and all of them are inside
// at once: the lock excludes only those that acquire it with another context. See
// [WithoutReentry].
//
// The error is the acquisition's, or fn's joined with the release's. A [*LostError] in it
// says that the lease was lost while fn ran. A [*ReleaseError] in it says that fn has run:
// to repeat Do would repeat the work.
func Do(ctx context.Context, lock InterProcessLock, fn func(context.Context) error) error {
	if lock == nil {
		return errors.New("locks: do: lock nil, expected an InterProcessLock")
	}
	return do(ctx, lock.Path(), lock.Acquire, fn)
}

// heldLock is a [Lease] or a [MultiLease].
type heldLock interface {
	Context(ctx context.Context) context.Context
	Release(ctx context.Context) error
}

// do runs fn under what acquire returns.
func do[L heldLock](
	ctx context.Context, path string, acquire func(context.Context) (L, error), fn func(context.Context) error,
) (err error) {
	if fn == nil {
		return fmt.Errorf("locks: do under %s: function nil, expected what to do", path)
	}
	lease, err := acquire(ctx)
	if err != nil {
		return err
	}
	defer func() {
		err = afterWork(err, lease.Release(context.WithoutCancel(ctx)))
	}()
	return fn(lease.Context(ctx))
}
