// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// fired waits for a watch and returns its event.
func fired(t *testing.T, w *framework.Watch) framework.Event {
	t.Helper()
	select {
	case <-w.Fired():
		return w.Event()
	case <-time.After(patience):
		require.FailNow(t, "the watch has not fired")
		return framework.Event{}
	}
}

func notFired(t *testing.T, w *framework.Watch) {
	t.Helper()
	select {
	case <-w.Fired():
		require.FailNow(t, "the watch has fired", "%+v", w.Event())
	default:
	}
}

// watchers set each kind of watch.
var watchers = map[string]func(ctx context.Context, f *framework.Framework, path string, w **framework.Watch) error{
	"get": func(ctx context.Context, f *framework.Framework, path string, w **framework.Watch) error {
		_, err := f.Get(ctx, path, framework.Watched(w))
		return err
	},
	"exists": func(ctx context.Context, f *framework.Framework, path string, w **framework.Watch) error {
		_, err := f.Exists(ctx, path, framework.Watched(w))
		return err
	},
	"children": func(ctx context.Context, f *framework.Framework, path string, w **framework.Watch) error {
		_, err := f.Children(ctx, path, framework.Watched(w))
		return err
	},
}

func watch(t *testing.T, f *framework.Framework, kind, path string) *framework.Watch {
	t.Helper()
	var w *framework.Watch
	require.NoError(t, watchers[kind](t.Context(), f, path, &w))
	require.NotNil(t, w)
	return w
}

// Curator: TestWatcherRemovalManager, all.
func TestWatchesAreShared(t *testing.T) {
	onEachBackend(t, func(t *testing.T, server zktest.Backend, f *framework.Framework) {
		before := server.Counts(t)
		var all []*framework.Watch
		var mu sync.Mutex
		var group sync.WaitGroup
		for range 100 {
			group.Go(func() {
				var w *framework.Watch
				if _, err := f.Get(t.Context(), "/start", framework.Watched(&w)); err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				all = append(all, w)
			})
		}
		group.Wait()
		require.Len(t, all, 100)
		require.Equal(t, before.Watches+1, server.Counts(t).Watches)
		child := watch(t, f, "children", "/start")
		require.Equal(t, before.Watches+2, server.Counts(t).Watches)
		for _, w := range all[1:] {
			w.Cancel()
			w.Cancel()
		}
		require.NoError(t, f.Sync(t.Context(), "/")) // behind whatever was sent
		require.Equal(t, before.Watches+2, server.Counts(t).Watches)
		all[0].Cancel()
		child.Cancel()
		server.AwaitCounts(t, before, patience)
		require.Zero(t, f.WatchedPaths())
		require.NoError(t, f.Set(t.Context(), "/start", nil))
		for _, w := range append(all, child) {
			notFired(t, w)
		}
	})
}

// Curator: TestEnabledSessionExpiredState.testInjectedWatchedEvent.
func TestWatchEndOfTheConnectionEndsWatches(t *testing.T) {
	inMemory(t, func(t *testing.T, n *memnet) {
		f := n.client(t)
		mustCreate(t, f, "/a")
		var all []*framework.Watch
		for kind := range watchers {
			all = append(all, watch(t, f, kind, "/a"))
		}
		absent := watch(t, f, "exists", "/none")
		n.cut()
		for _, w := range append(all, absent) {
			event := fired(t, w)
			require.Equal(t, zk.EventNotWatching, event.Type)
			require.ErrorIs(t, event.Err, framework.ErrConnectionLost)
		}
		require.Equal(t, "/none", absent.Event().Path)
		require.Zero(t, f.WatchedPaths())
		w := watch(t, f, "get", "/a") // waits for the connection
		require.NoError(t, f.Set(t.Context(), "/a", nil))
		require.Equal(t, zk.EventNodeDataChanged, fired(t, w).Type)

		w = watch(t, f, "get", "/a")
		require.NoError(t, f.Close())
		require.Error(t, fired(t, w).Err)
		w.Cancel()
	})
}

// TestWatchCancelledReadLeavesNoWatch: its context ends while the reply is on its way.
//
// Curator: TestWatcherRemovalManager, all.
func TestWatchCancelledReadLeavesNoWatch(t *testing.T) {
	for kind, set := range watchers {
		inMemory(t, func(t *testing.T, n *memnet) {
			f := n.client(t)
			mustCreate(t, f, "/a")
			release, arrived := make(chan struct{}), make(chan struct{}, 1)
			remove := n.server.Intercept(func(r zkserver.Request) zkserver.Fault {
				if r.Path != "/a" {
					return zkserver.Pass
				}
				arrived <- struct{}{}
				return zkserver.HoldUntil(release)
			})
			ctx, cancel := context.WithCancelCause(t.Context())
			done := make(chan error, 1)
			var w *framework.Watch
			go func() { done <- set(ctx, f, "/a", &w) }()
			<-arrived
			cancel(errWhy)
			require.ErrorIs(t, <-done, errWhy, kind)
			require.Nil(t, w)
			remove()
			close(release)
			synctest.Wait()
			require.Zero(t, n.server.Stats().Watches, kind)
			require.Zero(t, f.WatchedPaths(), kind)
		})
	}
}

