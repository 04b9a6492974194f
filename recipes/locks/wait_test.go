// SPDX-License-Identifier: Apache-2.0

package locks_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zkproxy"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// The session of a waiter ends while nobody tells it, then its turn comes: what it
// gets is the lock with a node of its next session, not the turn of the old one.
//
// See etcd#11456 and etcd#9921.
func TestWaitTurnOfAnEndedSessionIsNotTaken(t *testing.T) {
	tryAtOnce(t, func(t *testing.T, server zktest.Backend, path string) {
		admin := zktest.Client(t, server.ConnectString())
		holder := newMutex(t, admin, path)
		lease := acquire(t, holder)
		client, link := zktest.ClientViaProxy(t, server)
		waiting := acquireLater(zktest.Context(t), newMutex(t, client, path))
		old := awaitQueue(t, holder, 2)[1]

		link.Blackhole(zkproxy.Both)
		zktest.KillSession(t, client, server.Addr())
		release(t, lease)
		third := acquire(t, holder) // the waiter's turn has come and gone
		link.Heal()
		next := awaitOther(t, holder, old)
		select {
		case o := <-waiting:
			t.Fatalf("the waiter got %+v while another has the lock", o)
		default:
		}
		release(t, third)
		o := await(t, waiting)
		require.NoError(t, o.err)
		require.Equal(t, next.Token, o.lease.Token())
		require.NotEqual(t, old.Session, next.Session)
		require.Equal(t, client.Session().ID(), must.Get(admin.Exists(zktest.Context(t), o.lease.Path()))(t).EphemeralOwner)
		release(t, o.lease)
	})
}

const permDelete = 1 << 3

// A wait of twenty milliseconds is looked after once, by the read of the own node and of
// those before it, which mends a missed wake-up. These tests are about waits that last for
// longer: on a fake clock, where what is told at once takes no time at all.

// longWait is a bubble with a server, a client that holds and one that waits.
type longWait struct {
	server         *zkserver.Server
	holder, waiter *framework.Framework
}

func onFakeTime(t *testing.T, test func(t *testing.T, w longWait)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		t.Cleanup(func() { zktest.AssertClean(t, server) })
		test(t, longWait{server, zktest.Client(t, server), zktest.Client(t, server)})
	})
}

// requireAtOnce returns the lease of an acquisition that has to be over without any time passing.
func requireAtOnce(t *testing.T, result <-chan outcome) *locks.Lease {
	t.Helper()
	before := time.Now()
	o := await(t, result)
	require.NoError(t, o.err)
	require.Zero(t, time.Since(before), "it was told late")
	return o.lease
}

// semaphoreKinds are both layouts.
var semaphoreKinds = map[string]func(*testing.T, *framework.Framework, locks.MaxLeases) semaphore{
	"v1": func(t *testing.T, client *framework.Framework, n locks.MaxLeases) semaphore {
		s := must.Get(locks.NewInterProcessSemaphore(client, "/s", n))(t)
		return s
	},
	"v2": func(t *testing.T, client *framework.Framework, n locks.MaxLeases) semaphore {
		return newSemaphore(t, client, "/s", n)
	},
}

// Whichever permit is given back, a waiter gets it at once.
func TestWaitAnyPermitEndsALongWait(t *testing.T) {
	for name, create := range semaphoreKinds {
		t.Run(name, func(t *testing.T) {
			for given := range 2 {
				onFakeTime(t, func(t *testing.T, w longWait) {
					s := create(t, w.holder, locks.FixedLeases(2))
					held := []*locks.Lease{acquire(t, s), acquire(t, s)}
					waiting := acquireLater(context.Background(), create(t, w.waiter, locks.FixedLeases(2)))
					time.Sleep(time.Second)
					release(t, held[given])
					release(t, requireAtOnce(t, waiting))
					release(t, held[1-given])
				})
			}
		})
	}
}

// TestWaitReadsAContenderOnce: of two that a waiter watches one leaves, and another takes its place.
func TestWaitReadsAContenderOnce(t *testing.T) {
	onFakeTime(t, func(t *testing.T, w longWait) {
		open := func(client *framework.Framework) *locks.InterProcessSemaphore {
			return must.Get(locks.NewInterProcessSemaphore(client, "/s", locks.FixedLeases(2)))(t)
		}
		held := []*locks.Lease{acquire(t, open(w.holder)), acquire(t, open(w.holder))}
		ctx, giveUp := context.WithCancel(context.Background())
		before := acquireLater(ctx, open(w.holder))
		time.Sleep(time.Second)
		waiting := acquireLater(context.Background(), open(w.waiter))
		time.Sleep(time.Second)
		var reads atomic.Int64
		defer w.server.Intercept(func(r zkserver.Request) zkserver.Fault {
			if r.SessionID == w.waiter.Session().ID() && r.Op == zkserver.OpGetData {
				reads.Add(1)
			}
			return zkserver.Pass
		})()
		giveUp()
		require.ErrorIs(t, await(t, before).err, context.Canceled)
		time.Sleep(time.Second)
		require.EqualValues(t, 1, reads.Load(), "it watches the second holder already")
		release(t, held[1])
		release(t, await(t, waiting).lease)
		release(t, held[0])
	})
}

// TestWaiterIsQuiet: who waits sends what it takes to be told, and then nothing, however
// long it is; and a waiter whose node is deleted meanwhile joins again, at its turn at the latest.
func TestWaiterIsQuiet(t *testing.T) {
	const enough = 15 // creation with its parents, lists, watches, and a turn at a semaphore
	for _, p := range pairings {
		t.Run(p.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := zktest.NewServer(t, zkserver.WithoutListener())
				lease := p.hold(t, zktest.Client(t, server), "/lock")
				client := zktest.Client(t, server)
				ctx, stop := context.WithCancel(context.Background())
				defer stop()
				var sent atomic.Int64
				remove := server.Intercept(func(r zkserver.Request) zkserver.Fault {
					if r.SessionID == client.Session().ID() && r.Op != zkserver.OpPing && sent.Add(1) > 10*enough {
						stop() // or the clock would stand still
					}
					return zkserver.Pass
				})
				rival := p.rival(t, client, "/lock")
				waiting := acquireLater(ctx, rival)
				time.Sleep(time.Minute)
				require.LessOrEqual(t, sent.Load(), int64(enough))
				remove()

				queue := must.Get(rival.Participants(zktest.Context(t)))(t)
				ours := queue[len(queue)-1]
				require.NoError(t, client.Delete(zktest.Context(t), ours.Path))
				time.Sleep(time.Second)
				release(t, lease)
				o := await(t, waiting)
				require.NoError(t, o.err)
				require.Greater(t, o.lease.Token(), ours.Token, "it has joined again")
				release(t, o.lease)
			})
		})
	}
}
