// SPDX-License-Identifier: Apache-2.0

package locks_test

import (
	"context"
	"errors"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/locks"
)

// otherCalls are those that not all recipes have.
var otherCalls = []faultedCall{
	{name: "ReadLock: Acquire beside a reader", of: []string{"lock.Acquire"}, requests: 3, prepare: readBesideAReader},
	{name: "ReadLock: Acquire by the writer", of: []string{"lock.Acquire"}, requests: 4, prepare: readByTheWriter, may: losing},
	{name: "InterProcessMutex with local handoff: Acquire behind a goroutine", of: []string{"lock.Acquire"}, requests: 1, prepare: acquireByHandoff},
	{
		name: "InterProcessMutex with a lock delay: TryAcquire of a free lock", of: []string{"lock.TryAcquire"}, requests: 7,
		prepare: lockKind{open: openDelayed}.try(false), may: failing, // by the marker of a try that has lost its session
	},
	{name: "InterProcessReadWriteLock: Participants", of: []string{"InterProcessReadWriteLock.Participants"}, requests: 2, prepare: readWriteParticipants},

	{name: "InterProcessSemaphoreV2: AcquireN of two free ones", of: []string{"InterProcessSemaphoreV2.AcquireN"}, requests: 17, prepare: acquireTwo(false)},
	{name: "InterProcessSemaphoreV2: AcquireN of two, one of them held", of: []string{"InterProcessSemaphoreV2.AcquireN"}, requests: 12, prepare: acquireTwo(true)},
	{name: "InterProcessSemaphoreV2: TryAcquireN of two free ones", of: []string{"InterProcessSemaphoreV2.TryAcquireN"}, requests: 17, prepare: tryTwo(false)},
	{
		name: "InterProcessSemaphoreV2: TryAcquireN of two, one of them held", of: []string{"InterProcessSemaphoreV2.TryAcquireN"}, requests: 9,
		prepare: tryTwo(true), fails: true, may: failing,
	},
	{name: "InterProcessSemaphoreV2: Waiters", of: []string{"permits.Waiters"}, requests: 2, prepare: waitersOfASemaphore},
	{name: "SharedLeases: Acquire by a number that is not there yet", of: []string{"SharedLeases.MaxLeases"}, requests: 10, prepare: acquireShared},
	{name: "SharedLeases: Set", of: []string{"SharedLeases.Set"}, requests: 1, prepare: setShared, may: unknown},

	{name: "InterProcessMultiLock: Acquire of free members", of: []string{"InterProcessMultiLock.Acquire"}, requests: 12, prepare: multiAcquire(false), may: losing},
	{name: "InterProcessMultiLock: Acquire behind the holder of a member", of: []string{"InterProcessMultiLock.Acquire"}, requests: 11, prepare: multiAcquire(true), may: losing},
	{name: "InterProcessMultiLock: TryAcquire of free members", of: []string{"InterProcessMultiLock.TryAcquire"}, requests: 12, prepare: multiTry(false), may: losing},
	{
		name: "InterProcessMultiLock: TryAcquire of a held member", of: []string{"InterProcessMultiLock.TryAcquire"}, requests: 9,
		prepare: multiTry(true), fails: true, may: []func(error) bool{isNotAcquired, isLost},
	},
	{name: "InterProcessMultiLock: Release", of: []string{"MultiLease.Release"}, requests: 2, prepare: multiRelease, may: losing},
	{name: "ReleaseAll", of: []string{"ReleaseAll"}, requests: 2, prepare: releaseTogether, may: losing},
	{name: "InterProcessMultiLock: Do", of: []string{"InterProcessMultiLock.Do"}, requests: 12, prepare: multiDo, may: losing},
	{name: "InterProcessMultiLock: Participants", of: []string{"InterProcessMultiLock.Participants"}, requests: 3, prepare: multiParticipants},

	{name: "LockInternals: Holders", of: []string{"LockInternals.Holders"}, requests: 2, prepare: askInternals(holdersOf)},
	{name: "LockInternals: Queue and Participant", of: []string{"LockInternals.Queue", "LockInternals.Participant"}, requests: 2, prepare: askInternals(queueOfOne)},

	{name: "AttemptRevoke", of: []string{"AttemptRevoke"}, requests: 1, prepare: attemptRevoke},
	{name: "Lease: Transact", of: []string{"Lease.Transact"}, requests: 1, prepare: transact, may: []func(error) bool{isLost, framework.OutcomeUnknown}},
}

var (
	losing  = []func(error) bool{isLost}
	failing = []func(error) bool{isNotAcquired}
	unknown = []func(error) bool{framework.OutcomeUnknown}
)

