// SPDX-License-Identifier: Apache-2.0

package barriers

import "context"

// CloseAfter closes the barrier by what it has seen before fn runs.
func (b *DistributedDoubleBarrier) CloseAfter(ctx context.Context, fn func()) (closed bool, err error) {
	seen, err := b.snapshot(ctx)
	if err != nil {
		return false, err
	}
	fn()
	return b.close(ctx, seen)
}
