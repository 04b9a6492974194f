// SPDX-License-Identifier: Apache-2.0

package locks_test

import (
	"context"
	"fmt"
	"slices"
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

const (
	maxHold   = 10 * time.Second
	lockDelay = 7 * time.Second
)

// between runs a test with two clients of one server, on fake time.
func between(t *testing.T, test func(t *testing.T, server *zkserver.Server, first, second *framework.Framework)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		test(t, server, zktest.Client(t, server), zktest.Client(t, server))
	})
}

func requireMaxHold(t *testing.T, err error) {
	t.Helper()
	require.Equal(t, framework.ReasonMaxHold, must.As[*locks.LostError](t, err).Reason)
}

// TestMaxHoldEndsTheContextBeforeTheNextHolderEnters for each kind of lock.
func TestMaxHoldEndsTheContextBeforeTheNextHolderEnters(t *testing.T) {
	for _, p := range slices.Concat(pairings, []pairing{handoffs, alone("first semaphore"), alone("semaphore mutex")}) {
		t.Run(p.name, func(t *testing.T) {
			between(t, func(t *testing.T, _ *zkserver.Server, first, second *framework.Framework) {
				lease := p.hold(t, first, "/lock", locks.WithMaxHold(maxHold))
				work := lease.Context(context.Background())
				began := time.Now()
				next, err := p.rival(t, second, "/lock").Acquire(context.Background())
				requireMaxHold(t, context.Cause(work))
				require.NoError(t, err)
				require.Less(t, time.Since(began)-maxHold, time.Second)
				require.GreaterOrEqual(t, time.Since(began), maxHold)
				requireMaxHold(t, lease.Release(context.Background()))
				release(t, next)
			})
		})
	}
}

// TestMaxHoldThatIsOverAtTheGrant is a loss as any other, also for the race detector.
func TestMaxHoldThatIsOverAtTheGrant(t *testing.T) {
	mutex := newMutex(t, zktest.Client(t, zktest.NewServer(t)), "/lock", locks.WithMaxHold(1))
	for range 20 {
		requireMaxHold(t, acquire(t, mutex).Release(context.Background()))
	}
}

// TestMaxHoldCountsFromTheGrant and not from a re-entry, and a lease that was released in time is not lost.
func TestMaxHoldCountsFromTheGrant(t *testing.T) {
	o := newObserved()
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		mutex := newMutex(t, zktest.Client(t, server, o.options()...), "/lock", locks.WithMaxHold(maxHold))
		lease := acquire(t, mutex)
		time.Sleep(maxHold - time.Millisecond)
		release(t, lease)
		lease = acquire(t, mutex)
		time.Sleep(maxHold - time.Millisecond)
		again := must.Get(mutex.Acquire(lease.Context(context.Background())))(t)
		require.Zero(t, o.value(t, "lock.lost{curator.reason=max_hold,curator.recipe=mutex}"))
		time.Sleep(time.Millisecond)
		requireMaxHold(t, again.Err())
		requireMaxHold(t, lease.Err())
		synctest.Wait()
		require.Equal(t, 1, o.value(t, "lock.lost{curator.reason=max_hold,curator.recipe=mutex}"))
	})
}

