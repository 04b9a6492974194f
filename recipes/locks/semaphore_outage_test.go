// SPDX-License-Identifier: Apache-2.0

package locks_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// A waiter keeps its place when its connection is interrupted, under the policy that
// ends holds then.
//
// See kazoo#170.
func TestSemaphoreWaitersForAPermitKeepTheirPlace(t *testing.T) {
	for _, kind := range []string{"first semaphore", "semaphore", "semaphore mutex"} {
		t.Run(kind, func(t *testing.T) {
			onFakeTime(t, func(t *testing.T, w longWait) {
				p := alone(kind)
				lease := p.hold(t, w.holder, "/s")
				rival := p.rival(t, w.waiter, "/s")
				waiting := acquireLater(zktest.Context(t), rival)
				place := awaitQueue(t, rival, 2)[1]
				session := w.waiter.Session()
				require.Equal(t, 1, w.server.Cut(session.ID(), 1))
				require.NoError(t, w.waiter.Sync(zktest.Context(t), "/"))
				release(t, lease)
				o := await(t, waiting)
				require.NoError(t, o.err)
				require.Equal(t, session, w.waiter.Session())
				require.Equal(t, place.Path, o.lease.Path())
				release(t, o.lease)
			})
		})
	}
}

// The node with the number of permits is deleted while people hold and wait: it is
// made again with the seed, and waiters hear of further changes.
func TestSemaphoreMaximumIsDeletedWhilePeopleWait(t *testing.T) {
	semaphores(t, func(t *testing.T, server zktest.Backend, create func(*framework.Framework, locks.MaxLeases) semaphore) {
		admin := zktest.Client(t, server.ConnectString())
		shared := newShared(t, admin)
		s := create(admin, shared)
		lease := acquire(t, s)
		client := zktest.Client(t, server.ConnectString())
		waiting := acquireLater(zktest.Context(t), create(client, newShared(t, client)))
		awaitQueue(t, s, 2)
		require.NoError(t, admin.Delete(zktest.Context(t), "/semaphores/max"))
		awaitNumber(t, admin, []byte{0, 0, 0, 1})
		require.Empty(t, waiting)
		require.NoError(t, lease.Err())
		require.NoError(t, shared.Set(zktest.Context(t), 2))
		o := await(t, waiting)
		require.NoError(t, o.err)
		releaseAll(t, []*locks.Lease{lease, o.lease})
	})
}

func newShared(t *testing.T, client *framework.Framework) *locks.SharedLeases {
	t.Helper()
	shared := must.Get(locks.NewSharedLeases(client, "/semaphores/max", 1))(t)
	return shared
}

// awaitNumber waits until the node with the number of permits has this data.
func awaitNumber(t *testing.T, client *framework.Framework, want []byte) {
	t.Helper()
	ctx := zktest.Context(t)
	for {
		data, err := client.Get(ctx, "/semaphores/max")
		if err == nil && bytes.Equal(data, want) {
			return
		}
		require.NoError(t, ctx.Err(), "it is %v, %v", data, err)
		pause()
	}
}

// TestSemaphoreOnlyTheContextEndsTheWaitForAPermit: an acquisition that loses its turn again and again
// joins the queue again each time, whatever the retry policy.
func TestSemaphoreOnlyTheContextEndsTheWaitForAPermit(t *testing.T) {
	onFakeTime(t, func(t *testing.T, w longWait) {
		lease := acquire(t, newSemaphore(t, w.holder, "/s", locks.FixedLeases(1)))
		client := zktest.Client(t, w.server, framework.WithRetryPolicy(retry.None()))
		waiting := newSemaphore(t, client, "/s", locks.FixedLeases(1))
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		result := acquireLater(ctx, waiting)
		for range 3 {
			time.Sleep(5 * time.Second)
			require.Empty(t, result)
			require.True(t, w.server.KillSession(client.Session().ID()))
		}
		time.Sleep(5 * time.Second)
		release(t, lease)
		release(t, requireAtOnce(t, result))
	})
}

