// SPDX-License-Identifier: Apache-2.0

package locks_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

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
		s, err := locks.NewInterProcessSemaphore(client, "/s", n)
		require.NoError(t, err)
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

// A greater maximum lets a waiter in at once.
func TestWaitGreaterMaximumEndsALongWait(t *testing.T) {
	for name, create := range semaphoreKinds {
		t.Run(name, func(t *testing.T) {
			onFakeTime(t, func(t *testing.T, w longWait) {
				shared := func(client *framework.Framework) *locks.SharedLeases {
					n, err := locks.NewSharedLeases(client, "/max", 1)
					require.NoError(t, err)
					return n
				}
				maximum := shared(w.holder)
				held := acquire(t, create(t, w.holder, maximum))
				waiting := acquireLater(context.Background(), create(t, w.waiter, shared(w.waiter)))
				time.Sleep(time.Second)
				require.NoError(t, maximum.Set(context.Background(), 2))
				release(t, requireAtOnce(t, waiting))
				release(t, held)
			})
		})
	}
}

// A request to give way that comes during a long wait is in the data that the waiter has
// read, and read no more.
func TestWaitRequestDuringALongWait(t *testing.T) {
	onFakeTime(t, func(t *testing.T, w longWait) {
		holder := newMutex(t, w.holder, "/lock")
		held := acquire(t, holder)
		waiting := acquireLater(context.Background(), newMutex(t, w.waiter, "/lock"))
		synctest.Wait()
		queue, err := holder.Participants(context.Background())
		require.NoError(t, err)
		require.NoError(t, locks.AttemptRevoke(context.Background(), w.holder, queue[1].Path))
		time.Sleep(time.Second)
		release(t, held)
		lease := requireAtOnce(t, waiting)
		synctest.Wait()
		awaitDone(t, lease.Revoked(), "the request")
		release(t, lease)
	})
}
