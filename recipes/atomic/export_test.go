// SPDX-License-Identifier: Apache-2.0

package atomic

import "context"

// SetVersion writes on condition of a version.
func (v *DistributedAtomicValue) SetVersion(ctx context.Context, data []byte, version int32) error {
	return v.set(ctx, data, version, v.cfg.client.History())
}

// Waiting returns how many additions wait for the next write.
func (n *DistributedAtomicNumber[T]) Waiting() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.waiting)
}