// TestWatchOfAListThatIsTooLong leaves no watch, although the server has set one.
func TestWatchOfAListThatIsTooLong(t *testing.T) {
	inMemory(t, func(t *testing.T, n *memnet) {
		f := n.client(t)
		for i := range 4 {
			mustCreate(t, f, fmt.Sprintf("/a/%064d", i), framework.CreatingParentsIfNeeded())
		}
		var w *framework.Watch
		_, err := f.Children(t.Context(), "/a", framework.Watched(&w), framework.WithReplyLimit(100))
		require.ErrorIs(t, err, framework.ErrTooLarge)
		require.Nil(t, w)
		synctest.Wait()
		require.Zero(t, n.server.Stats().Watches)
		require.Zero(t, f.WatchedPaths())
	})
}

// TestWatchEventBeforeTheReply ends the watches that were set before, and not the one
// that is being set: that one is told of the next event.
func TestWatchEventBeforeTheReply(t *testing.T) {
	for _, deleted := range []bool{false, true} {
		inMemory(t, func(t *testing.T, n *memnet) {
			f, observer := n.client(t), n.client(t)
			mustCreate(t, f, "/a")
			first := watch(t, f, "get", "/a")
			release, arrived, removals := make(chan struct{}), make(chan struct{}, 1), 0
			n.server.Intercept(func(r zkserver.Request) zkserver.Fault {
				if r.Op == zkserver.OpRemoveWatches {
					removals++
				}
				if r.SessionID != f.Session().ID() || r.Op != zkserver.OpGetData {
					return zkserver.Pass
				}
				arrived <- struct{}{}
				return zkserver.HoldUntil(release)
			})
			var second *framework.Watch
			done := make(chan error, 1)
			go func() {
				_, err := f.Get(t.Context(), "/a", framework.Watched(&second))
				done <- err
			}()
			<-arrived
			if deleted {
				require.NoError(t, observer.Delete(t.Context(), "/a"))
			} else {
				require.NoError(t, observer.Set(t.Context(), "/a", nil))
			}
			require.NoError(t, fired(t, first).Err)
			close(release)
			if deleted {
				require.ErrorIs(t, <-done, framework.ErrNoNode)
				synctest.Wait()
				require.Zero(t, removals, "there is nothing to remove at the server")
			} else {
				require.NoError(t, <-done)
				synctest.Wait()
				notFired(t, second)
				require.NoError(t, observer.Set(t.Context(), "/a", nil))
				require.Equal(t, zk.EventNodeDataChanged, fired(t, second).Type)
			}
			require.Zero(t, f.WatchedPaths())
			require.Zero(t, n.server.Stats().Watches)
		})
	}
}

// TestWatchFailedTryOfAPipelineLeavesNoWatch: the first read has set one when the
// second fails, and is made again with it.
//
// Curator: TestWatcherRemovalManager, all.
func TestWatchFailedTryOfAPipelineLeavesNoWatch(t *testing.T) {
	inMemory(t, func(t *testing.T, n *memnet) {
		f := n.client(t)
		mustCreate(t, f, "/a")
		failures := 2
		n.server.Intercept(func(r zkserver.Request) zkserver.Fault {
			if r.Op == zkserver.OpGetChildren2 && failures > 0 {
				failures--
				return zkserver.FailWith(-127) // throttled
			}
			return zkserver.Pass
		})
		var w *framework.Watch
		require.NoError(t, f.Pipeline(t.Context(),
			framework.ReadData("/a", nil, framework.Watched(&w)), framework.ReadChildren("/a", nil)))
		require.Equal(t, 1, n.server.Stats().Watches)
		w.Cancel()
		synctest.Wait()
		require.Zero(t, n.server.Stats().Watches)
		require.Zero(t, f.WatchedPaths())
	})
}

// TestWatchesUnderStress lets registrations, cancellations, events and lost
// connections meet in every order. What must hold: a watch that is waited for ends,
// and in the end nothing is left.
//
// Curator: TestWatcherRemovalManager, all.
func TestWatchesUnderStress(t *testing.T) {
	server := zktest.NewServer(t)
	f, proxy := zktest.ClientViaProxy(t, server)
	writer := zktest.Client(t, server.Addr())
	const paths = 3
	for i := range paths {
		mustCreate(t, writer, fmt.Sprintf("/p%d", i))
	}
	ctx, cancel := context.WithCancel(t.Context())
	var readers, writers sync.WaitGroup
	for i := range 4 {
		writers.Go(func() {
			for ctx.Err() == nil {
				_ = writer.Set(ctx, fmt.Sprintf("/p%d", i%paths), nil) // ends with the context
			}
		})
	}
	for i := range 8 {
		readers.Go(func() {
			for round := range 200 {
				kind := []string{"get", "exists"}[round%2]
				var w *framework.Watch
				if err := watchers[kind](t.Context(), f, fmt.Sprintf("/p%d", i%paths), &w); err != nil {
					t.Errorf("round %d: %v", round, err)
					return
				}
				if round%3 == 0 {
					fired(t, w)
				}
				w.Cancel()
				if i == 0 && round%50 == 49 {
					proxy.Cut()
				}
			}
		})
	}
	readers.Wait()
	cancel()
	writers.Wait()
	backend := zktest.Embedded(server)
	backend.AwaitCounts(t, zktest.Counts{Sessions: 2}, patience)
	require.Zero(t, f.WatchedPaths())
}