func readBesideAReader(c *faultCell) func(context.Context) error {
	rw := newReadWrite(c.t, c.theirs, c.path)
	reader := acquire(c.t, rw.ReadLock())
	c.tidy = func() { release(c.t, reader) }
	ours, _ := lockKind{open: openRead, rival: openWrite}.both(c)
	return func(ctx context.Context) error { return c.hold(ours.Acquire(ctx)) }
}

// readByTheWriter keeps the writer's lease too.
func readByTheWriter(c *faultCell) func(context.Context) error {
	ours, _ := lockKind{open: openWrite}.both(c)
	writer := acquire(c.t, ours)
	c.held = []*locks.Lease{writer}
	reader := newReadWrite(c.t, c.ours, c.path).ReadLock()
	c.again = append(c.again, reader)
	return func(ctx context.Context) error { return c.hold(reader.Acquire(writer.Context(ctx))) }
}

// acquireByHandoff waits for a goroutine of the same process, whose hold may get lost.
func acquireByHandoff(c *faultCell) func(context.Context) error {
	ours, _ := lockKind{open: openHandoff}.both(c)
	lease := acquire(c.t, ours)
	c.later = func() { _ = lease.Release(context.Background()) } // lost, if the fault was in what it does by itself
	return func(ctx context.Context) error { return c.hold(ours.Acquire(ctx)) }
}

func readWriteParticipants(c *faultCell) func(context.Context) error {
	_, theirs := lockKind{open: openWrite}.both(c)
	ours := newReadWrite(c.t, c.ours, c.path)
	return c.participantsOf(ours.Participants, acquire(c.t, theirs))
}

// participantsOf asks who is there, which is one.
func (c *faultCell) participantsOf(ask func(context.Context) ([]locks.Participant, error), lease *locks.Lease) func(context.Context) error {
	var participants []locks.Participant
	c.tidy = func() { release(c.t, lease) }
	c.check = func(err error) {
		if err == nil {
			require.Len(c.t, participants, 1, c.name)
			require.Equal(c.t, lease.Path(), participants[0].Path, c.name)
		}
	}
	return func(ctx context.Context) (err error) {
		all, err := ask(ctx)
		c.note(func() { participants = all })
		return err
	}
}

// askInternals asks who contends for a lock that a rival holds.
func askInternals(ask func(context.Context, *locks.LockInternals) ([]locks.Participant, error)) func(*faultCell) func(context.Context) error {
	return func(c *faultCell) func(context.Context) error {
		ours, theirs := openInternals(c.t, c.ours, c.path), openInternals(c.t, c.theirs, c.path)
		c.again, c.rivals = []locks.InterProcessLock{ours}, []locks.InterProcessLock{theirs}
		return c.participantsOf(func(ctx context.Context) ([]locks.Participant, error) {
			return ask(ctx, ours)
		}, acquire(c.t, theirs))
	}
}

func holdersOf(ctx context.Context, l *locks.LockInternals) ([]locks.Participant, error) {
	return l.Holders(ctx)
}

// queueOfOne reads the nodes in the queue one by one.
func queueOfOne(ctx context.Context, l *locks.LockInternals) (participants []locks.Participant, err error) {
	names, err := l.Queue(ctx)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		p, err := l.Participant(ctx, name)
		if err != nil {
			return nil, err
		}
		participants = append(participants, p)
	}
	return participants, nil
}

// two opens a semaphore of two leases, one of which the rival may hold. That one wants both.
func (c *faultCell) two(held bool) (ours *locks.InterProcessSemaphoreV2, theirs *locks.Lease) {
	ours = newSemaphore(c.t, c.ours, c.path, locks.FixedLeases(2))
	rival := newSemaphore(c.t, c.theirs, c.path, locks.FixedLeases(2))
	c.rivals, c.again = []locks.InterProcessLock{bothLeases{rival}}, []locks.InterProcessLock{bothLeases{ours}}
	if held {
		theirs = acquire(c.t, rival)
	}
	return ours, theirs
}

// bothLeases acquires the two leases of a semaphore, and keeps one of them.
type bothLeases struct{ *locks.InterProcessSemaphoreV2 }

func (b bothLeases) Acquire(ctx context.Context) (*locks.Lease, error) {
	return keepOne(ctx)(b.AcquireN(ctx, 2))
}

func (b bothLeases) TryAcquire(ctx context.Context) (*locks.Lease, error) {
	return keepOne(ctx)(b.TryAcquireN(ctx, 2))
}

