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

	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zkproxy"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// The one that a waiter is to watch goes between the list and the watch: the
// waiter gets the lock, and no watch is left on a path that nobody will use again.
//
// CURATOR-644: candidates reset forever, and none leads.
func TestWatchPredecessorGoesBeforeTheWatch(t *testing.T) {
	tryInTurn(t, func(t *testing.T, server zktest.Backend) {
		holder := newMutex(t, zktest.Client(t, server.ConnectString()), "/locks/vanish")
		link := zktest.NewProxy(t, server.Addr())
		waiter := newMutex(t, zktest.Client(t, server.ConnectStringVia(link.Addr())), "/locks/vanish")
		before := server.Counts(t)
		lease := acquire(t, holder)

		aboutToWatch, goOn := make(chan struct{}), make(chan struct{})
		var once sync.Once
		remove := link.Intercept(func(f zkproxy.Frame) zkproxy.Verdict {
			if f.Direction == zkproxy.ToServer && f.Path == server.Root()+lease.Path() {
				once.Do(func() { close(aboutToWatch) })
				<-goOn
			}
			return zkproxy.Pass
		})
		defer remove()
		result := acquireLater(zktest.Context(t), waiter)
		awaitDone(t, aboutToWatch, "the watch on the predecessor")
		release(t, lease)
		close(goOn)
		o := await(t, result)
		require.NoError(t, o.err)
		release(t, o.lease)
		server.AwaitCounts(t, before, limit)
	})
}

// A wake-up proves nothing: when the data of the predecessor changes, the waiter
// looks again and goes on waiting.
func TestWatchChangedPredecessorIsNoReasonToEnter(t *testing.T) {
	tryOften(t, func(t *testing.T, server zktest.Backend) {
		admin := zktest.Client(t, server.ConnectString())
		holder := newMutex(t, admin, "/locks/changed")
		lease := acquire(t, holder)
		link := zktest.NewProxy(t, server.Addr())
		watched := make(chan struct{}, 100)
		remove := link.Intercept(func(f zkproxy.Frame) zkproxy.Verdict {
			if f.Direction == zkproxy.ToClient && f.Kind == zkproxy.Reply && f.Path == server.Root()+lease.Path() {
				watched <- struct{}{}
			}
			return zkproxy.Pass
		})
		defer remove()
		waiter := zktest.Client(t, server.ConnectStringVia(link.Addr()))
		result := acquireLater(zktest.Context(t), newMutex(t, waiter, "/locks/changed"))
		for range 4 {
			select {
			case <-watched:
			case o := <-result:
				t.Fatalf("the waiter got %+v while the lock is held", o)
			case <-time.After(limit):
				t.Fatal("the waiter has not looked again")
			}
			require.NoError(t, admin.Set(zktest.Context(t), lease.Path(), []byte("changed")))
		}
		require.NoError(t, lease.Err(), "a change of its data does not end a hold")
		require.NoError(t, waiter.Sync(zktest.Context(t), "/"))
		release(t, lease)
		o := await(t, result)
		require.NoError(t, o.err)
		release(t, o.lease)
	})
}

func awaitSignal(t *testing.T, signal <-chan struct{}) {
	t.Helper()
	select {
	case <-signal:
	case <-zktest.Context(t).Done():
		t.Fatal("the signal has not come")
	}
}

// A hundred waiters of one client on one lock need no more watches than contenders.
//
// See CURATOR-14 and CURATOR-654.
func TestWatchesDoNotPileUp(t *testing.T) {
	const waiters = 100
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		client := zktest.Client(t, server.ConnectString())
		before := server.Counts(t)
		m := newMutex(t, client, "/locks/many", locks.WithQueuePlaces(0))
		lease := acquire(t, m)
		var wg sync.WaitGroup
		for range waiters {
			wg.Go(func() {
				lease, err := m.Acquire(zktest.Context(t))
				if err != nil {
					t.Errorf("acquire: %v", err)
					return
				}
				if err := lease.Release(zktest.Context(t)); err != nil {
					t.Errorf("release: %v", err)
				}
			})
		}
		awaitQueue(t, m, waiters+1)
		// Each contender's own node is watched, and each predecessor is one of them.
		require.LessOrEqual(t, server.Counts(t).Watches, before.Watches+waiters+1)
		release(t, lease)
		wg.Wait()
		server.AwaitCounts(t, before, limit)
	})
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
