// SPDX-License-Identifier: Apache-2.0

package locks

import "github.com/gocurator/curator/framework"

// InterProcessSemaphore is Curator's first semaphore: a mutex that up to maxLeases owners
// may hold at once. It is for programs that share it with Java; new programs use
// [InterProcessSemaphoreV2], which takes fewer requests where many wait. It is fair, and
// cannot acquire several leases together. It does not exclude an InterProcessSemaphoreV2 on
// the same path.
//
// Layout: as for [InterProcessMutex]. The first maxLeases contenders in the order of the
// digits have a lease; [StandardLockInternalsDriver] says how the others wait.
//
// An acquisition blocks until there is a lease for its place in the queue. While the maximum
// is 0, no acquisition gets a lease. It is not re-entrant: every acquisition is for another
// lease. It is safe for concurrent use.
type InterProcessSemaphore struct{ *lock }

var _ InterProcessLock = (*InterProcessSemaphore)(nil)

// NewInterProcessSemaphore returns the semaphore at path, for three leases with FixedLeases(3) as its maxLeases.
// It checks its arguments and sends nothing.
func NewInterProcessSemaphore(
	client *framework.Framework, path string, maxLeases MaxLeases, opts ...Option,
) (*InterProcessSemaphore, error) {
	l, err := newLock(spec{
		client: client, driver: mutexDriver, path: path, lockName: mutexName, maxLeases: maxLeases, recipe: "semaphore",
		features: []feature{measured, revocable}, isFull: isFull,
	}, opts)
	if err != nil {
		return nil, err
	}
	return &InterProcessSemaphore{l}, nil
}

// InterProcessSemaphoreMutex is a lock across processes and machines that is not
// re-entrant: a holder that acquires it again, also inside Do, waits for itself until its
// context ends, or gets an error if the lock was made [WithoutReentry]. It is an
// [InterProcessSemaphoreV2] with one lease, and shares its state with Curator's class of that
// name. It does not exclude an [InterProcessMutex] on the same path. New programs that share
// the lock with no Java program should use a mutex made WithoutReentry, which takes a third
// of the requests.
type InterProcessSemaphoreMutex struct{ permits }

var _ InterProcessLock = (*InterProcessSemaphoreMutex)(nil)

// NewInterProcessSemaphoreMutex returns the lock at path. It checks its arguments
// and sends nothing.
func NewInterProcessSemaphoreMutex(client *framework.Framework, path string, opts ...Option) (*InterProcessSemaphoreMutex, error) {
	p, err := newPermits(client, path, FixedLeases(1), opts)
	if err != nil {
		return nil, err
	}
	return &InterProcessSemaphoreMutex{p}, nil
}
