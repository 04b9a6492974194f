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
