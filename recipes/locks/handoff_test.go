// SPDX-License-Identifier: Apache-2.0

package locks_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// queueUp starts n acquisitions one after the other, each when the one before waits.
func queueUp(t *testing.T, n int, waits func(i int), lock locks.InterProcessLock) []<-chan outcome {
	t.Helper()
	results := make([]<-chan outcome, n)
	for i := range n {
		results[i] = acquireLater(zktest.Context(t), lock)
		waits(i)
	}
	return results
}

// TestHandoffRowOfHolds sees a row of n holds under one node, in the order in which they were
// asked for, and then the turn of another client.
func TestHandoffRowOfHolds(t *testing.T) {
	t.Parallel()
	const row = 3
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		o := newObserved()
		client := zktest.Client(t, server.ConnectString(), o.options()...)
		mutex := newMutex(t, client, "/locks/row", locks.WithLocalHandoff(row))
		rival := newMutex(t, zktest.Client(t, server.ConnectString()), "/locks/row")

		lease := acquire(t, mutex)
		locals := queueUp(t, 4, func(i int) { o.awaitWaiting(t, "mutex", i+1) }, mutex)
		require.Len(t, awaitQueue(t, mutex, 1), 1, "those who wait in the process have no nodes")
		other := acquireLater(zktest.Context(t), rival)
		awaitQueue(t, mutex, 2)

		first := lease
		for i := range row - 1 {
			release(t, lease)
			next := await(t, locals[i])
			require.NoError(t, next.err)
			require.Equal(t, first.Path(), next.lease.Path())
			require.Equal(t, first.Token(), next.lease.Token())
			require.ErrorIs(t, lease.Err(), locks.ErrReleased)
			require.NoError(t, next.lease.Err())
			lease = next.lease
		}
		release(t, lease)
		turn := await(t, other)
		require.NoError(t, turn.err)
		require.Greater(t, turn.lease.Token(), lease.Token())
		release(t, turn.lease)

		after := await(t, locals[row-1])
		require.NoError(t, after.err)
		require.Greater(t, after.lease.Token(), turn.lease.Token())
		release(t, after.lease)
		last := await(t, locals[row])
		require.NoError(t, last.err)
		require.Equal(t, after.lease.Token(), last.lease.Token(), "a new row")
		release(t, last.lease)
		require.Empty(t, awaitQueue(t, mutex, 0))
	})
}

// TestHandoffRowEnds ends rows by other means than their length.
func TestHandoffRowEnds(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		o := newObserved()
		client, link := zktest.ClientViaProxy(t, server, o.options()...)
		admin := zktest.Client(t, server.ConnectString())
		mutex := newMutex(t, client, "/locks/ends", locks.WithLocalHandoff(100))
		hold := func() (*locks.Lease, <-chan outcome) {
			lease := acquire(t, mutex)
			next := acquireLater(zktest.Context(t), mutex)
			o.awaitWaiting(t, "mutex", 1)
			return lease, next
		}
		takesTurn := func(before *locks.Lease, result <-chan outcome) {
			next := await(t, result)
			require.NoError(t, next.err)
			require.Greater(t, next.lease.Token(), before.Token(), "it has a node of its own")
			release(t, next.lease)
		}

		lease, next := hold()
		require.NoError(t, admin.Delete(t.Context(), lease.Path()))
		takesTurn(lease, next)
		require.Error(t, lease.Release(zktest.Context(t)), "it was lost")

		lease, next = hold()
		require.NoError(t, locks.AttemptRevoke(t.Context(), admin, lease.Path()))
		awaitDone(t, lease.Revoked(), "the request to give the lock back")
		release(t, lease)
		takesTurn(lease, next)

		lease, next = hold()
		link.Refuse(true)
		link.Cut()
		awaitDone(t, lease.Done(), "the end of the lease")
		link.Refuse(false)
		takesTurn(lease, next)

		lease, next = hold()
		_, err := mutex.TryAcquire(zktest.Context(t))
		require.ErrorIs(t, err, locks.ErrNotAcquired, "without a node")
		ctx, cancel := context.WithCancel(zktest.Context(t))
		gaveUp := acquireLater(ctx, mutex)
		o.awaitWaiting(t, "mutex", 2)
		cancel()
		require.ErrorIs(t, await(t, gaveUp).err, context.Canceled)
		release(t, lease)
		got := await(t, next)
		require.NoError(t, got.err)
		require.Equal(t, lease.Token(), got.lease.Token())
		release(t, got.lease)
		require.Empty(t, awaitQueue(t, mutex, 0))
	})
}

