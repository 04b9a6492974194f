// SPDX-License-Identifier: Apache-2.0

package locks

import "github.com/gocurator/curator/framework"

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
type InterProcessMutex struct{ *lock }

var (
	_ InterProcessLock = (*InterProcessMutex)(nil)
	_ Revocable        = (*InterProcessMutex)(nil)
)

// NewInterProcessMutex returns the mutex at path. It checks its arguments and
// sends nothing.
func NewInterProcessMutex(client *framework.Framework, path string, opts ...Option) (*InterProcessMutex, error) {
	l, err := newLock(spec{
		client: client, driver: mutexDriver, path: path, lockName: mutexName, maxLeases: FixedLeases(1),
		reenters: true, handsOff: true, recipe: "mutex", features: []feature{measured, revocable}, isFull: isFull,
	}, opts)
	if err != nil {
		return nil, err
	}
	return &InterProcessMutex{l}, nil
}