// TestSemaphoreNoOutageEndsTheWaitForAPermit: the connection is lost while an acquisition that has its
// turn creates one of its leases, for longer than requests wait and less than the session lasts.
func TestSemaphoreNoOutageEndsTheWaitForAPermit(t *testing.T) {
	for last := 1; last <= 2; last++ {
		t.Run(fmt.Sprintf("lease %d", last), func(t *testing.T) {
			onFakeTime(t, func(t *testing.T, w longWait) {
				client := zktest.Client(t, w.server, framework.WithSessionTimeout(40*time.Second),
					framework.WithConnectionTimeout(time.Second), framework.WithRetryPolicy(retry.NTimes(3, 100*time.Millisecond)))
				session, created := client.Session(), 0
				t.Cleanup(w.server.Intercept(func(r zkserver.Request) zkserver.Fault {
					if r.Op != zkserver.OpCreate2 || !strings.Contains(r.Path, "/leases/") {
						return zkserver.Pass
					}
					if created++; created == last {
						time.AfterFunc(5*time.Second, w.server.Refuse())
						w.server.Cut(session.ID(), 1)
					}
					return zkserver.Pass
				}))
				leases := must.Get(newSemaphore(t, client, "/s", locks.FixedLeases(2)).AcquireN(zktest.Context(t), 2))(t)
				require.Same(t, session, client.Session())
				releaseAll(t, leases)
			})
		})
	}
}

// TestSemaphoreBusyServerIsNotAskedWithoutPause: it answers each creation of a lease that it is too busy.
func TestSemaphoreBusyServerIsNotAskedWithoutPause(t *testing.T) {
	onFakeTime(t, func(t *testing.T, w longWait) {
		client := zktest.Client(t, w.server, framework.WithRetryPolicy(retry.None()))
		const throttled = -127
		refused, turns, until := 0, 0, time.Now().Add(30*time.Second)
		t.Cleanup(w.server.Intercept(func(r zkserver.Request) zkserver.Fault {
			switch {
			case r.Op != zkserver.OpCreate2 || r.SessionID != client.Session().ID():
			case strings.Contains(r.Path, "/locks/"):
				turns++
			case strings.Contains(r.Path, "/leases/") && time.Now().Before(until):
				refused++
				return zkserver.FailWith(throttled)
			}
			return zkserver.Pass
		}))
		lease := acquire(t, newSemaphore(t, client, "/s", locks.FixedLeases(1)))
		release(t, lease)
		require.Positive(t, refused)
		require.LessOrEqual(t, turns, 45)
	})
}

// TestSemaphoreTryForPermitsWaitsForNoServer: it loses its turn with the connection.
func TestSemaphoreTryForPermitsWaitsForNoServer(t *testing.T) {
	onFakeTime(t, func(t *testing.T, w longWait) {
		var allow func()
		client := zktest.Client(t, w.server, framework.WithConnectionTimeout(time.Second))
		id := client.Session().ID()
		t.Cleanup(w.server.Intercept(func(r zkserver.Request) zkserver.Fault {
			if r.Op == zkserver.OpCreate2 && strings.Contains(r.Path, "/leases/") && allow == nil {
				allow = w.server.Refuse()
				w.server.Cut(id, 1)
			}
			return zkserver.Pass
		}))
		semaphore, tried := newSemaphore(t, client, "/s", locks.FixedLeases(2)), make(chan error, 1)
		go func() {
			_, err := semaphore.TryAcquireN(context.Background(), 2)
			tried <- err
		}()
		require.Error(t, zktest.Await(t, tried, "the end of the try"))
		require.NotNil(t, allow)
		allow()
		require.NoError(t, client.BlockUntilConnected(zktest.Context(t)))
	})
}

func newSharedSemaphore(t *testing.T, client *framework.Framework, n int) (*locks.InterProcessSemaphore, *locks.SharedLeases) {
	t.Helper()
	shared := must.Get(locks.NewSharedLeases(client, "/max", n))(t)
	s := must.Get(locks.NewInterProcessSemaphore(client, "/permits", shared))(t)
	return s, shared
}

