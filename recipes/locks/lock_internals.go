// SPDX-License-Identifier: Apache-2.0

package locks

import (
	"context"
	"errors"
	"fmt"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/options"
)

// LockInternals is the implementation that all locks share: a queue of ephemeral sequential
// nodes below a path, in which each contender waits for a contender before it. It ports
// attemptLock and internalLockLoop of Curator's class of that name; recipes/MIGRATING.md lists
// the differences.
//
// A recipe adds its [LockInternalsDriver]. A LockInternals is safe for concurrent use.
type LockInternals struct{ *lock }

var _ Revocable = (*LockInternals)(nil)

// NewLockInternals returns a lock at path. Its nodes are named for lockName, and up to
// maxLeases acquisitions may hold it at once. An acquisition with a context that carries
// ownership re-enters, with any maxLeases. NewLockInternals checks its arguments and sends
// nothing.
func NewLockInternals(
	client *framework.Framework, driver LockInternalsDriver, path, lockName string, maxLeases int, opts ...Option,
) (*LockInternals, error) {
	s := spec{
		client: client, driver: driver, path: path, lockName: lockName, maxLeases: FixedLeases(maxLeases),
		reenters: true, handsOff: maxLeases == 1, recipe: "custom", features: []feature{measured, revocable},
	}
	if _, isQueue := driver.(queueDriver); isQueue {
		s.isFull = isFull
	}
	l, err := newLock(s, opts)
	if err != nil {
		return nil, err
	}
	return &LockInternals{l}, nil
}

// Path returns the path of the lock, the folder of its nodes.
func (l *lock) Path() string { return l.path }

// Acquire blocks until the lock is held, or one lease of a semaphore, and returns its lease.
// The context bounds the wait only. Once the acquisition has stood in the queue no outage
// ends the wait: after the end of its session it joins the queue again. An error of another
// kind does, such as [framework.ErrNoAuth].
// When the context ends, the error matches the context's error and its cause, and the place
// in the queue is given up. It also matches [ErrNotAcquired] if another contender stood
// before it, and [framework.ErrNotConnected] if there was no connection.
//
// A context that was derived from a lease of this lock ([Lease.Context]) re-enters, unless
// the lock is a semaphore: the new lease shares node and token with the first, and the lock
// is released with the last of them. If the first lease has ended, the error says how.
// Goroutines that acquire with one such context all enter at once: they do not exclude each
// other, just as one thread does not exclude itself in Curator. [WithoutReentry] makes that
// an error.
func (l *lock) Acquire(ctx context.Context) (*Lease, error) { return l.attemptLock(ctx, true) }

// TryAcquire acquires the lock if no contender is in the way, whether it holds the lock or
// waits for it. Otherwise it does not queue: the error is a [*NotAcquiredError], which matches
// [ErrNotAcquired], and no node is left. A try on a free lock takes one round trip, and three
// if the folder is missing. A try that follows a failed one reads the queue first. A try on a
// mutex that another acquisition of this client has or waits for fails without a request.
// Without a connection a try fails as any request does, after the client's connection timeout
// and retries. It re-enters like Acquire.
func (l *lock) TryAcquire(ctx context.Context) (*Lease, error) { return l.attemptLock(ctx, false) }

// Do runs fn while the lock is held; see [Do].
func (l *lock) Do(ctx context.Context, fn func(context.Context) error) error {
	return do(ctx, l.path, l.Acquire, fn)
}

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
	if options.IsNil(lock) {
		return errors.New("locks: do: lock nil, expected an InterProcessLock")
	}
	acquire := func(ctx context.Context) (*Lease, error) { return leaseOf(ctx, lock, InterProcessLock.Acquire) }
	return do(ctx, lock.Path(), acquire, fn)
}

// leaseOf acquires a lock that may be of another package. Such a lock, like the fake of a test, may return neither a lease nor an
// error, which nothing can be done with.
func leaseOf(ctx context.Context, lock InterProcessLock, acquire func(InterProcessLock, context.Context) (*Lease, error)) (*Lease, error) {
	lease, err := acquire(lock, ctx)
	if lease == nil && err == nil {
		return nil, fmt.Errorf("locks: acquire %s: %T returned no lease and no error, expected one of them", lock.Path(), lock)
	}
	return lease, err
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
