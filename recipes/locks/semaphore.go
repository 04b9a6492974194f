// SPDX-License-Identifier: Apache-2.0

package locks

import (
	"context"

	"github.com/gocurator/curator/framework"
)

// InterProcessSemaphore is Curator's first semaphore: a mutex that up to maxLeases owners
// may hold at once. It is for programs that share it with Java; new programs use
// [InterProcessSemaphoreV2], which takes fewer requests where many wait. It is fair, and
// cannot acquire several leases together. It does not exclude an InterProcessSemaphoreV2 on
// the same path.
//
// Layout: as for [InterProcessMutex]. The first maxLeases contenders in the order of the
// digits have a lease; [StandardLockInternalsDriver] says how the others wait.
//
// It is not re-entrant: every acquisition is for another lease. It is safe for
// concurrent use.
type InterProcessSemaphore struct{ internals *LockInternals }

var _ InterProcessLock = (*InterProcessSemaphore)(nil)

// NewInterProcessSemaphore returns the semaphore at path. It checks its arguments
// and sends nothing.
func NewInterProcessSemaphore(
	client *framework.Framework, path string, maxLeases MaxLeases, opts ...Option,
) (*InterProcessSemaphore, error) {
	internals, err := newInternals(spec{
		client: client, driver: newQueueDriver(mutexName), path: path, lockName: mutexName, maxLeases: maxLeases, opts: named("semaphore", opts),
	})
	if err != nil {
		return nil, err
	}
	return &InterProcessSemaphore{internals}, nil
}

// Path returns the path of the semaphore, the folder of its nodes.
func (s *InterProcessSemaphore) Path() string { return s.internals.Path() }

// Acquire blocks until there is a lease for its place in the queue. Only the context
// ends the wait; for errors see [InterProcessMutex.Acquire]. While the maximum is 0, no acquisition gets a lease.
func (s *InterProcessSemaphore) Acquire(ctx context.Context) (*Lease, error) {
	return s.internals.Acquire(ctx)
}

// TryAcquire acquires a lease if one is free and no contender waits for it. Otherwise it
// returns an error that matches [ErrNotAcquired].
func (s *InterProcessSemaphore) TryAcquire(ctx context.Context) (*Lease, error) {
	return s.internals.TryAcquire(ctx)
}

// Do runs fn while a lease is held; see [Do].
func (s *InterProcessSemaphore) Do(ctx context.Context, fn func(context.Context) error) error {
	return Do(ctx, s, fn)
}

// Participants returns the holders of leases and the waiters, in the order of the queue;
// see [LockInternals.Participants].
func (s *InterProcessSemaphore) Participants(ctx context.Context) ([]Participant, error) {
	return s.internals.Participants(ctx)
}

// InterProcessSemaphoreMutex is a lock across processes and machines that is not
// re-entrant: a holder that acquires it again waits for itself until its context ends, or
// gets an error if the lock was made [WithoutReentry]. It is an [InterProcessSemaphoreV2]
// with one lease, and shares its state with Curator's class of that name. It does not
// exclude an [InterProcessMutex] on the same path. New programs that share the lock with no
// Java program should use a mutex made WithoutReentry, which takes a third of the requests.
type InterProcessSemaphoreMutex struct{ semaphore *InterProcessSemaphoreV2 }

var _ InterProcessLock = (*InterProcessSemaphoreMutex)(nil)

// NewInterProcessSemaphoreMutex returns the lock at path. It checks its arguments
// and sends nothing.
func NewInterProcessSemaphoreMutex(client *framework.Framework, path string, opts ...Option) (*InterProcessSemaphoreMutex, error) {
	semaphore, err := NewInterProcessSemaphoreV2(client, path, FixedLeases(1), opts...)
	if err != nil {
		return nil, err
	}
	return &InterProcessSemaphoreMutex{semaphore}, nil
}

// Path returns the path of the lock.
func (m *InterProcessSemaphoreMutex) Path() string { return m.semaphore.Path() }

// Acquire blocks until the lock is held or the context ends; see
// [InterProcessSemaphoreV2.Acquire].
func (m *InterProcessSemaphoreMutex) Acquire(ctx context.Context) (*Lease, error) {
	return m.semaphore.Acquire(ctx)
}

// TryAcquire acquires the lock if no client holds it or is about to acquire it.
// Otherwise it returns an error that matches [ErrNotAcquired].
func (m *InterProcessSemaphoreMutex) TryAcquire(ctx context.Context) (*Lease, error) {
	return m.semaphore.TryAcquire(ctx)
}

// Do runs fn while the lock is held; see [Do]. Acquiring the lock again in fn
// waits until the context ends.
func (m *InterProcessSemaphoreMutex) Do(ctx context.Context, fn func(context.Context) error) error {
	return Do(ctx, m, fn)
}

// Participants returns the lease of the holder, and the lease of the next contender if it
// has its turn; see [InterProcessSemaphoreV2.Participants].
func (m *InterProcessSemaphoreMutex) Participants(ctx context.Context) ([]Participant, error) {
	return m.semaphore.Participants(ctx)
}

// Waiters returns the contenders that are about to acquire the lock, in the order of
// their turns; see [InterProcessSemaphoreV2.Waiters].
func (m *InterProcessSemaphoreMutex) Waiters(ctx context.Context) ([]Participant, error) {
	return m.semaphore.Waiters(ctx)
}
