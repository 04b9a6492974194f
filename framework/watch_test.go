// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
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
