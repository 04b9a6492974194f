// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/testing/ensemble"
	"github.com/gocurator/curator/testing/zkproxy"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// recorder is a persistent watch with a listener.
type recorder struct {
	*framework.PersistentWatch
	events chan framework.Event
}

func record(t *testing.T, f *framework.Framework, path string, mode framework.WatchMode) *recorder {
	t.Helper()
	w := must.Get(f.AddWatch(t.Context(), path, mode))(t)
	r := &recorder{w, make(chan framework.Event, 1000)}
	w.OnEvent(func(e framework.Event) { r.events <- e })
	return r
}

// expect waits for the next events and compares them.
func (r *recorder) expect(t *testing.T, want ...framework.Event) {
	t.Helper()
	for i, w := range want {
		select {
		case got := <-r.events:
			require.Equal(t, w, got, "event %d of %v", i, want)
		case <-time.After(patience):
			require.FailNow(t, "no event", "event %d of %v has not come within %v", i, want, patience)
		}
	}
}

func changed(path string) framework.Event {
	return framework.Event{Type: zk.EventNodeDataChanged, Path: path}
}

func created(path string) framework.Event {
	return framework.Event{Type: zk.EventNodeCreated, Path: path}
}

func deleted(path string) framework.Event {
	return framework.Event{Type: zk.EventNodeDeleted, Path: path}
}

func children(path string) framework.Event {
	return framework.Event{Type: zk.EventNodeChildrenChanged, Path: path}
}

// resync is what the watch on /start says after a gap.
var resync = framework.Event{Type: framework.EventResync, Path: "/start"}

// makeChanges makes one change of each kind, at /w and below it.
func makeChanges(t *testing.T, f *framework.Framework) {
	t.Helper()
	for range 2 {
		mustCreate(t, f, "/w")
		require.NoError(t, f.Set(t.Context(), "/w", nil))
		mustCreate(t, f, "/w/a")
		mustCreate(t, f, "/w/a/b")
		require.NoError(t, f.Set(t.Context(), "/w/a", nil))
		for _, path := range []string{"/w/a/b", "/w/a", "/w"} {
			require.NoError(t, f.Delete(t.Context(), path))
		}
	}
}

var (
	seenPersistently = []framework.Event{
		created("/w"), changed("/w"), children("/w"), children("/w"), deleted("/w"),
	}
	seenRecursively = []framework.Event{
		created("/w"), changed("/w"), created("/w/a"), created("/w/a/b"), changed("/w/a"),
		deleted("/w/a/b"), deleted("/w/a"), deleted("/w"),
	}
)

func twice(events []framework.Event) []framework.Event {
	return append(append([]framework.Event{}, events...), events...)
}

// TestPersistentWatchesAreShared: the server has one watch of each mode, until the
// last is cancelled. A persistent one is in two of its tables.
func TestPersistentWatchesAreShared(t *testing.T) {
	onEachBackend(t, func(t *testing.T, server zktest.Backend, f *framework.Framework) {
		server.Requires(t, ensemble.PersistentWatches)
		before := server.Counts(t)
		var mu sync.Mutex
		var all []*framework.PersistentWatch
		var group sync.WaitGroup
		for range 50 {
			group.Go(func() {
				w, err := f.AddWatch(t.Context(), "/start", framework.WatchPersistent)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				all = append(all, w)
			})
		}
		group.Wait()
		last := record(t, f, "/start", framework.WatchPersistent)
		require.Equal(t, before.Watches+2, server.Counts(t).Watches)
		for _, w := range all {
			w.Cancel()
		}
		require.NoError(t, f.Set(t.Context(), "/start", nil))
		last.expect(t, changed("/start"))
		require.Equal(t, before.Watches+2, server.Counts(t).Watches)
		last.Cancel()
		require.NoError(t, f.Sync(t.Context(), "/")) // behind whatever was sent
		require.Equal(t, before.Watches, server.Counts(t).Watches)
		require.Zero(t, f.WatchedPaths())
	})
}