func keepOne(ctx context.Context) func([]*locks.Lease, error) (*locks.Lease, error) {
	return func(leases []*locks.Lease, err error) (*locks.Lease, error) {
		if err != nil {
			return nil, err
		}
		return leases[0], leases[1].Release(ctx)
	}
}

func (c *faultCell) holdAll(leases []*locks.Lease, err error) error {
	for _, lease := range leases {
		err = errors.Join(err, c.hold(lease, nil))
	}
	return err
}

func acquireTwo(behind bool) func(*faultCell) func(context.Context) error {
	return func(c *faultCell) func(context.Context) error {
		ours, lease := c.two(behind)
		c.later = func() { release(c.t, lease) }
		return func(ctx context.Context) error { return c.holdAll(ours.AcquireN(ctx, 2)) }
	}
}

func tryTwo(held bool) func(*faultCell) func(context.Context) error {
	return func(c *faultCell) func(context.Context) error {
		ours, lease := c.two(held)
		c.tidy = func() { release(c.t, lease) }
		return func(ctx context.Context) error { return c.holdAll(ours.TryAcquireN(ctx, 2)) }
	}
}

func waitersOfASemaphore(c *faultCell) func(context.Context) error {
	ours, lease := c.two(true)
	waiting := acquireLater(context.Background(), bothLeases{newSemaphore(c.t, c.theirs, c.path, locks.FixedLeases(2))})
	var waiters []locks.Participant
	c.check = func(err error) {
		if err == nil {
			require.Len(c.t, waiters, 1, c.name)
		}
	}
	c.tidy = func() {
		release(c.t, lease)
		o := await(c.t, waiting)
		require.NoError(c.t, o.err)
		release(c.t, o.lease)
	}
	return func(ctx context.Context) (err error) {
		time.Sleep(whileItHolds) // they wait by now
		all, err := ours.Waiters(ctx)
		c.note(func() { waiters = all })
		return err
	}
}

// shared opens a semaphore whose number is at a path of its own.
func (c *faultCell) shared(client *framework.Framework) (*locks.InterProcessSemaphore, *locks.SharedLeases) {
	n := must.Get(locks.NewSharedLeases(client, c.path+"-number", 1))(c.t)
	s := must.Get(locks.NewInterProcessSemaphore(client, c.path, n))(c.t)
	return s, n
}

func acquireShared(c *faultCell) func(context.Context) error {
	ours, _ := c.shared(c.ours)
	theirs, _ := c.shared(c.theirs)
	c.again, c.rivals = []locks.InterProcessLock{ours}, []locks.InterProcessLock{theirs}
	return func(ctx context.Context) error { return c.hold(ours.Acquire(ctx)) }
}

// setShared lets one more in, who waits.
func setShared(c *faultCell) func(context.Context) error {
	_, ours := c.shared(c.ours)
	theirs, _ := c.shared(c.theirs)
	lease := acquire(c.t, theirs)
	waiting := acquireLater(context.Background(), theirs)
	c.check = func(err error) {
		if err != nil {
			release(c.t, lease)
			lease = nil
		}
	}
	c.tidy = func() {
		o := await(c.t, waiting)
		require.NoError(c.t, o.err, c.name)
		release(c.t, o.lease)
		release(c.t, lease)
	}
	return func(ctx context.Context) error {
		time.Sleep(whileItHolds) // they wait by now
		return ours.Set(ctx, 2)
	}
}

func attemptRevoke(c *faultCell) func(context.Context) error {
	_, theirs := lockKind{open: openMutex}.both(c)
	lease := acquire(c.t, theirs)
	c.check = func(err error) {
		if err == nil {
			awaitDone(c.t, lease.Revoked(), "the request")
		}
	}
	c.tidy = func() { release(c.t, lease) }
	return func(ctx context.Context) error { return locks.AttemptRevoke(ctx, c.ours, lease.Path()) }
}

// transact creates a node, if the lease holds.
func transact(c *faultCell) func(context.Context) error {
	ours, _ := lockKind{open: openMutex}.both(c)
	lease := acquire(c.t, ours)
	time.Sleep(whileItHolds)
	c.held = []*locks.Lease{lease}
	made := c.path + "-made"
	c.check = func(err error) {
		if framework.OutcomeUnknown(err) {
			return
		}
		stat, readErr := c.theirs.Exists(context.Background(), made)
		require.NoError(c.t, readErr, c.name)
		require.Equal(c.t, err == nil, stat != nil, "%s: the call ended with %v", c.name, err)
	}
	return func(ctx context.Context) error {
		_, err := lease.Transact(ctx, framework.CreateOp(made, nil))
		return err
	}
}
