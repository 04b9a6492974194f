// SPDX-License-Identifier: Apache-2.0

package locks_test

import (
	"context"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/locks"
)

// multi opens a multi-lock of a mutex and a write lock, the second of which the rival may hold.
func (c *faultCell) multi(held bool) (ours *locks.InterProcessMultiLock, theirs *locks.Lease) {
	members := func(client *framework.Framework) []locks.InterProcessLock {
		return []locks.InterProcessLock{openMutex(c.t, client, c.path+"-a"), openWrite(c.t, client, c.path+"-b")}
	}
	c.again, c.rivals = members(c.ours), members(c.theirs)
	if held {
		theirs = acquire(c.t, c.rivals[1])
	}
	return newMulti(c.t, members(c.ours)...), theirs
}

func (c *faultCell) holdMembers(lease *locks.MultiLease, err error) error {
	if err != nil {
		return err
	}
	return c.holdAll(lease.Leases(), nil)
}

func multiAcquire(behind bool) func(*faultCell) func(context.Context) error {
	return func(c *faultCell) func(context.Context) error {
		ours, lease := c.multi(behind)
		c.later = func() { release(c.t, lease) }
		return func(ctx context.Context) error { return c.holdMembers(ours.Acquire(ctx)) }
	}
}

func multiTry(held bool) func(*faultCell) func(context.Context) error {
	return func(c *faultCell) func(context.Context) error {
		ours, lease := c.multi(held)
		c.tidy = func() { release(c.t, lease) }
		return func(ctx context.Context) error { return c.holdMembers(ours.TryAcquire(ctx)) }
	}
}

func multiRelease(c *faultCell) func(context.Context) error {
	ours, _ := c.multi(false)
	lease := must.Get(ours.Acquire(context.Background()))(c.t)
	time.Sleep(whileItHolds)
	return lease.Release
}

func releaseTogether(c *faultCell) func(context.Context) error {
	ours, _ := c.multi(false)
	lease := must.Get(ours.Acquire(context.Background()))(c.t)
	time.Sleep(whileItHolds)
	return func(ctx context.Context) error { return locks.ReleaseAll(ctx, lease.Leases()...) }
}

func multiDo(c *faultCell) func(context.Context) error {
	ours, _ := c.multi(false)
	return func(ctx context.Context) error {
		return ours.Do(ctx, func(ctx context.Context) error { return ctx.Err() })
	}
}

func multiParticipants(c *faultCell) func(context.Context) error {
	ours, lease := c.multi(true)
	return c.participantsOf(ours.Participants, lease)
}