// TestPersistentWatchSurvivesOneShotWatches sets, fires and cancels one-shot watches on the
// path of a persistent one, which servers before 3.9 would take away with them.
func TestPersistentWatchSurvivesOneShotWatches(t *testing.T) {
	for _, mode := range []framework.WatchMode{framework.WatchPersistent, framework.WatchPersistentRecursive} {
		for kind := range watchers {
			t.Run(kind, func(t *testing.T) {
				onEachBackend(t, func(t *testing.T, server zktest.Backend, f *framework.Framework) {
					server.Requires(t, ensemble.PersistentWatches)
					before := server.Counts(t)
					change := func() { require.NoError(t, f.Set(t.Context(), "/start", nil)) }

					early := watch(t, f, kind, "/start")
					r := record(t, f, "/start", mode)
					early.Cancel()
					change()
					r.expect(t, changed("/start"))

					late := watch(t, f, kind, "/start")
					late.Cancel()
					change()
					r.expect(t, changed("/start"))

					late = watch(t, f, kind, "/start")
					change()
					change()
					r.expect(t, changed("/start"), changed("/start"))
					if kind != "children" {
						require.Equal(t, changed("/start"), fired(t, late))
					} else {
						notFired(t, late)
						late.Cancel()
					}

					staying := watch(t, f, kind, "/start")
					r.Cancel()
					notFired(t, staying)
					require.NoError(t, f.Delete(t.Context(), "/start"))
					require.Equal(t, deleted("/start"), fired(t, staying))
					server.AwaitCounts(t, before, patience)
					require.Zero(t, f.WatchedPaths())
				})
			})
		}
	}
}

// TestPersistentWatchOfBothModesOnOnePath: a server before 3.9 has one mode for each path and table.
func TestPersistentWatchOfBothModesOnOnePath(t *testing.T) {
	onEachBackend(t, func(t *testing.T, server zktest.Backend, f *framework.Framework) {
		server.Requires(t, ensemble.PersistentWatches)
		before := server.Counts(t)
		for _, order := range [][]framework.WatchMode{
			{framework.WatchPersistent, framework.WatchPersistentRecursive},
			{framework.WatchPersistentRecursive, framework.WatchPersistent},
		} {
			var both [2]*recorder
			for _, mode := range order {
				both[mode] = record(t, f, "/w", mode)
			}
			makeChanges(t, f)
			both[framework.WatchPersistent].expect(t, twice(seenPersistently)...)
			both[framework.WatchPersistentRecursive].expect(t, twice(seenRecursively)...)
			both[framework.WatchPersistentRecursive].Cancel() // the other one goes on to be served by it
			makeChanges(t, f)
			both[framework.WatchPersistent].expect(t, twice(seenPersistently)...)
			require.Empty(t, both[framework.WatchPersistentRecursive].events)
			both[framework.WatchPersistent].Cancel()
			server.AwaitCounts(t, before, patience)
		}
	})
}

// TestAddWatchSurvivesFaults breaks the connection at each request that sets a watch,
// those that set it again after a reconnect included.
func TestAddWatchSurvivesFaults(t *testing.T) {
	for name, verdict := range map[string]zkproxy.Verdict{
		"request lost": zkproxy.CutBefore, "reply lost": zkproxy.CutAfter,
	} {
		t.Run(name, func(t *testing.T) {
			zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
				server.Requires(t, ensemble.PersistentWatches)
				other := zktest.Client(t, server.ConnectString())
				mustCreate(t, other, "/start", framework.CreatingParentsIfNeeded())
				f, link := zktest.ClientViaProxy(t, server)
				before := server.Counts(t)
				var requests atomic.Int32
				link.Intercept(func(f zkproxy.Frame) zkproxy.Verdict {
					sets := f.Op == zkproxy.OpAddWatch || f.Op == zkproxy.OpSetWatches2
					if f.Direction == zkproxy.ToServer && sets && requests.Add(1) != 2 && requests.Load() < 5 {
						return verdict
					}
					return zkproxy.Pass
				})
				r := record(t, f, "/start", framework.WatchPersistent) // the first is lost
				require.EqualValues(t, 2, requests.Load())
				link.Cut()
				r.expect(t, resync) // the third and the fourth are lost
				require.EqualValues(t, 5, requests.Load())
				require.NoError(t, other.Set(t.Context(), "/start", nil))
				r.expect(t, changed("/start"))
				r.Cancel()
				server.AwaitCounts(t, before, patience)
			})
		})
	}
}

