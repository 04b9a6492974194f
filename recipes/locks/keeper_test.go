// SPDX-License-Identifier: Apache-2.0

package locks_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// withoutSetWatches has a server hang up at setWatches.
func withoutSetWatches(t *testing.T, server *zkserver.Server) {
	t.Helper()
	t.Cleanup(server.Intercept(func(r zkserver.Request) zkserver.Fault {
		if r.Op == zkserver.OpSetWatches {
			return zkserver.LoseRequest
		}
		return zkserver.Pass
	}))
}

// waitingKinds open the locks whose waiters watch one contender, a few, and many.
var waitingKinds = map[string]func(*testing.T, *framework.Framework) locks.InterProcessLock{
	"mutex": func(t *testing.T, client *framework.Framework) locks.InterProcessLock {
		return newMutex(t, client, "/lock")
	},
	"reader": func(t *testing.T, client *framework.Framework) locks.InterProcessLock {
		return newReadWrite(t, client, "/lock").ReadLock()
	},
	"writer": func(t *testing.T, client *framework.Framework) locks.InterProcessLock {
		return newReadWrite(t, client, "/lock").WriteLock()
	},
	"semaphore of 5": func(t *testing.T, client *framework.Framework) locks.InterProcessLock {
		s, err := locks.NewInterProcessSemaphore(client, "/lock", locks.FixedLeases(5))
		require.NoError(t, err)
		return s
	},
	"second semaphore of 5": func(t *testing.T, client *framework.Framework) locks.InterProcessLock {
		return newSemaphore(t, client, "/lock", locks.FixedLeases(5))
	},
}

// TestKeeperTurnsOnAServerWithoutSetWatches: a server that reports no version of ZooKeeper is never
// asked for setWatches, and all waiters get their turns.
func TestKeeperTurnsOnAServerWithoutSetWatches(t *testing.T) {
	const clients, each = 8, 16 // enough for a waiter to watch all before it
	for name, open := range waitingKinds {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := zktest.NewServer(t, zkserver.WithoutListener(), zkserver.WithKeeper())
				t.Cleanup(func() { zktest.AssertClean(t, server) })
				var all []*framework.Framework
				sent := countRequests(t, server)
				withoutSetWatches(t, server)
				holder := zktest.Client(t, server, framework.WithoutContainerParents())
				held := []*locks.Lease{acquire(t, waitingKinds["writer"](t, holder))} // in the way of the readers
				for range 5 {                                                         // as many as the semaphores have leases
					if lease, err := open(t, holder).TryAcquire(t.Context()); err == nil {
						held = append(held, lease)
					}
				}
				var turns sync.WaitGroup
				for range clients {
					all = append(all, zktest.Client(t, server, framework.WithoutContainerParents()))
				}
				for range each {
					for _, client := range all {
						lock := open(t, client)
						turns.Go(func() {
							lease := acquire(t, lock)
							time.Sleep(time.Millisecond)
							release(t, lease)
						})
						time.Sleep(time.Millisecond)
					}
				}
				time.Sleep(time.Second)
				for _, lease := range held {
					release(t, lease)
				}
				turns.Wait()
				require.Zero(t, sent.since(zkserver.OpSetWatches))
			})
		})
	}
}

// record notes the requests of a session, and returns a function that returns them and ends the record.
func record(server *zkserver.Server, session int64) (end func() []string) {
	var mu sync.Mutex
	var sent []string
	remove := server.Intercept(func(r zkserver.Request) zkserver.Fault {
		mu.Lock()
		defer mu.Unlock()
		if r.SessionID == session && r.Op != zkserver.OpPing {
			sent = append(sent, fmt.Sprint(r.Op, " ", r.Path))
		}
		return zkserver.Pass
	})
	return func() []string {
		remove()
		mu.Lock()
		defer mu.Unlock()
		return sent
	}
}

// TestWatchPredecessorIsReadOnce: a waiter knows who is in its way from the read that sets its watch, and asks
// for nothing else of it.
func TestWatchPredecessorIsReadOnce(t *testing.T) {
	onFakeTime(t, func(t *testing.T, w longWait) {
		held := acquire(t, newMutex(t, w.holder, "/lock", locks.WithLabel("nightly")))
		for _, wait := range []time.Duration{time.Millisecond, time.Second} {
			sent := record(w.server, w.waiter.Session().ID())
			_, err := newMutex(t, w.waiter, "/lock").Acquire(withDeadline(t, wait))
			require.ErrorIs(t, err, locks.ErrNotAcquired)
			require.ErrorContains(t, err, "nightly")
			synctest.Wait()
			requests := sent()
			reads := slices.DeleteFunc(slices.Clone(requests), func(r string) bool { return r != "getData "+held.Path() })
			require.Len(t, reads, 1, "%v", requests)
		}
		release(t, held)
	})
}
