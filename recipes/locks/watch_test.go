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

func awaitSignal(t *testing.T, signal <-chan struct{}) {
	t.Helper()
	select {
	case <-signal:
	case <-zktest.Context(t).Done():
		t.Fatal("the signal has not come")
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
