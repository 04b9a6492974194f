package locks

import (
	"context"

	"github.com/gocurator/curator/framework"
)

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
