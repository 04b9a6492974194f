// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/locks"
)

// lockName is what the nodes of the locks are called, as a mutex's are.
const lockName = "lock-"

// driver is the driver of a mutex. It also reports the contenders before the own node once
// the node is in the queue, because the new owner of a partition queues first and then asks
// the old one.
type driver struct {
	locks.StandardLockInternalsDriver

	ours  atomic.Pointer[string] // the name of the own node
	ahead func(names []string)   // does not block
}

func newDriver(ahead func(names []string)) *driver {
	return &driver{
		StandardLockInternalsDriver: locks.StandardLockInternalsDriver{
			StandardLockInternalsSorter: locks.StandardLockInternalsSorter{LockName: lockName},
		},
		ahead: ahead,
	}
}

func (d *driver) CreatesTheLock(
	ctx context.Context, client *framework.Framework, session *framework.Session, path string, data []byte,
) (locks.LockNode, error) {
	node, err := d.StandardLockInternalsDriver.CreatesTheLock(ctx, client, session, path, data)
	if err == nil {
		_, name := framework.SplitPath(node.Path)
		d.ours.Store(&name)
	}
	return node, err
}

// GetsTheLock is a mutex's. It may be asked about other contenders and about a part of the
// queue. It reports all contenders before the own node to ahead, because a waiter among them
// may come to hold the lock before it learns that it should not.
func (d *driver) GetsTheLock(contenders []string, ours string, maxLeases int) (locks.PredicateResults, error) {
	result, err := d.StandardLockInternalsDriver.GetsTheLock(contenders, ours, maxLeases)
	if own := d.ours.Load(); err == nil && !result.GetsTheLock && own != nil && *own == ours {
		if at := slices.Index(contenders, ours); at > 0 {
			d.ahead(slices.Clone(contenders[:at]))
		}
	}
	return result, err
}
