// SPDX-License-Identifier: Apache-2.0

package locks_test

import (
	"context"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/locks"
)

// conditional is a lock that has conditions.
type conditional interface {
	locks.InterProcessLock
	NewCondition(path string) (*locks.Condition, error)
}

// condition opens a mutex, or the write side of a read/write lock, and a condition of it.
func (c *faultCell) condition(client *framework.Framework, ofWriter bool) (lock conditional, condition *locks.Condition) {
	lock = newMutex(c.t, client, c.path)
	if ofWriter {
		lock = newReadWrite(c.t, client, c.path).WriteLock()
	}
	condition, err := lock.NewCondition(c.path + "-changed")
	require.NoError(c.t, err)
	return lock, condition
}

// awaitFaulted has the rival signal whenever it gets the lock, until the call has returned.
func awaitFaulted(ofWriter bool) func(*faultCell) func(context.Context) error {
	return func(c *faultCell) func(context.Context) error {
		ours, condition := c.condition(c.ours, ofWriter)
		theirs, signals := c.condition(c.theirs, ofWriter)
		c.again, c.rivals = []locks.InterProcessLock{ours}, []locks.InterProcessLock{theirs}
		lease := acquire(c.t, ours)
		c.held = []*locks.Lease{lease}
		returned, ended := make(chan struct{}), make(chan struct{})
		stop := sync.OnceFunc(func() { close(returned) })
		c.t.Cleanup(stop)
		go func() {
			defer close(ended)
			for {
				select {
				case <-returned:
					return
				case <-time.After(whileItWaits / 2):
				}
				if lease, err := theirs.TryAcquire(context.Background()); err == nil {
					assertNoError(c, signals.SignalAll(context.Background(), lease))
					time.Sleep(whileItHolds) // so that whoever is signalled waits for the lock
					assertNoError(c, lease.Release(context.Background()))
				}
			}
		}()
		c.tidy = func() {
			stop()
			<-ended
		}
		return func(ctx context.Context) error {
			err := c.hold(condition.Await(ctx, lease))
			if !c.passesOn { // otherwise others wait for a signal yet
				stop()
				<-ended
			}
			return err
		}
	}
}

// assertNoError is for other goroutines than the test's.
func assertNoError(c *faultCell, err error) {
	if err != nil {
		c.t.Errorf("%s: the rival: %v", c.name, err)
	}
}

// signal has the rival wait for it.
func signal(send func(*locks.Condition, context.Context, *locks.Lease) error) func(*faultCell) func(context.Context) error {
	return func(c *faultCell) func(context.Context) error {
		ours, condition := c.condition(c.ours, false)
		waiting, giveUp := c.waiter()
		lease := acquire(c.t, ours)
		time.Sleep(whileItHolds)
		c.held, c.again = []*locks.Lease{lease}, []locks.InterProcessLock{ours}
		c.check = func(err error) {
			if err != nil {
				giveUp() // somebody may have been signalled or not
			}
		}
		c.tidy = func() {
			if c.passesOn { // nothing is known of so many signals
				giveUp()
			}
			if o := await(c.t, waiting); o.err == nil {
				release(c.t, o.lease)
			} else {
				require.ErrorIs(c.t, o.err, context.Canceled, c.name)
			}
			giveUp()
		}
		return func(ctx context.Context) error { return send(condition, ctx, lease) }
	}
}

// waiter has the rival wait for a signal.
func (c *faultCell) waiter() (waiting <-chan outcome, giveUp context.CancelFunc) {
	theirs, condition := c.condition(c.theirs, false)
	lease := acquire(c.t, theirs)
	ctx, giveUp := context.WithCancel(context.Background())
	result := make(chan outcome, 1)
	go func() {
		again, err := condition.Await(ctx, lease)
		result <- outcome{again, err}
	}()
	awaitDone(c.t, lease.Done(), "the wait")
	return result, giveUp
}

func waitersOfACondition(c *faultCell) func(context.Context) error {
	_, condition := c.condition(c.ours, false)
	waiting, giveUp := c.waiter()
	c.tidy = func() {
		giveUp()
		require.ErrorIs(c.t, await(c.t, waiting).err, context.Canceled, c.name)
	}
	var waiters []locks.Participant
	c.check = func(err error) {
		if err == nil {
			require.Len(c.t, waiters, 1, c.name)
		}
	}
	return func(ctx context.Context) (err error) {
		all, err := condition.Waiters(ctx)
		c.note(func() { waiters = all })
		return err
	}
}
