// SPDX-License-Identifier: Apache-2.0

package locks_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// semaphore is what both semaphores, and the mutex made of one, can do.
type semaphore interface {
	locks.InterProcessLock
	queue
}

func newSemaphore(tb testing.TB, client *framework.Framework, path string, n locks.MaxLeases, opts ...locks.Option) *locks.InterProcessSemaphoreV2 {
	tb.Helper()
	s := must.Get(locks.NewInterProcessSemaphoreV2(client, path, n, opts...))(tb)
	return s
}

// semaphores runs the test with either kind.
func semaphores(t *testing.T, test func(t *testing.T, server zktest.Backend, create func(*framework.Framework, locks.MaxLeases) semaphore)) {
	t.Helper()
	t.Run("v1", func(t *testing.T) {
		zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
			test(t, server, func(client *framework.Framework, n locks.MaxLeases) semaphore {
				s := must.Get(locks.NewInterProcessSemaphore(client, "/semaphores/s", n))(t)
				return s
			})
		})
	})
	t.Run("v2", func(t *testing.T) {
		zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
			test(t, server, func(client *framework.Framework, n locks.MaxLeases) semaphore {
				return newSemaphore(t, client, "/semaphores/s", n)
			})
		})
	})
}

func TestSemaphorePermitIsAPermit(t *testing.T) {
	semaphores(t, func(t *testing.T, server zktest.Backend, create func(*framework.Framework, locks.MaxLeases) semaphore) {
		before := server.Counts(t)
		client := zktest.Client(t, server.ConnectString())
		before.Sessions++
		var leases []*locks.Lease
		var last int64
		for range 3 {
			lease := must.Get(create(client, locks.FixedLeases(3)).TryAcquire(zktest.Context(t)))(t)
			require.Greater(t, lease.Token(), last)
			last = lease.Token()
			leases = append(leases, lease)
		}
		s := create(client, locks.FixedLeases(3))
		_, err := s.TryAcquire(leases[0].Context(zktest.Context(t)))
		require.ErrorIs(t, err, locks.ErrNotAcquired, "a semaphore is not re-entrant")
		short, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		_, err = s.Acquire(short)
		require.ErrorIs(t, err, locks.ErrNotAcquired)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		for i, p := range awaitQueue(t, s, 3) {
			require.Equal(t, leases[i].Path(), p.Path)
			require.True(t, p.Holds)
		}
		release(t, leases[1]) // not the oldest
		leases[1] = acquire(t, s)
		releaseAll(t, leases)
		server.AwaitCounts(t, before, limit)
	})
}

// TestSemaphoreManyTriesAtOnce: as many tries succeed as there are free permits, of one client or
// several, and beside acquisitions there are never more than the maximum.
func TestSemaphoreManyTriesAtOnce(t *testing.T) {
	semaphores(t, func(t *testing.T, server zktest.Backend, create func(*framework.Framework, locks.MaxLeases) semaphore) {
		const free, surplus = 32, 8
		before := server.Counts(t)
		var tried []semaphore
		for range 4 {
			tried = append(tried, create(zktest.Client(t, server.ConnectString()), locks.FixedLeases(free)))
			before.Sessions++
		}
		try := func(n int) (leases []*locks.Lease) {
			results := make(chan outcome, n)
			start := make(chan struct{})
			for i := range n {
				go func() {
					<-start
					lease, err := tried[i%len(tried)].TryAcquire(zktest.Context(t))
					results <- outcome{lease, err}
				}()
			}
			close(start)
			for range n {
				if o := <-results; o.err == nil {
					leases = append(leases, o.lease)
				} else {
					require.ErrorIs(t, o.err, locks.ErrNotAcquired)
				}
			}
			return leases
		}
		for _, n := range []int{free, free + surplus} {
			leases := try(n)
			require.Len(t, leases, free)
			releaseAll(t, leases)
		}
		held := try(free - 1)
		require.Len(t, held, free-1)
		last := try(surplus)
		require.Len(t, last, 1)
		releaseAll(t, append(held, last...))
		server.AwaitCounts(t, before, limit)
	})
}