// TestAddWatchOnAnOldServerThatDoesNotSay costs one connection.
func TestAddWatchOnAnOldServerThatDoesNotSay(t *testing.T) {
	server := zktest.NewServer(t, zkserver.WithVersion("3.5.9"))
	var dials atomic.Int32
	f := zktest.Client(t, server.Addr(), framework.WithDialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
		if dials.Add(1) == 2 {
			return nil, errors.New("srvr is not executed because it is not in the whitelist")
		}
		return new(net.Dialer).DialContext(ctx, network, addr)
	}))
	states := recordStates(f)
	_, err := f.AddWatch(t.Context(), "/", framework.WatchPersistent)
	require.ErrorIs(t, err, framework.ErrUnsupported)
	require.ErrorContains(t, err, "the version of "+server.Addr()+" is older")
	states.expect(t, framework.Suspended, framework.Reconnected)
	_, err = f.AddWatch(t.Context(), "/", framework.WatchPersistent)
	require.ErrorIs(t, err, framework.ErrUnsupported)
	require.NoError(t, f.Sync(t.Context(), "/"))
	states.none(t)
}

// TestPersistentWatchServerThatHangsUpAtAddWatch each time, although its version has the request, costs three connections and one
// line of the log.
func TestPersistentWatchServerThatHangsUpAtAddWatch(t *testing.T) {
	server := zktest.NewServer(t)
	hangsUp := func(r zkserver.Request) zkserver.Fault {
		if r.Op == zkserver.OpAddWatch {
			return zkserver.LoseRequest
		}
		return zkserver.Pass
	}
	var log safeBuffer
	f := zktest.Client(t, server.Addr(), framework.WithRetryPolicy(retry.Forever(time.Millisecond)),
		framework.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	states := recordStates(f)

	remove := server.Intercept(zkserver.Nth(1, zkserver.OpAddWatch, zkserver.LoseRequest))
	w, err := f.AddWatch(t.Context(), "/once", framework.WatchPersistent)
	require.NoError(t, err, "a server may hang up once")
	w.Cancel()
	remove()
	states.expect(t, framework.Suspended, framework.Reconnected)

	remove = server.Intercept(hangsUp)
	defer remove()
	_, err = f.AddWatch(t.Context(), "/w", framework.WatchPersistent)
	require.ErrorIs(t, err, framework.ErrUnsupported)
	for range 3 {
		states.expect(t, framework.Suspended, framework.Reconnected)
	}
	_, err = f.AddWatch(t.Context(), "/w", framework.WatchPersistent)
	require.ErrorIs(t, err, framework.ErrUnsupported)
	require.NoError(t, f.Sync(t.Context(), "/"))
	states.none(t)
	require.NoError(t, f.Close()) // which writes what is in the queue of the log
	require.Equal(t, 1, strings.Count(log.String(), "hangs up each time"), log.String())
}

// TestPersistentWatchEndsOnAnOldServer, to which the client reconnects.
func TestPersistentWatchEndsOnAnOldServer(t *testing.T) {
	modern, old := zktest.NewServer(t), zktest.NewServer(t, zkserver.WithVersion("3.5.9"))
	var target atomic.Pointer[zkserver.Server]
	target.Store(modern)
	f := zktest.Client(t, "a:1", framework.WithDialer(func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, target.Load().Addr())
	}))
	w := must.Get(f.AddWatch(t.Context(), "/", framework.WatchPersistentRecursive))(t)
	admin := zktest.Client(t, old.Addr())
	for range 10 { // or the server would be behind what the client has seen
		mustCreate(t, admin, "/n", framework.WithMode(framework.PersistentSequential))
	}
	target.Store(old)
	require.NoError(t, modern.Close())
	select {
	case <-w.Done():
	case <-time.After(patience):
		require.FailNow(t, "the watch has not ended")
	}
	require.ErrorIs(t, w.Err(), framework.ErrUnsupported)
	require.ErrorContains(t, w.Err(), "add watch /: ")
	require.NoError(t, f.BlockUntilConnected(t.Context()))
}

func TestAddWatchErrors(t *testing.T) {
	f := unstarted(t)
	for want, call := range map[string]func() error{
		"watch mode 7":    func() error { _, err := f.AddWatch(t.Context(), "/", 7); return err },
		"watch mode -1":   func() error { _, err := f.AddWatch(t.Context(), "/", -1); return err },
		"invalid path":    func() error { _, err := f.AddWatch(t.Context(), "a", framework.WatchPersistent); return err },
		"not started":     func() error { _, err := f.AddWatch(t.Context(), "/", framework.WatchPersistent); return err },
		"add watch /a/b:": func() error { _, err := f.AddWatch(t.Context(), "/a/b", framework.WatchPersistent); return err },
	} {
		require.ErrorContains(t, call(), want)
	}
	var none *framework.PersistentWatch
	none.Cancel()
}