// TestMaxHoldOfARow: each hold of a row counts for itself.
func TestMaxHoldOfARow(t *testing.T) {
	between(t, func(t *testing.T, _ *zkserver.Server, client, _ *framework.Framework) {
		mutex := newMutex(t, client, "/lock", locks.WithMaxHold(maxHold), locks.WithLocalHandoff(10))
		var holds sync.WaitGroup
		for range 5 {
			holds.Go(func() {
				lease, err := mutex.Acquire(context.Background())
				if err == nil {
					time.Sleep(maxHold - time.Millisecond)
					err = lease.Release(context.Background())
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
		holds.Wait()
	})
}

// TestMaxHoldIsAskedOfTheClock: Err tells of the end although the timer is late.
func TestMaxHoldIsAskedOfTheClock(t *testing.T) {
	for range 20 {
		between(t, func(t *testing.T, _ *zkserver.Server, first, _ *framework.Framework) {
			leases := make([]*locks.Lease, 20)
			for i := range leases {
				leases[i] = acquire(t, newMutex(t, first, fmt.Sprintf("/lock-%d", i), locks.WithMaxHold(maxHold)))
			}
			end := leases[0].Since().Add(maxHold)
			var asking sync.WaitGroup
			for _, lease := range leases {
				asking.Go(func() {
					time.Sleep(time.Until(end))
					if lease.Since().Add(maxHold).Equal(end) && lease.Err() == nil {
						t.Error("the hold is over, and the lease is valid")
					}
				})
			}
			asking.Wait()
		})
	}
}

// TestMaxHoldOfASemaphoreIsForPermits and not for the turn of a waiter.
func TestMaxHoldOfASemaphoreIsForPermits(t *testing.T) {
	between(t, func(t *testing.T, _ *zkserver.Server, first, second *framework.Framework) {
		lease := acquire(t, newSemaphore(t, first, "/s", locks.FixedLeases(1)))
		waiting := acquireLater(context.Background(), newSemaphore(t, second, "/s", locks.FixedLeases(1), locks.WithMaxHold(maxHold)))
		synctest.Wait()
		before := must.Get(newSemaphore(t, first, "/s", locks.FixedLeases(1)).Waiters(context.Background()))(t)
		time.Sleep(3 * maxHold)
		after := must.Get(newSemaphore(t, first, "/s", locks.FixedLeases(1)).Waiters(context.Background()))(t)
		require.Equal(t, before, after, "it has kept its turn")
		release(t, lease)
		o := <-waiting
		require.NoError(t, o.err)
		release(t, o.lease)
	})
}

// losses are the ways in which a holder is lost.
var losses = map[string]func(t *testing.T, server *zkserver.Server, holder *framework.Framework){
	"session killed": func(t *testing.T, server *zkserver.Server, holder *framework.Framework) {
		t.Helper()
		require.True(t, server.KillSession(holder.Session().ID()))
	},
	"client closed": func(t *testing.T, _ *zkserver.Server, holder *framework.Framework) {
		t.Helper()
		require.NoError(t, holder.Close())
	},
	"maximal hold": func(t *testing.T, _ *zkserver.Server, _ *framework.Framework) {
		t.Helper()
		time.Sleep(maxHold)
	},
}

// TestLockDelayComesAfterALoss: the next holder enters when the delay is over, and not before.
func TestLockDelayComesAfterALoss(t *testing.T) {
	for name, lose := range losses {
		t.Run(name, func(t *testing.T) {
			between(t, func(t *testing.T, server *zkserver.Server, first, second *framework.Framework) {
				mutex := newMutex(t, second, "/lock", locks.WithLockDelay(lockDelay))
				acquire(t, newMutex(t, first, "/lock", locks.WithLockDelay(lockDelay), locks.WithMaxHold(maxHold)))
				waiting := acquireLater(context.Background(), mutex)
				synctest.Wait()
				lose(t, server, first)
				began := time.Now()
				next := (<-waiting).lease
				require.GreaterOrEqual(t, time.Since(began), lockDelay)
				require.Less(t, time.Since(began)-lockDelay, time.Second)
				release(t, next)
				requireNoChildren(t, second, "/lock")
			})
		})
	}
}

// TestLockDelayDoesNotFollowARelease, and leaves nothing. A turn costs a round trip for the marker,
// and a list in the write of the creation, as the marker is a child that was created in between.
func TestLockDelayDoesNotFollowARelease(t *testing.T) {
	between(t, func(t *testing.T, server *zkserver.Server, first, second *framework.Framework) {
		ours := newMutex(t, first, "/lock", locks.WithLockDelay(lockDelay))
		release(t, acquire(t, ours)) // creates the folder
		require.Equal(t, 4, requestsWhile(t, server, first.Session().ID(), func() { release(t, acquire(t, ours)) }))
		lease := acquire(t, ours)
		waiting := acquireLater(context.Background(), newMutex(t, second, "/lock", locks.WithLockDelay(lockDelay)))
		time.Sleep(time.Second)
		began := time.Now()
		release(t, lease)
		release(t, (<-waiting).lease)
		require.Less(t, time.Since(began), time.Second)
		requireNoChildren(t, second, "/lock")
	})
}

// TestLockDelayOfATry: it does not wait, and succeeds once the delay is over, also with a new value of the lock for each try.
func TestLockDelayOfATry(t *testing.T) {
	between(t, func(t *testing.T, server *zkserver.Server, first, second *framework.Framework) {
		acquire(t, newMutex(t, first, "/lock", locks.WithLockDelay(lockDelay)))
		losses["session killed"](t, server, first)
		time.Sleep(time.Hour) // when the loss was is not known
		try := func() (*locks.Lease, error) {
			return newMutex(t, second, "/lock", locks.WithLockDelay(lockDelay)).TryAcquire(context.Background())
		}
		_, err := try()
		require.ErrorIs(t, err, locks.ErrNotAcquired)
		require.ErrorContains(t, err, "a holder was lost, and 7s are left of the lock delay")
		time.Sleep(lockDelay - time.Second)
		_, err = try()
		require.ErrorIs(t, err, locks.ErrNotAcquired)
		time.Sleep(time.Second + 2*time.Millisecond) // the server's times are in whole milliseconds
		lease := must.Get(try())(t)
		release(t, lease)
		requireNoChildren(t, second, "/lock")
	})
}

// TestLockDelayBeginsAgainWithTheNextLoss, and a waiter that leaves during it has not acquired.
func TestLockDelayBeginsAgainWithTheNextLoss(t *testing.T) {
	between(t, func(t *testing.T, _ *zkserver.Server, first, second *framework.Framework) {
		mutex := newMutex(t, second, "/lock", locks.WithLockDelay(lockDelay))
		for range 2 {
			acquire(t, newMutex(t, first, "/lock", locks.WithLockDelay(lockDelay), locks.WithMaxHold(maxHold)))
			time.Sleep(maxHold + time.Second)
		}
		ctx, cancel := context.WithTimeout(context.Background(), lockDelay-time.Second)
		defer cancel()
		_, err := mutex.Acquire(ctx)
		require.ErrorIs(t, err, locks.ErrNotAcquired)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		began := time.Now()
		release(t, acquire(t, mutex))
		require.Less(t, time.Since(began), 2*time.Second, "the marker says when the loss was noticed")
	})
}

// TestLockDelayAfterAMarkerOfAnyData, such as a marker made by hand.
func TestLockDelayAfterAMarkerOfAnyData(t *testing.T) {
	between(t, func(t *testing.T, _ *zkserver.Server, first, second *framework.Framework) {
		for path, data := range map[string][]byte{"/none": nil, "/some": []byte("x"), "/much": make([]byte, 1_000_000)} {
			must.Get(first.Create(t.Context(), path+"/holder", data, framework.CreatingParentsIfNeeded()))(t)
			began := time.Now()
			release(t, acquire(t, newMutex(t, second, path, locks.WithLockDelay(lockDelay))))
			require.InDelta(t, lockDelay, time.Since(began), float64(2*time.Millisecond))
			requireNoChildren(t, second, path)
		}
	})
}

// TestLockDelayOfAMarkerThatAnotherHasWritten: a contender that is slow to write leaves what another one has written meanwhile, and
// waits for the delay after that.
func TestLockDelayOfAMarkerThatAnotherHasWritten(t *testing.T) {
	between(t, func(t *testing.T, server *zkserver.Server, first, second *framework.Framework) {
		must.Get(first.Create(t.Context(), "/lock/holder", []byte("one lost"), framework.CreatingParentsIfNeeded()))(t)
		time.Sleep(lockDelay)
		server.Intercept(zkserver.Nth(1, zkserver.OpSetData, zkserver.Delay(time.Second)))
		waiting := acquireLater(context.Background(), newMutex(t, second, "/lock", locks.WithLockDelay(lockDelay)))
		time.Sleep(500 * time.Millisecond)
		require.NoError(t, first.Set(t.Context(), "/lock/holder", []byte("another")))
		began := time.Now()
		release(t, (<-waiting).lease)
		require.GreaterOrEqual(t, time.Since(began), lockDelay)
	})
}

// TestLockDelayOfContendersThatLiveShorter: each waits for less than the delay, with a client of its own, and one of them has the lock
// when the delay is over since the first has found the marker.
func TestLockDelayOfContendersThatLiveShorter(t *testing.T) {
	for name, wait := range map[string]time.Duration{"wait": 2 * time.Second, "try": 0} {
		t.Run(name, func(t *testing.T) {
			between(t, func(t *testing.T, server *zkserver.Server, first, _ *framework.Framework) {
				acquire(t, newMutex(t, first, "/lock", locks.WithLockDelay(lockDelay)))
				losses["session killed"](t, server, first)
				began := time.Now()
				for {
					client := zktest.Client(t, server)
					mutex := newMutex(t, client, "/lock", locks.WithLockDelay(lockDelay))
					ctx, cancel := context.WithTimeout(context.Background(), wait)
					lease, err := mutex.Acquire(ctx)
					if wait == 0 {
						lease, err = mutex.TryAcquire(context.Background())
					}
					cancel()
					if err == nil {
						require.InDelta(t, lockDelay, time.Since(began), float64(4*time.Second))
						require.GreaterOrEqual(t, time.Since(began), lockDelay)
						release(t, lease)
						requireNoChildren(t, client, "/lock")
						return
					}
					require.ErrorIs(t, err, locks.ErrNotAcquired)
					require.Less(t, time.Since(began), time.Minute)
					require.NoError(t, client.Close())
					time.Sleep(time.Second)
				}
			})
		})
	}
}

// TestMaxHoldAndLockDelayOnEachBackend: a hold that is over is a loss, which the delay follows, on real servers too.
func TestMaxHoldAndLockDelayOnEachBackend(t *testing.T) {
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		const hold, delay = 300 * time.Millisecond, 400 * time.Millisecond
		first, second := zktest.Client(t, server), zktest.Client(t, server)
		lease := acquire(t, newMutex(t, first, "/lock", locks.WithMaxHold(hold), locks.WithLockDelay(delay)))
		next := acquire(t, newMutex(t, second, "/lock", locks.WithLockDelay(delay)))
		require.GreaterOrEqual(t, time.Since(lease.Since()), hold+delay)
		requireMaxHold(t, lease.Err())
		require.Greater(t, next.Token(), lease.Token())
		release(t, next)
	})
}