// TestSemaphoreTryThatFailsLeavesAnAcquisitionItsTurn and makes no node, however many tries there are.
func TestSemaphoreTryThatFailsLeavesAnAcquisitionItsTurn(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		client, other := zktest.Client(t, server.ConnectString()), zktest.Client(t, server.ConnectString())
		s, tried := newSemaphore(t, client, "/semaphores/s", locks.FixedLeases(1)), newSemaphore(t, other, "/semaphores/s", locks.FixedLeases(1))
		held := acquire(t, s)
		var stat framework.Stat
		must.Get(client.Children(zktest.Context(t), "/semaphores/s/leases", framework.StoringStatIn(&stat)))(t)
		changes := stat.Cversion
		for range 10 {
			_, err := tried.TryAcquire(zktest.Context(t))
			require.ErrorContains(t, err, "locks: acquire /semaphores/s: not acquired: 1 ahead in the queue")
			var why *locks.NotAcquiredError
			require.ErrorAs(t, err, &why)
			require.Equal(t, held.Path(), why.Ahead()[0].Path)
		}
		must.Get(client.Children(zktest.Context(t), "/semaphores/s/leases", framework.StoringStatIn(&stat)))(t)
		require.Equal(t, changes, stat.Cversion)

		next := acquireLater(zktest.Context(t), s)
		awaitQueue(t, s, 2)
		release(t, held)
		_, err := tried.TryAcquire(zktest.Context(t))
		require.ErrorIs(t, err, locks.ErrNotAcquired, "it has overtaken a waiter")
		o := await(t, next)
		require.NoError(t, o.err)
		release(t, o.lease)
	})
}

// TestSemaphorePaused: with a maximum of 0 holders keep their leases, waiters keep
// their places, tries fail, and a greater maximum lets the waiters in.
func TestSemaphorePaused(t *testing.T) {
	semaphores(t, func(t *testing.T, server zktest.Backend, create func(*framework.Framework, locks.MaxLeases) semaphore) {
		client := zktest.Client(t, server.ConnectString())
		shared := must.Get(locks.NewSharedLeases(client, "/semaphores/max", 1))(t)
		before := server.Counts(t)
		s := create(client, shared)
		held := acquire(t, s)
		require.NoError(t, shared.Set(zktest.Context(t), 0))
		var waiting []<-chan outcome
		for i := range 3 {
			other := zktest.Client(t, server.ConnectString())
			waiting = append(waiting, acquireLater(zktest.Context(t), create(other, newShared(t, other))))
			before.Sessions++
			if i == 0 {
				awaitQueue(t, s, 2)
			}
		}
		require.NoError(t, held.Err())
		release(t, held)
		_, err := s.TryAcquire(zktest.Context(t))
		require.ErrorIs(t, err, locks.ErrNotAcquired)
		require.NotErrorIs(t, err, locks.ErrTooManyLeases)
		// A negative number, as another program may set, pauses as well.
		require.NoError(t, client.Set(zktest.Context(t), "/semaphores/max", []byte{0xff, 0xff, 0xff, 0xff}))
		_, err = s.TryAcquire(zktest.Context(t))
		require.ErrorIs(t, err, locks.ErrNotAcquired)
		for _, w := range waiting {
			require.Empty(t, w, "let in during the pause")
		}
		require.NoError(t, shared.Set(zktest.Context(t), 3))
		for _, w := range waiting {
			o := await(t, w)
			require.NoError(t, o.err)
			release(t, o.lease)
		}
		server.AwaitCounts(t, before, limit)
	})
}

func TestSemaphoreAllLeasesOrNone(t *testing.T) {
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		client := zktest.Client(t, server.ConnectString())
		before := server.Counts(t)
		s := newSemaphore(t, client, "/semaphores/s", locks.FixedLeases(3))
		one := acquire(t, s)
		_, err := s.TryAcquireN(zktest.Context(t), 3)
		require.ErrorIs(t, err, locks.ErrNotAcquired)
		awaitQueue(t, s, 1)

		ctx, cancel := context.WithCancel(zktest.Context(t))
		failed := make(chan error, 1)
		go func() {
			_, err := s.AcquireN(ctx, 3)
			failed <- err
		}()
		awaitQueue(t, s, 4) // all its nodes are there, and one too many
		cancel()
		require.ErrorIs(t, <-failed, locks.ErrNotAcquired)
		awaitQueue(t, s, 1)
		awaitQueue(t, waitersFor{s}, 0) // given up in the background too

		two := must.Get(s.TryAcquireN(zktest.Context(t), 2))(t)
		require.NotEqual(t, two[0].Token(), two[1].Token())
		release(t, two[0])
		require.NoError(t, two[1].Err(), "each is released by itself")
		release(t, two[1])
		release(t, one)
		for _, n := range []int{4, 1000} {
			_, err = s.AcquireN(zktest.Context(t), n)
			require.ErrorIs(t, err, locks.ErrTooManyLeases)
			require.ErrorContains(t, err, fmt.Sprintf("%d are wanted, the maximum is 3", n))
		}
		_, err = s.AcquireN(zktest.Context(t), 0)
		require.ErrorContains(t, err, "locks: acquire /semaphores/s: 0 leases, expected 1 or more")
		server.AwaitCounts(t, before, limit)
	})
}

