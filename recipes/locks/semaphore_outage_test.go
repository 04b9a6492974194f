// SPDX-License-Identifier: Apache-2.0

package locks_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/testing/ensemble"
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

// The number is raised, and then lowered, while a waiter is cut off: it finds out
// when it is back, and neither holds nor places are lost.
func TestSemaphoreMaximumChangesDuringAnOutage(t *testing.T) {
	semaphores(t, func(t *testing.T, server zktest.Backend, create func(*framework.Framework, locks.MaxLeases) semaphore) {
		server.Requires(t, ensemble.ResumedSessions)
		admin := zktest.Client(t, server.ConnectString())
		shared := newShared(t, admin)
		s := create(admin, shared)
		lease := acquire(t, s)
		client, link := zktest.ClientViaProxy(t, server, framework.WithErrorPolicy(framework.SessionErrorPolicy))
		away := func(change func()) {
			link.Refuse(true)
			link.Cut()
			change()
			link.Refuse(false)
		}
		first := acquireLater(zktest.Context(t), create(client, newShared(t, client)))
		place := awaitQueue(t, s, 2)[1]
		away(func() { require.NoError(t, shared.Set(zktest.Context(t), 2)) })
		o := await(t, first)
		require.NoError(t, o.err)
		require.Equal(t, place.Token, o.lease.Token())

		second := acquireLater(zktest.Context(t), create(client, newShared(t, client)))
		place = awaitQueue(t, s, 3)[2]
		away(func() {
			require.NoError(t, shared.Set(zktest.Context(t), 1))
			release(t, lease)
		})
		require.NoError(t, client.Sync(zktest.Context(t), "/"))
		require.NoError(t, o.lease.Err())
		_, err := s.TryAcquire(zktest.Context(t))
		require.ErrorIs(t, err, locks.ErrNotAcquired)
		require.Empty(t, second, "the first of them is the one permit")
		release(t, o.lease)
		o = await(t, second)
		require.NoError(t, o.err)
		require.Equal(t, place.Token, o.lease.Token())
		release(t, o.lease)
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
