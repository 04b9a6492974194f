// SPDX-License-Identifier: Apache-2.0

package barriers

import (
	"context"
	"fmt"

	"github.com/gocurator/curator/framework"
)

// CyclicBarrier is a meeting point: Await blocks until as many members wait
// there as the barrier has, then all go on, and the barrier can be used again.
// It is the barrier of that name in menagerie and in package java.util.concurrent,
// made of a [DistributedDoubleBarrier] that is left as soon as it was entered.
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
// left of the attempt. If the error matches [ErrNotLeft], the others have passed, and
// the call must not be repeated for the same meeting. After any other error they
// wait on, unless they passed just before, since they count a member until its node
// is gone. Members to whom that matters need a number of the meeting that all agree
// on, such as an atomic value.
func (b *CyclicBarrier) Await(ctx context.Context) error {
	if err := b.double.Enter(ctx); err != nil {
		return err
	}
	// A member that came back before all have left would pass at once.
	if err := b.double.Leave(ctx); err != nil {
		return fmt.Errorf("barriers: %w: %w", ErrNotLeft, err)
	}
	return nil
}