// The maximum falls below what somebody waits for: he gives up, and with him his
// turn.
func TestSemaphoreMaximumFallsBelowWhatIsWanted(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		client := zktest.Client(t, server.ConnectString())
		shared := must.Get(locks.NewSharedLeases(client, "/semaphores/max", 3))(t)
		s := newSemaphore(t, client, "/semaphores/s", shared)
		one := acquire(t, s)
		failed := make(chan error, 1)
		go func() {
			_, err := s.AcquireN(zktest.Context(t), 3)
			failed <- err
		}()
		awaitQueue(t, s, 4)
		require.NoError(t, shared.Set(zktest.Context(t), 2))
		require.ErrorIs(t, <-failed, locks.ErrTooManyLeases)
		another := must.Get(s.TryAcquire(zktest.Context(t)))(t)
		release(t, another)
		release(t, one)
	})
}

// The turn is taken away between two leases: everything begins anew, and nothing of
// the first try stays.
func TestSemaphoreTurnIsLostBetweenTwoLeases(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		admin := zktest.Client(t, server.ConnectString())
		link := zktest.NewProxy(t, server.Addr())
		s := newSemaphore(t, zktest.Client(t, server.ConnectStringVia(link.Addr())), "/semaphores/s", locks.FixedLeases(2))
		first := acquire(t, s) // makes the folders
		turns := must.Get(locks.NewInterProcessMutex(admin, "/semaphores/s/locks"))(t)
		result := make(chan error, 1)
		var leases []*locks.Lease
		go func() {
			var err error
			leases, err = s.AcquireN(zktest.Context(t), 2)
			result <- err
		}()
		turn := awaitQueue(t, turns, 1)[0]
		awaitQueue(t, s, 3)
		require.NoError(t, admin.Delete(zktest.Context(t), turn.Path))
		for again := awaitQueue(t, turns, 1)[0]; again.Path == turn.Path; {
			again = awaitQueue(t, turns, 1)[0]
		}
		release(t, first)
		require.NoError(t, <-result)
		require.Len(t, awaitQueue(t, s, 2), 2)
		releaseAll(t, leases)
	})
}

func TestSharedLeasesRefuseOtherData(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t).Addr())
	must.Get(client.Create(zktest.Context(t), "/max", []byte("three")))(t)
	shared := must.Get(locks.NewSharedLeases(client, "/max", 1))(t)
	_, err := newSemaphore(t, client, "/semaphores/s", shared).Acquire(zktest.Context(t))
	require.ErrorContains(t, err, "shared leases /max: 5 bytes, expected 4")
	require.ErrorContains(t, shared.Set(zktest.Context(t), -1), "-1, expected 0 to 2147483647")
	_, err = locks.NewSharedLeases(client, "/max", -1)
	require.ErrorContains(t, err, "seed -1")
	_, err = locks.NewInterProcessSemaphore(zktest.Client(t, zktest.NewServer(t).Addr()), "/s", shared)
	require.ErrorContains(t, err, "maxLeases of another client")
	view := must.Get(client.UsingNamespace("team"))(t)
	_, err = locks.NewInterProcessSemaphore(view, "/s", shared)
	require.NoError(t, err, "it is the same client")
}

// TestSemaphoreWaitEndsWithADeadline: the error is that of a deadline, whether the acquisition waits for a lease or for its turn.
func TestSemaphoreWaitEndsWithADeadline(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	shared := must.Get(locks.NewSharedLeases(client, "/number", 1))(t)
	for path, leases := range map[string]locks.MaxLeases{"/fixed": locks.FixedLeases(1), "/shared": shared} {
		t.Run(path, func(t *testing.T) {
			semaphore := newSemaphore(t, client, path, leases)
			lease := acquire(t, semaphore)
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			for _, waits := range []<-chan outcome{acquireLater(ctx, semaphore), acquireLater(ctx, semaphore)} {
				err := await(t, waits).err
				require.ErrorIs(t, err, locks.ErrNotAcquired)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.NotErrorIs(t, err, context.Canceled)
			}
			release(t, lease)
		})
	}
}

// TestSemaphoreWaiterRemovesNoWatch: the release that lets a waiter in has ended its watch on the leases.
func TestSemaphoreWaiterRemovesNoWatch(t *testing.T) {
	onFakeTime(t, func(t *testing.T, w longWait) {
		held := acquire(t, newSemaphore(t, w.holder, "/s", locks.FixedLeases(1)))
		waiting := acquireLater(t.Context(), newSemaphore(t, w.waiter, "/s", locks.FixedLeases(1)))
		time.Sleep(time.Second)
		requireWaiting(t, waiting)
		sent := countRequests(t, w.server)
		release(t, held)
		release(t, requireAtOnce(t, waiting))
		require.Zero(t, sent.since(zkserver.OpRemoveWatches))
	})
}
