// SPDX-License-Identifier: Apache-2.0

package barriers

import (
	"context"

	"github.com/gocurator/curator/framework"
)

// CloseAfter closes the barrier by what it has seen before fn runs.
func (b *DistributedDoubleBarrier) CloseAfter(ctx context.Context, fn func()) (closed bool, err error) {
	seen, err := b.snapshot(ctx)
	if err != nil {
		return false, err
	}
	fn()
	return b.close(ctx, seen)
}

// AfterVersion returns how many events are left when the znode that counts them has a version,
// and the error of the CountDown that has written it.
func (l *CountDownLatch) AfterVersion(version int32) (left int, err error) {
	return l.left(&framework.Stat{Version: version}), l.overflow(version)
}
