// SPDX-License-Identifier: Apache-2.0

package locks_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zktest"
)

// TestWithoutReentry: every kind of lock refuses a second acquisition by the owner in
// the context, at once and without a trace at the server.
func TestWithoutReentry(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t).Addr())
	once := locks.WithoutReentry()
	rw := newReadWrite(t, client, "/locks/rw", once)
	semaphoreMutex := must.Get(locks.NewInterProcessSemaphoreMutex(client, "/locks/semaphore-mutex", once))(t)
	first := must.Get(locks.NewInterProcessSemaphore(client, "/locks/semaphore", locks.FixedLeases(2), once))(t)
	for _, lock := range []locks.InterProcessLock{
		newMutex(t, client, "/locks/mutex", once),
		newMutex(t, client, "/locks/handoff", once, locks.WithLocalHandoff(3)),
		rw.ReadLock(), rw.WriteLock(), semaphoreMutex, first,
		newSemaphore(t, client, "/locks/semaphore-v2", locks.FixedLeases(2), once),
	} {
		lease := acquire(t, lock)
		ctx := lease.Context(zktest.Context(t))
		for _, again := range []func(context.Context) (*locks.Lease, error){lock.Acquire, lock.TryAcquire} {
			_, err := again(ctx)
			require.ErrorIs(t, err, locks.ErrReentered, "%T", lock)
			require.ErrorContains(t, err, "locks: acquire "+lock.Path()+": re-entered: the context holds this lock already")
			require.NotErrorIs(t, err, locks.ErrNotAcquired)
		}
		awaitQueue(t, lock.(queue), 1)
		require.NoError(t, lease.Err())
		release(t, lease)
		release(t, acquire(t, lock)) // it has not stayed closed
	}
}

// TestWithoutReentryOwnersAreStillTold: what has nothing to do with re-entry is as without
// the option.
func TestWithoutReentryOwnersAreStillTold(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t).Addr())
	rw := newReadWrite(t, client, "/locks/rw", locks.WithoutReentry())
	writer := acquire(t, rw.WriteLock())
	reader, err := rw.ReadLock().TryAcquire(writer.Context(zktest.Context(t)))
	require.NoError(t, err, "a downgrade is no re-entry")
	require.Equal(t, writer.Token(), reader.Token())
	release(t, writer)
	_, err = rw.WriteLock().TryAcquire(reader.Context(zktest.Context(t)))
	require.ErrorIs(t, err, locks.ErrUpgrade)
	release(t, reader)

	mutex := newMutex(t, client, "/locks/mutex", locks.WithoutReentry())
	lease := acquire(t, mutex)
	late := context.WithoutCancel(lease.Context(zktest.Context(t)))
	other, err := newMutex(t, client, "/locks/mutex").TryAcquire(late)
	require.NoError(t, err, "the option is of one value only")
	release(t, other)
	release(t, lease)
	_, err = mutex.Acquire(late)
	require.ErrorIs(t, err, locks.ErrReleased, "a goroutine that comes too late")
	require.NotErrorIs(t, err, locks.ErrReentered)

	_, err = newMulti(t, mutex, mutex).Acquire(zktest.Context(t))
	require.ErrorIs(t, err, locks.ErrReentered, "named twice")
	awaitQueue(t, mutex, 0)
}

// TestReentryPermitIsNoHold: another owner may have a permit too, so a mutex in the folder of a semaphore is acquired, not re-entered.
func TestReentryPermitIsNoHold(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t).Addr())
	mutex := newMutex(t, client, "/locks/shared")
	for _, lock := range []locks.InterProcessLock{
		must.Get(locks.NewInterProcessSemaphore(client, "/locks/shared", locks.FixedLeases(2)))(t),
		must.Get(locks.NewLockInternals(client, locks.QueueDriver("lock-"), "/locks/shared", "lock-", 2))(t),
	} {
		permit := acquire(t, lock)
		_, err := mutex.TryAcquire(permit.Context(zktest.Context(t)))
		require.ErrorIs(t, err, locks.ErrNotAcquired, "%T", lock)
		release(t, permit)
	}
}

// TestLeaseFrom: fn finds the lease that Do holds, and everything that a lease can do.
func TestLeaseFrom(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t).Addr())
	require.Nil(t, locks.LeaseFrom(context.Background()))
	none := locks.LeaseFrom(context.Background())
	require.ErrorIs(t, none.Err(), locks.ErrNotAcquired)
	var never <-chan struct{}
	require.Equal(t, []any{int64(0), "", time.Time{}, (*framework.Session)(nil), false, never},
		[]any{none.Token(), none.Path(), none.Since(), none.Session(), none.Exclusive(), none.Revoked()})
	zktest.Await(t, none.Done(), "the end of no lease")
	require.ErrorIs(t, context.Cause(none.Context(context.Background())), locks.ErrNotAcquired)
	_, err := none.Transact(context.Background(), framework.SetDataOp("/report", nil))
	require.ErrorIs(t, err, locks.ErrNotAcquired)
	outer, inner := newMutex(t, client, "/locks/outer"), newReadWrite(t, client, "/locks/inner").WriteLock()
	must.Get(client.Create(zktest.Context(t), "/report", nil))(t)
	err = outer.Do(zktest.Context(t), func(ctx context.Context) error {
		lease := locks.LeaseFrom(ctx)
		participants := must.Get(outer.Participants(ctx))(t)
		require.Equal(t, participants[0].Token, lease.Token())
		require.Equal(t, participants[0].Path, lease.Path())
		must.Get(lease.Transact(ctx, framework.SetDataOp("/report", []byte("written"))))(t)
		require.NoError(t, locks.AttemptRevoke(ctx, client, lease.Path()))
		awaitDone(t, lease.Revoked(), "the request")

		type key struct{}
		child, cancel := context.WithCancel(context.WithValue(ctx, key{}, 1))
		defer cancel()
		require.Same(t, lease, locks.LeaseFrom(child))
		return inner.Do(child, func(ctx context.Context) error {
			within := locks.LeaseFrom(ctx)
			require.NotSame(t, lease, within)
			require.Equal(t, inner.Path()+"/", within.Path()[:len(inner.Path())+1])
			return nil
		})
	})
	require.NoError(t, err)
}