// TestSemaphoreMaximumFallsDuringALook: the number is lowered while somebody who waits lists the
// leases. Whoever saw both in the order in which they were made would not let him in.
func TestSemaphoreMaximumFallsDuringALook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		held, shared := newSharedSemaphore(t, zktest.Client(t, server), 3)
		leases := []*locks.Lease{acquire(t, held), acquire(t, held), acquire(t, held)}
		ctx, giveUp := context.WithCancel(context.Background())
		defer giveUp()
		before := acquireLater(ctx, held)
		synctest.Wait()
		client := zktest.Client(t, server)
		s, _ := newSharedSemaphore(t, client, 3)
		waiting := acquireLater(zktest.Context(t), s)
		time.Sleep(time.Second)

		look := make(chan struct{})
		var looking atomic.Bool
		server.Intercept(func(r zkserver.Request) zkserver.Fault {
			if r.SessionID == client.Session().ID() && r.Op == zkserver.OpGetChildren2 {
				looking.Store(true)
				return zkserver.HoldUntil(look)
			}
			return zkserver.Pass
		})
		giveUp() // not the first in the queue: who comes after it lists
		require.ErrorIs(t, await(t, before).err, locks.ErrNotAcquired)
		synctest.Wait()
		require.True(t, looking.Load())
		require.NoError(t, shared.Set(zktest.Context(t), 1))
		release(t, leases[0])
		close(look)
		synctest.Wait()
		requireWaiting(t, waiting)
		releaseAll(t, leases[1:])
		o := await(t, waiting)
		require.NoError(t, o.err)
		release(t, o.lease)
	})
}

const permitsOfTheDead = 3

// TestSemaphorePermitsOfTheDeadComeBackInTime: holders that die without a word are missed when the
// session timeout has passed, and a tick of the server at most; on a fake clock, wherever
// between two ticks they die.
//
// See CURATOR-595.
func TestSemaphorePermitsOfTheDeadComeBackInTime(t *testing.T) {
	for name, open := range map[string]func(*testing.T, *framework.Framework) locks.InterProcessLock{
		"first": func(t *testing.T, client *framework.Framework) locks.InterProcessLock {
			s := must.Get(locks.NewInterProcessSemaphore(client, "/permits", locks.FixedLeases(permitsOfTheDead)))(t)
			return s
		},
		"second": func(t *testing.T, client *framework.Framework) locks.InterProcessLock {
			return newSemaphore(t, client, "/permits", locks.FixedLeases(permitsOfTheDead))
		},
	} {
		t.Run(name, func(t *testing.T) {
			for trial := range trials() {
				synctest.Test(t, func(t *testing.T) { permitsComeBack(t, float64(trial)/float64(trials()), open) })
			}
		})
	}
}

// permitsComeBack has holders die when the server is in this phase of its tick, from 0 to 1.
func permitsComeBack(t *testing.T, phase float64, open func(*testing.T, *framework.Framework) locks.InterProcessLock) {
	t.Helper()
	const timeout, tick = 10 * time.Second, 2 * time.Second
	server := zktest.NewServer(t, zkserver.WithoutListener(), zkserver.WithTick(tick))
	time.Sleep(time.Duration(phase * float64(tick)))
	for range permitsOfTheDead {
		client := zktest.Client(t, server, framework.WithSessionTimeout(timeout))
		acquire(t, open(t, client))
		server.Blackhole(client.Session().ID(), zkserver.Both)
	}
	died := time.Now()
	heirs := open(t, zktest.Client(t, server))
	ctx, cancel := context.WithTimeout(context.Background(), 2*timeout)
	defer cancel()
	var leases []*locks.Lease
	for range permitsOfTheDead {
		lease := must.Get(heirs.Acquire(ctx))(t)
		leases = append(leases, lease)
	}
	require.GreaterOrEqual(t, time.Since(died), timeout)
	require.LessOrEqual(t, time.Since(died), timeout+tick)
	releaseAll(t, leases)
}
