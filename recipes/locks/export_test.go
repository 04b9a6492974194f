// SPDX-License-Identifier: Apache-2.0

package locks

import (
	"sync"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/locks/internal/heldnode"
)

// ReadWriteDrivers returns the drivers of the read side and of the write side.
func ReadWriteDrivers() [2]LockInternalsDriver {
	return [2]LockInternalsDriver{readDriver{}, writeDriver{}}
}

// DowngradeDriver returns the driver of the reader that the holder of this node becomes.
func DowngradeDriver(writer string) LockInternalsDriver {
	return downgradeDriver{writer: &hold{node: heldnode.Node{Path: writer}}}
}

// SemaphoreV2Driver returns the driver of the leases of an InterProcessSemaphoreV2.
func SemaphoreV2Driver() LockInternalsDriver {
	return leaseDriver{StandardLockInternalsDriver{StandardLockInternalsSorter{leaseName}}}
}

// MutexOfHold is what guards the count of the leases of the lease's hold.
func MutexOfHold(l *Lease) sync.Locker { return &l.hold.mu }

// GatesOf counts the gates of a client that are in use.
func GatesOf(client *framework.Framework) (n int) {
	gates.Lock()
	defer gates.Unlock()
	for key, g := range gates.byKey {
		if key.client.Value() == client.WithoutNamespace() && g.Value() != nil {
			n++
		}
	}
	return n
}
