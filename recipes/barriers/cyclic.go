// SPDX-License-Identifier: Apache-2.0

package barriers

import (
	"context"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/internal/attempt"
)

// CyclicBarrier is a meeting point. Await blocks until all members of the barrier
// wait in it. Then all of them go on, and the barrier can be used again. It is the
// barrier of that name in menagerie and in package java.util.concurrent. It is made
// of a [DistributedDoubleBarrier] that its members leave as soon as they have
// entered.
//
// One CyclicBarrier is one member. It is safe for concurrent use.
type CyclicBarrier struct{ double *DistributedDoubleBarrier }

// NewCyclicBarrier returns a member of the barrier at path, which opens for the
// given number of members. All processes must pass the same number. It checks its
// arguments and sends nothing.
func NewCyclicBarrier(client *framework.Framework, path string, members int) (*CyclicBarrier, error) {
	double, err := NewDistributedDoubleBarrier(client, path, members)
	if err != nil {
		return nil, err
	}
	return &CyclicBarrier{double}, nil
}

// Path returns the path of the barrier.
func (b *CyclicBarrier) Path() string { return b.double.Path() }

// Await blocks until all members have come, or ctx ends. If it fails, nothing is
// left of the attempt. If the error matches [ErrNotLeft], the other members have
// passed, and the call must not be repeated for the same meeting. After any other
// error they go on waiting, unless they passed just before, since they count a
// member until its node is gone. If that matters, let all members agree on a number
// of the meeting, such as an atomic value.
func (b *CyclicBarrier) Await(ctx context.Context) error {
	if err := b.double.Enter(ctx); err != nil {
		return err
	}
	// A member that came back before all have left would pass at once.
	return attempt.Wrapf(b.double.endMembership(ctx), "barriers: leave %s: %w", b.Path(), ErrNotLeft)
}
