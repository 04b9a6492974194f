// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// A place for the error costs a read no memory.
func TestStoringErrorInAllocatesNothing(t *testing.T) {
	server := zktest.NewServer(t)
	f := zktest.Client(t, server)
	mustCreate(t, f, "/node")
	const reads = 100
	all, errs := make([]framework.Read, reads), make([]error, reads)
	allocations := func(storing bool) float64 {
		return testing.AllocsPerRun(10, func() {
			for i := range all {
				if all[i] = framework.ReadData("/node", nil); storing {
					all[i] = all[i].StoringErrorIn(&errs[i])
				}
			}
			require.NoError(t, f.Pipeline(context.Background(), all...))
		})
	}
	require.Less(t, allocations(true)-allocations(false), float64(reads)/2, "for %d reads", reads)
}

// What an earlier try of a pipeline has found does not stay as the result of a znode that is missing.
func TestPipelineMissingZnodeHasNoDataOfAnEarlierTry(t *testing.T) {
	server := zktest.NewServer(t)
	f := zktest.Client(t, server)
	for _, path := range []string{"/a", "/b"} {
		must.Get(f.Create(t.Context(), path, []byte("old")))(t)
	}
	tries := 0
	server.Intercept(func(r zkserver.Request) zkserver.Fault {
		switch {
		case r.Path == "/b" && tries == 0:
			tries++
			return zkserver.LoseReply
		case r.Path == "/a" && tries == 1:
			tries++
			return zkserver.FailWith(-101) // NoNode
		}
		return zkserver.Pass
	})
	data, absent, stat := []byte("before"), false, framework.Stat{Version: 7}

	require.NoError(t, f.Pipeline(t.Context(),
		framework.ReadData("/a", &data, framework.StoringAbsenceIn(&absent), framework.StoringStatIn(&stat)),
		framework.ReadData("/b", nil)))

	require.Equal(t, 2, tries)
	require.True(t, absent)
	require.Nil(t, data)
	require.Equal(t, framework.Stat{Version: 7}, stat, "nothing is stored")
}

// Flush returns when the listeners have been called with what came before it, and gives up
// with the context.
func TestFlushOfAPersistentWatch(t *testing.T) {
	f := zktest.Client(t, zktest.NewServer(t))
	watch := must.Get(f.AddWatch(t.Context(), "/node", framework.WatchPersistent))(t)
	defer watch.Cancel()
	release, seen := make(chan struct{}), 0
	watch.OnEvent(func(framework.Event) { <-release; seen++ })
	mustCreate(t, f, "/node")
	require.NoError(t, f.Set(t.Context(), "/node", nil))
	require.NoError(t, f.Sync(t.Context(), "/node"))

	why := errors.New("enough")
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	require.ErrorIs(t, watch.Flush(ended), why)
	require.ErrorIs(t, watch.Flush(ended), context.Canceled)
	require.ErrorIs(t, watch.Flush(nil), framework.ErrInvalidOption) //nolint:staticcheck // what a mistake does
	close(release)
	require.NoError(t, watch.Flush(t.Context()))
	require.Equal(t, 2, seen)
}

// Once a sync has returned, the queue has every watch that a change before it has ended, those
// that had ended when they were added among them, and none that was cancelled.
func TestWatchQueueIsInTheOrderOfTheStream(t *testing.T) {
	server := zktest.NewServer(t, zkserver.WithVersion("3.5.9"))
	f, writer := zktest.Client(t, server), zktest.Client(t, server)
	const nodes = 200
	var queue framework.WatchQueue
	watches := make([]*framework.Watch, nodes)
	for i := range watches {
		mustCreate(t, writer, fmt.Sprintf("/node-%d", i))
		must.Get(f.Get(t.Context(), fmt.Sprintf("/node-%d", i), framework.Watched(&watches[i])))(t)
		if i%2 == 0 {
			queue.Add(watches[i])
		}
	}
	cancelled := map[string]bool{"/node-10": true, "/node-20": true}
	watches[10].Cancel()
	watches[20].Cancel()
	var want, got []string
	for i := range watches {
		path := fmt.Sprintf("/node-%d", i)
		require.NoError(t, writer.Set(t.Context(), path, nil))
		if i%2 == 0 && !cancelled[path] {
			want = append(want, path)
		}
	}
	require.NoError(t, f.Sync(t.Context(), "/"))
	for _, w := range queue.Take() {
		got = append(got, w.Event().Path)
	}
	require.Equal(t, want, got)
	zktest.Await(t, queue.Wake(), "the signal")
	require.Empty(t, queue.Take())

	queue.Add(watches[1]) // has ended
	require.Equal(t, []*framework.Watch{watches[1]}, queue.Take())
}

// On a new connection Flush waits until the watch is there again: what was answered before on
// that connection may be of changes that no event has told of.
func TestFlushWaitsUntilTheWatchIsThereAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		f := zktest.Client(t, server)
		watch := must.Get(f.AddWatch(t.Context(), "/node", framework.WatchPersistent))(t)
		defer watch.Cancel()
		told := make(chan framework.Event, 1)
		watch.OnEvent(func(e framework.Event) { told <- e })
		release := make(chan struct{})
		t.Cleanup(server.Intercept(func(r zkserver.Request) zkserver.Fault {
			switch r.Op {
			case zkserver.OpAddWatch, zkserver.OpSetWatches, zkserver.OpSetWatches2:
				return zkserver.HoldUntil(release)
			default:
				return zkserver.Pass
			}
		}))
		server.Cut(f.Session().ID(), 1)
		zktest.AwaitState(t, f, framework.Suspended)
		synctest.Wait() // listeners may hear of the state before the watch does
		flushed := make(chan error, 1)
		go func() { flushed <- watch.Flush(t.Context()) }()
		zktest.AwaitState(t, f, framework.Reconnected)
		synctest.Wait()
		require.Empty(t, flushed)
		close(release)
		require.NoError(t, <-flushed)
		require.Equal(t, framework.EventResync, (<-told).Type, "it is told by then")
		watch.Cancel()
		require.NoError(t, watch.Flush(t.Context()))
	})
}