// occupancy counts who is in a lock, and notices a token that is less than one before.
type occupancy struct {
	mu       sync.Mutex
	inside   int
	newest   int64
	overlaps []string
}

func (o *occupancy) enter(lease *locks.Lease) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.inside++
	if o.inside > 1 || lease.Token() < o.newest {
		o.overlaps = append(o.overlaps, fmt.Sprintf("%d inside with token %d after %d", o.inside, lease.Token(), o.newest))
	}
	o.newest = max(o.newest, lease.Token())
}

func (o *occupancy) leave() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.inside--
}

// contend takes one turn; one that gives up has its context end while it waits.
func contend(t *testing.T, lock locks.InterProcessLock, givesUp bool, in *occupancy) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if givesUp {
		time.AfterFunc(time.Millisecond, cancel)
	}
	lease, err := lock.Acquire(ctx)
	if err != nil {
		if !givesUp {
			t.Errorf("acquire: %v", err)
		}
		return
	}
	in.enter(lease)
	in.leave()
	if err := lease.Release(context.WithoutCancel(ctx)); err != nil {
		t.Errorf("release: %v", err)
	}
}

func TestHandoffIsForOneLease(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t).Addr())
	row := locks.WithLocalHandoff(2)
	_, err := locks.NewInterProcessMutex(client, "/a", locks.WithLocalHandoff(0))
	require.ErrorContains(t, err, "WithLocalHandoff(0), expected 1 or more")
	_, err = locks.NewInterProcessReadWriteLock(client, "/a", row)
	require.ErrorContains(t, err, "expected with an InterProcessMutex only")
	_, err = locks.NewInterProcessSemaphore(client, "/a", locks.FixedLeases(1), row)
	require.ErrorContains(t, err, "expected with an InterProcessMutex only")
	_, err = locks.NewInterProcessSemaphoreV2(client, "/a", locks.FixedLeases(1), row)
	require.ErrorContains(t, err, "expected with an InterProcessMutex only")
	queue := locks.QueueDriver("lock-")
	_, err = locks.NewLockInternals(client, queue, "/a", "lock-", 2, row)
	require.ErrorContains(t, err, "expected with an InterProcessMutex only")
	_, err = locks.NewLockInternals(client, clientsDriver{queue, client}, "/a", "lock-", 1, row)
	require.ErrorContains(t, err, "with a QueueDriver", "it may have another order")
	must.Get(locks.NewLockInternals(client, queue, "/a", "lock-", 1, row))(t)
}

// TestHandoffRowOfShortHoldsIsWatched: none of its holds is as long as it takes until a node is
// watched, and yet the row hears that the lock is asked for, or that its node is deleted.
func TestHandoffRowOfShortHoldsIsWatched(t *testing.T) {
	const short = 400 * time.Microsecond
	for name, trouble := range map[string]func(*testing.T, *framework.Framework, *locks.Lease){
		"asked for": func(t *testing.T, admin *framework.Framework, lease *locks.Lease) {
			require.NoError(t, locks.AttemptRevoke(zktest.Context(t), admin, lease.Path()))
		},
		"deleted": func(t *testing.T, admin *framework.Framework, lease *locks.Lease) {
			require.NoError(t, admin.Delete(zktest.Context(t), lease.Path()))
		},
	} {
		// With the slow reply a release comes while the watch is being set.
		for _, reply := range []time.Duration{0, 2 * short} {
			t.Run(fmt.Sprintf("%s, replies to reads after %v", name, reply), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					server := zktest.NewServer(t, zkserver.WithoutListener())
					server.Intercept(func(r zkserver.Request) zkserver.Fault {
						if r.Op == zkserver.OpGetData {
							return zkserver.Delay(reply)
						}
						return zkserver.Pass
					})
					mutex := newMutex(t, zktest.Client(t, server), "/lock", locks.WithLocalHandoff(100))
					admin := zktest.Client(t, server)
					lease := acquire(t, mutex)
					first := lease
					for range 3 {
						next := acquireLater(zktest.Context(t), mutex)
						time.Sleep(short)
						release(t, lease)
						lease = await(t, next).lease
						require.Equal(t, first.Token(), lease.Token(), "one row")
					}
					trouble(t, admin, lease)
					time.Sleep(reply) // the request is in the data, which is read
					synctest.Wait()
					select {
					case <-lease.Revoked():
					case <-lease.Done():
					default:
						t.Fatal("the holder has not been told")
					}
					_ = lease.Release(zktest.Context(t)) // an error if it was lost
				})
			})
		}
	}
}
