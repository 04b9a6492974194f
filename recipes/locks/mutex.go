// SPDX-License-Identifier: Apache-2.0

package locks

import (
	"context"

	"github.com/gocurator/curator/framework"
)

// mutexName is Curator's name for the nodes of a mutex.
const mutexName = "lock-"

// mutexDriver is the driver of all mutexes.
var mutexDriver LockInternalsDriver = newQueueDriver(mutexName)

// InterProcessMutex is a fair, re-entrant lock across processes and machines. Contenders
// get the lock in the order in which the server has created their nodes. It shares its
// queue with Curator's class of that name and with go-zookeeper's zk.Lock.
//
// Layout: <path>/_c_<uuid>-lock-<10 digits>, ephemeral, below container nodes. The first
// contender in the order of the digits has the lock; each of the others waits for the one
// before it.
//
// It is safe for concurrent use. Two InterProcessMutex on one path and client are the same
// lock.
type InterProcessMutex struct {
	internals *LockInternals
	sorter    StandardLockInternalsSorter
}

var _ InterProcessLock = (*InterProcessMutex)(nil)

// NewInterProcessMutex returns the mutex at path. It checks its arguments and
// sends nothing.
func NewInterProcessMutex(client *framework.Framework, path string, opts ...Option) (*InterProcessMutex, error) {
	sorter := StandardLockInternalsSorter{LockName: mutexName}
	internals, err := NewLockInternals(client, mutexDriver, path, mutexName, 1,
		named("mutex", opts)...)
	if err != nil {
		return nil, err
	}
	return &InterProcessMutex{internals, sorter}, nil
}

// Path returns the path of the mutex, the folder of its nodes.
func (m *InterProcessMutex) Path() string { return m.internals.Path() }

// Acquire blocks until the lock is held, and returns its lease. The context bounds
// the wait only. Once the acquisition stands in the queue nothing but the context ends
// the wait: after an outage or the end of its session it joins the queue again. When the
// context ends, the error matches the context's error and its cause, and the place in the
// queue is given up. It also matches [ErrNotAcquired] if another contender stood before it,
// and [framework.ErrNotConnected] if there was no connection.
//
// A context that was derived from a lease of this lock ([Lease.Context]) re-enters: the new
// lease shares node and token with the first, and the lock is released with the last of
// them. If the first lease has ended, the error says how. Goroutines that acquire with one
// such context all enter at once: they do not exclude each other, just as one thread does
// not exclude itself in Curator. [WithoutReentry] makes that an error.
func (m *InterProcessMutex) Acquire(ctx context.Context) (*Lease, error) {
	return m.internals.Acquire(ctx)
}

// TryAcquire acquires the lock if no client holds it or waits for it. Otherwise it does not
// queue: the error is a [*NotAcquiredError], which matches [ErrNotAcquired], and no node is
// left. A try on a free lock takes one round trip, and three if the folder is missing. A try
// that follows a failed one, or that is made while this client has contenders of its own,
// reads the queue first; it may wait until another try of this client is decided, which
// could be in its way. Without a connection it fails as any request does, after the client's
// connection timeout and retries. It re-enters like Acquire.
func (m *InterProcessMutex) TryAcquire(ctx context.Context) (*Lease, error) {
	return m.internals.TryAcquire(ctx)
}

// Do runs fn while the lock is held; see [Do].
func (m *InterProcessMutex) Do(ctx context.Context, fn func(context.Context) error) error {
	return Do(ctx, m, fn)
}

// Participants returns the holder and the waiters, in the order of the queue; see
// [LockInternals.Participants].
func (m *InterProcessMutex) Participants(ctx context.Context) ([]Participant, error) {
	return m.internals.Participants(ctx)
}
