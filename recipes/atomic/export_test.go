// SPDX-License-Identifier: Apache-2.0

package atomic

import (
	"context"

	"github.com/gocurator/curator/recipes/internal/attempt"
)

// SetVersion writes on condition of a version.
func (v *DistributedAtomicValue) SetVersion(ctx context.Context, data []byte, version int32) error {
	_, err := attempt.Replace(ctx, v.cfg.client, v.path, data, version, v.cfg.client.History())
	return err
}

// Waiting returns how many additions wait for the next write.
func (n *DistributedAtomicNumber[T]) Waiting() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.waiting)
}
