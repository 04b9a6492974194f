// SPDX-License-Identifier: Apache-2.0

package cache_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/cache"
	"github.com/gocurator/curator/testing/ensemble"
	"github.com/gocurator/curator/testing/zkproxy"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// The tests of this file have the names of Curator's, and test what those do.

func TestCuratorCache_testListenerBuilder(t *testing.T) {
	eachWatching(t, func(t *testing.T, server zktest.Backend) {
		client := zktest.Client(t, server)
		c := newCache(t, client, "/test")
		all := listenTo(c)
		creates := listenTo(c, cache.For(cache.NodeCreated))
		changes := listenTo(c, cache.For(cache.NodeChanged))
		deletes := listenTo(c, cache.For(cache.NodeDeleted))
		both := listenTo(c, cache.For(cache.NodeCreated), cache.For(cache.NodeDeleted))
		initialized := listenTo(c, cache.For(cache.Initialized))
		below := listenTo(c, cache.WithPathFilter(func(path string) bool { return strings.HasPrefix(path, "/test/") }))
		start(t, c)
		create(t, client, "/test", "1")
		fresh(t, c)
		set(t, client, "/test", "2")
		fresh(t, c)
		create(t, client, "/test/child", "3")
		fresh(t, c)
		remove(t, client, "/test/child")
		fresh(t, c)
		all.expect(t, "INITIALIZED", "NODE_CREATED /test +1", "NODE_CHANGED /test -1 +2", "NODE_CREATED /test/child +3", "NODE_DELETED /test/child -3")
		creates.expect(t, "NODE_CREATED /test +1", "NODE_CREATED /test/child +3")
		changes.expect(t, "NODE_CHANGED /test -1 +2")
		deletes.expect(t, "NODE_DELETED /test/child -3")
		both.expect(t, "NODE_CREATED /test +1", "NODE_CREATED /test/child +3", "NODE_DELETED /test/child -3")
		initialized.expect(t, "INITIALIZED")
		below.expect(t, "INITIALIZED", "NODE_CREATED /test/child +3", "NODE_DELETED /test/child -3")
		for _, r := range []*record{all, creates, changes, deletes, both, initialized, below} {
			r.none(t)
		}
	})
}

func TestCuratorCache_testAfterInitialized(t *testing.T) {
	eachWatching(t, func(t *testing.T, server zktest.Backend) {
		client := zktest.Client(t, server)
		create(t, client, "/test/one", "1")
		c := newCache(t, client, "/test")
		later := listenTo(c, cache.AfterInitialized())
		start(t, c)
		create(t, client, "/test/two", "2")
		fresh(t, c)
		later.expect(t, "INITIALIZED", "NODE_CREATED /test/two +2")
		later.none(t)

		atOnce := listenTo(c, cache.AfterInitialized()) // it is initialized
		create(t, client, "/test/three", "3")
		fresh(t, c)
		atOnce.expect(t, "NODE_CREATED /test/three +3")
	})
}

func TestCuratorCache_testUpdateWhenNotCachingData(t *testing.T) {
	eachWatching(t, func(t *testing.T, server zktest.Backend) {
		client := zktest.Client(t, server)
		c := newCache(t, client, "/test", cache.WithStorage(cache.NewStorageWithoutData()))
		told := listenTo(c, cache.AfterInitialized())
		start(t, c)
		create(t, client, "/test", "first")
		fresh(t, c)
		set(t, client, "/test", "second")
		fresh(t, c)
		told.expect(t, "INITIALIZED", "NODE_CREATED /test +first", "NODE_CHANGED /test - +second")
		require.Equal(t, map[string]string{"/test": ""}, picture(c))
	})
}

func TestCuratorCache_testClearOnClose(t *testing.T) {
	eachWatching(t, func(t *testing.T, server zktest.Backend) {
		client := zktest.Client(t, server)
		create(t, client, "/test/one", "1")
		kept, cleared := cache.NewStandardStorage(), cache.NewStandardStorage()
		for storage, opts := range map[cache.CuratorCacheStorage][]cache.Option{
			kept: {cache.DoNotClearOnClose()}, cleared: nil,
		} {
			c := newCache(t, client, "/test", append(opts, cache.WithStorage(storage))...)
			told := listenTo(c, cache.AfterInitialized())
			start(t, c)
			require.Equal(t, 2, storage.Size())
			require.NoError(t, c.Close())
			told.expect(t, "INITIALIZED")
			told.none(t)
		}
		require.Equal(t, 2, kept.Size())
		require.Zero(t, cleared.Size())
	})
}

// A cache of more children than Curator's phaser could count (CURATOR-690).
//
// CURATOR-690: no INITIALIZED above 64k children.
func TestCuratorCache_testGreaterThan64kZNodes(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("66,000 znodes take seconds; without -short")
	}
	client := zktest.Client(t, zktest.NewServer(t).Addr())
	create(t, client, "/test", "")
	const children, perTransaction = 66_000, 1000
	for i := 0; i < children; i += perTransaction {
		ops := make([]framework.Op, 0, perTransaction)
		for j := range perTransaction {
			ops = append(ops, framework.CreateOp(fmt.Sprintf("/test/%05d", i+j), nil))
		}
		_, err := client.Transact(t.Context(), ops...)
		require.NoError(t, err)
	}
	c := newCache(t, client, "/test")
	told := listenTo(c, cache.For(cache.Initialized))
	start(t, c)
	told.expect(t, "INITIALIZED")
	require.Equal(t, children+1, c.Size())
}

// After a partition the listeners get what has changed in sum.
//
// CURATOR-391: a znode deleted and created again during a partition.
func TestCuratorCacheEdges_testReconnectConsistency(t *testing.T) {
	inBubbles(t, func(t *testing.T, server *zkserver.Server) {
		client, writer := zktest.Client(t, server), zktest.Client(t, server)
		reconnectConsistency(t, client, writer, func() (back func()) {
			allow := server.Refuse()
			server.Cut(client.Session().ID(), 1)
			return allow
		})
	})
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		link := zktest.NewProxy(t, server)
		client, writer := zktest.Client(t, server.ConnectStringVia(link.Addr())), zktest.Client(t, server)
		reconnectConsistency(t, client, writer, func() (back func()) {
			link.Refuse(true)
			link.Cut()
			return func() { link.Refuse(false) }
		})
	})
}

func reconnectConsistency(t *testing.T, client, writer *framework.Framework, leave func() (back func())) {
	t.Helper()
	for path, data := range map[string]string{"/tree/changed": "1", "/tree/deleted/child": "2", "/tree/same": "3", "/tree/again": "4"} {
		create(t, writer, path, data)
	}
	c := newCache(t, client, "/tree")
	start(t, c)
	told := listenTo(c)
	back := leave()
	change(t, writer)
	back()
	fresh(t, c)
	require.Equal(t, changed, picture(c))
	told.expectAll(t, changes...)
	told.none(t)
	require.NoError(t, c.Close())
}

// change changes the tree of testReconnectConsistency.
func change(t *testing.T, writer *framework.Framework) {
	t.Helper()
	set(t, writer, "/tree/changed", "5")
	remove(t, writer, "/tree/deleted")
	create(t, writer, "/tree/new/child", "6")
	remove(t, writer, "/tree/again")
	create(t, writer, "/tree/again", "7") // the same version
}

// What the picture is then, and what listeners are told.
var (
	changed = map[string]string{
		"/tree": "", "/tree/changed": "5", "/tree/same": "3", "/tree/again": "7", "/tree/new": "", "/tree/new/child": "6",
	}
	changes = []string{
		"NODE_CHANGED /tree/changed -1 +5", "NODE_DELETED /tree/deleted -", "NODE_DELETED /tree/deleted/child -2",
		"NODE_CREATED /tree/new +", "NODE_CREATED /tree/new/child +6",
		"NODE_CHANGED /tree/again -4 +7",
	}
)

// Curator's test has a second cache on the storage that a closed one has kept. Its listeners
// are told what has changed in between.
func TestScenarioSecondCacheOnAStorageThatWasKept(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		client := zktest.Client(t, server)
		for path, data := range map[string]string{"/tree/changed": "1", "/tree/deleted/child": "2", "/tree/same": "3", "/tree/again": "4"} {
			create(t, client, path, data)
		}
		storage := cache.NewStandardStorage()
		first := newCache(t, client, "/tree", cache.WithStorage(storage), cache.DoNotClearOnClose())
		start(t, first)
		require.NoError(t, first.Close())
		change(t, client)

		second := newCache(t, client, "/tree", cache.WithStorage(storage))
		told := listenTo(second)
		start(t, second)

		require.Equal(t, changed, picture(second))
		told.expectAll(t, append([]string{"INITIALIZED"}, changes...)...)
		told.none(t)
	})
}

// While no server runs the picture stays as it was.
func TestCuratorCacheEdges_testServerLoss(t *testing.T) {
	inBubbles(t, func(t *testing.T, server *zkserver.Server) {
		serverLoss(t, zktest.Client(t, server), server.Stop, func() error {
			time.Sleep(5 * time.Minute)
			return server.Restart()
		})
	})
	if testing.Short() {
		return // real servers take seconds
	}
	t.Run("zookeeper", func(t *testing.T) {
		servers := zktest.NewEnsemble(t, 1)
		server := servers.Server(0)
		serverLoss(t, zktest.Client(t, servers), server.Kill, func() error { return server.Restart(zktest.Context(t)) })
	})
}

func serverLoss(t *testing.T, client *framework.Framework, stop, restart func() error) {
	t.Helper()
	create(t, client, "/tree/a", "1")
	c := newCache(t, client, "/tree")
	start(t, c)
	require.NoError(t, stop())
	zktest.AwaitState(t, client, framework.Suspended, framework.Lost)
	require.Equal(t, map[string]string{"/tree": "", "/tree/a": "1"}, picture(c), "it stays what it was")
	require.NoError(t, restart())
	zktest.AwaitState(t, client, framework.Reconnected)
	create(t, client, "/tree/b", "2")
	fresh(t, c)
	require.Equal(t, map[string]string{"/tree": "", "/tree/a": "1", "/tree/b": "2"}, picture(c))
	require.NoError(t, c.Close())
}

// Ten clients run random operations while servers die, and each has a cache. At the end every
// picture equals the tree, and so does what every listener was told.
func TestCuratorCacheConsistency_testConsistencyAfterSimulation(t *testing.T) {
	t.Parallel()
	t.Run("zkserver", func(t *testing.T) {
		server := zktest.NewServer(t)
		simulate(t, server.Addr(), 0, func(round int) {
			sessions := server.Sessions()
			server.Cut(sessions[round%len(sessions)].ID, 1)
		})
	})
	if testing.Short() {
		return // real servers take seconds
	}
	t.Run("zookeeper", func(t *testing.T) {
		servers := zktest.NewEnsemble(t, 3)
		simulate(t, servers.ConnectString(), 50*time.Millisecond, func(round int) {
			server := servers.Server(round % 3)
			require.NoError(t, servers.AwaitSync(zktest.Context(t)))
			require.NoError(t, server.Kill())
			require.NoError(t, server.Restart(zktest.Context(t)))
		})
	})
}

// simulate has clients write at random, with a pause after each write, and hurts them in rounds.
func simulate(t *testing.T, servers string, pause time.Duration, hurt func(round int)) {
	t.Helper()
	const clients, rounds = 10, 3
	reader := zktest.Client(t, servers)
	create(t, reader, "/tree", "")
	type follower struct {
		cache *cache.CuratorCache
		told  *record
	}
	var followers []follower
	stop, done := make(chan struct{}), make(chan int, clients)
	for i := range clients {
		client := zktest.Client(t, servers)
		c := newCache(t, client, "/tree")
		followers = append(followers, follower{c, listenTo(c)})
		require.NoError(t, c.Start())
		go func() { done <- randomWrites(t.Context(), client, uint64(i), pause, stop) }()
	}
	for round := range rounds {
		hurt(round)
		require.NoError(t, reader.Sync(zktest.Context(t), "/tree"))
	}
	close(stop)
	written := 0
	for range clients {
		written += zktest.Await(t, done, "a writer")
	}
	require.Positive(t, written)
	require.NoError(t, reader.Sync(zktest.Context(t), "/tree"))
	want := map[string]int64{}
	for _, path := range names {
		stat, err := reader.Exists(zktest.Context(t), path)
		require.NoError(t, err)
		if stat != nil {
			want[path] = stat.Mzxid
		}
	}
	for _, f := range followers {
		fresh(t, f.cache)
		shown := map[string]int64{}
		for path, data := range f.cache.Stream() {
			shown[path] = data.Stat.Mzxid
		}
		require.Equal(t, want, shown, "the picture")
		requireReplay(t, f.told, want)
	}
}

// randomWrites makes random writes until it is stopped, and returns how many have succeeded.
func randomWrites(ctx context.Context, client *framework.Framework, seed uint64, pause time.Duration, stop <-chan struct{}) (written int) {
	rng := rand.New(rand.NewPCG(seed, 1))
	for n := 0; ; n++ {
		select {
		case <-stop:
			return written
		case <-time.After(pause):
		}
		path := names[rng.IntN(len(names))]
		// No two states have the same data: after an election an equal state is told to no listener.
		data := fmt.Appendf(nil, "%d.%d", seed, n)
		var err error
		switch rng.IntN(4) {
		case 0, 1:
			_, err = client.Create(ctx, path, data)
		case 2:
			err = client.Set(ctx, path, data)
		default:
			err = client.Delete(ctx, path)
		}
		if err == nil {
			written++
		}
	}
}

// requireReplay replays what a listener was told: of each path states in order, none twice,
// and at the end the tree.
func requireReplay(t *testing.T, told *record, want map[string]int64) {
	t.Helper()
	at, newest := map[string]int64{}, map[string]int64{}
	for !maps.Equal(at, want) || len(told.events) > 0 {
		e := zktest.Await(t, told.events, "the events up to the tree at the end")
		switch e.Type {
		case cache.NodeDeleted:
			require.Contains(t, at, e.Path, line(e))
			delete(at, e.Path)
		case cache.NodeCreated, cache.NodeChanged:
			_, found := at[e.Path]
			require.Equal(t, e.Type == cache.NodeChanged, found, line(e))
			require.Greater(t, e.New.Stat.Mzxid, newest[e.Path], line(e))
			at[e.Path], newest[e.Path] = e.New.Stat.Mzxid, e.New.Stat.Mzxid
		default:
		}
	}
}

// Events of a path alternate as they must while it is created and deleted as fast as possible.
func TestEventOrdering_testEventOrdering(t *testing.T) {
	eachWatching(t, func(t *testing.T, server zktest.Backend) {
		client := zktest.Client(t, server)
		create(t, client, "/tree", "")
		c := newCache(t, client, "/tree")
		told := listenTo(c, cache.AfterInitialized())
		start(t, c)
		const writers, rounds = 4, 25
		done := make(chan error, writers)
		for i := range writers {
			writer := zktest.Client(t, server)
			go func() {
				path := fmt.Sprintf("/tree/%d", i)
				for range rounds {
					if _, err := writer.Create(t.Context(), path, nil); err != nil {
						done <- err
						return
					}
					if err := writer.Delete(t.Context(), path); err != nil {
						done <- err
						return
					}
				}
				_, err := writer.Create(t.Context(), path, nil)
				done <- err
			}()
		}
		for range writers {
			require.NoError(t, zktest.Await(t, done, "a writer"))
		}
		fresh(t, c)
		require.Equal(t, writers+1, c.Size())
		create(t, client, "/tree/last", "")
		there := map[string]bool{}
		for {
			e := zktest.Await(t, told.events, "the next event")
			if e.Path == "/tree/last" {
				break
			}
			switch e.Type {
			case cache.NodeCreated:
				require.False(t, there[e.Path], "%s twice", line(e))
				there[e.Path] = true
			case cache.NodeDeleted:
				require.True(t, there[e.Path], "%s of what is not there", line(e))
				there[e.Path] = false
			default:
			}
		}
		for i := range writers {
			require.True(t, there[fmt.Sprintf("/tree/%d", i)])
		}
	})
}

// The servers remove the root, an empty container, and it is created again.
func TestPathChildrenCache_testParentContainerMissing(t *testing.T) {
	for _, version := range []string{"3.8.0", old} {
		t.Run(version, func(t *testing.T) {
			server := zktest.NewServer(t, zkserver.WithVersion(version), zkserver.WithContainerCheckInterval(10*time.Millisecond))
			parentContainerMissing(t, zktest.Client(t, server))
		})
	}
	if testing.Short() {
		return // real servers take seconds
	}
	t.Run("zookeeper", func(t *testing.T) {
		parentContainerMissing(t, zktest.Client(t, zktest.NewEnsemble(t, 1, ensemble.WithContainerCheckInterval(50*time.Millisecond))))
	})
}

func parentContainerMissing(t *testing.T, client *framework.Framework) {
	t.Helper()
	c := newCache(t, client, "/parent/folder")
	told := listenTo(c, cache.AfterInitialized())
	start(t, c)
	for range 2 {
		_, err := client.Create(t.Context(), "/parent/folder/node", nil, framework.CreatingParentContainersIfNeeded())
		require.NoError(t, err)
		require.NoError(t, c.WaitFor(zktest.Context(t), func(c *cache.CuratorCache) bool { return c.Size() == 2 }))
		remove(t, client, "/parent/folder/node")
		require.NoError(t, c.WaitFor(zktest.Context(t), func(c *cache.CuratorCache) bool { return c.Size() == 0 }))
	}
	told.expect(t, "INITIALIZED")
	for range 2 {
		told.expect(t, "NODE_CREATED /parent/folder +", "NODE_CREATED /parent/folder/node +",
			"NODE_DELETED /parent/folder/node -", "NODE_DELETED /parent/folder -")
	}
}

// A child that was listed is gone when it is read (CURATOR-476).
//
// CURATOR-476: no INITIALIZED if a child goes.
func TestPathChildrenCache_testInitializedEvenIfChildDeleted(t *testing.T) {
	eachWatching(t, func(t *testing.T, server zktest.Backend) {
		link := zktest.NewProxy(t, server)
		client, writer := zktest.Client(t, server.ConnectStringVia(link.Addr())), zktest.Client(t, server)
		create(t, writer, "/tree/stays", "")
		create(t, writer, "/tree/goes", "")
		const getData = 4
		reached, release := make(chan struct{}), make(chan struct{})
		hold := sync.OnceFunc(func() {
			close(reached)
			<-release
		})
		link.Intercept(func(f zkproxy.Frame) zkproxy.Verdict {
			if f.Kind == zkproxy.Request && f.Op == getData && strings.HasSuffix(f.Path, "/goes") {
				hold()
			}
			return zkproxy.Pass
		})
		c := newCache(t, client, "/tree")
		told := listenTo(c)
		require.NoError(t, c.Start())
		zktest.Await(t, reached, "the read of a child that was listed")
		remove(t, writer, "/tree/goes")
		close(release)
		told.expect(t, "NODE_CREATED /tree +", "NODE_CREATED /tree/stays +", "INITIALIZED")
		require.Equal(t, 2, c.Size())
	})
}

func TestPathChildrenCache_testKilledSession(t *testing.T) { testKilledSession(t, "/test") }
func TestTreeCache_testKilledSession(t *testing.T)         { testKilledSession(t, "/") }

func testKilledSession(t *testing.T, root string) {
	t.Helper()
	eachWatching(t, func(t *testing.T, server zktest.Backend) {
		client := zktest.Client(t, server)
		create(t, client, "/test/foo", "foo")
		c := started(t, client, root)
		told := listenTo(c)
		_, err := client.Create(t.Context(), "/test/me", []byte("data"), framework.WithMode(framework.Ephemeral))
		require.NoError(t, err)
		told.expect(t, "NODE_CREATED /test/me +data")
		zktest.KillSession(t, client)
		told.expect(t, "NODE_DELETED /test/me -data")
		create(t, client, "/test/after", "")
		told.expect(t, "NODE_CREATED /test/after +")
	})
}

func TestNodeCache_testKilledSession(t *testing.T) {
	eachWatching(t, func(t *testing.T, server zktest.Backend) {
		client, writer := zktest.Client(t, server), zktest.Client(t, server)
		create(t, writer, "/test/node", "start")
		c := started(t, client, "/test/node", cache.SingleNodeCache())
		told := listenTo(c)
		zktest.KillSession(t, client)
		set(t, writer, "/test/node", "new data") // a write of client could be lost with its connection
		told.expect(t, "NODE_CHANGED /test/node -start +new data")
	})
}

func TestTreeCache_testServerNotStartedYet(t *testing.T) {
	inBubbles(t, func(t *testing.T, server *zkserver.Server) {
		writer := zktest.Client(t, server)
		defer zktest.AwaitState(t, writer, framework.Reconnected) // or its session is left
		create(t, writer, "/test/one", "1")
		require.NoError(t, server.Stop())
		client, err := framework.New("memory:2181", framework.WithDialer(server.Dial))
		require.NoError(t, err)
		defer client.Close()
		c := newCache(t, client, "/test")
		told := listenTo(c)
		require.NoError(t, c.Start())
		time.Sleep(time.Minute)
		require.NoError(t, client.Start())
		time.Sleep(time.Minute)
		require.NoError(t, server.Restart())
		told.expect(t, "NODE_CREATED /test +", "NODE_CREATED /test/one +1", "INITIALIZED")
		require.NoError(t, c.Close())
	})
}

// A cache whose client is closed under it, or that is closed while it works, ends, and leaves
// no goroutine for goleak to find (CURATOR-729).
func TestPersistentWatcher_testConcurrentClientClose(t *testing.T) {
	for _, version := range []string{"3.8.0", old} {
		t.Run(version, func(t *testing.T) {
			server := zktest.NewServer(t, zkserver.WithVersion(version))
			writer := zktest.Client(t, server)
			create(t, writer, "/tree/a", "")
			for i := range 20 {
				client := zktest.Client(t, server)
				c := newCache(t, client, "/tree")
				require.NoError(t, c.Start())
				if i%2 == 0 {
					fresh(t, c)
				}
				closed := make(chan error, 1)
				go func() { closed <- c.Close() }()
				client.Close()
				require.NoError(t, zktest.Await(t, closed, "the end of the cache"))
			}
		})
	}
}

// CURATOR-729: a watcher that goes on after the client is closed.
func TestPersistentWatcher_testAfterClientClose(t *testing.T) {
	server := zktest.NewServer(t)
	client := zktest.Client(t, server)
	client.Close()
	c := newCache(t, client, "/tree")
	require.NoError(t, c.Start())
	require.ErrorIs(t, c.WaitFor(zktest.Context(t), func(*cache.CuratorCache) bool { return false }), framework.ErrClosed)
}

// A znode that may not be read is left out, and no reason to stop.
func TestScenarioCacheWithoutRights(t *testing.T) {
	eachWatching(t, func(t *testing.T, server zktest.Backend) {
		client := zktest.Client(t, server)
		create(t, client, "/tree/open", "1")
		_, err := client.Create(t.Context(), "/tree/secret", []byte("2"), framework.WithACL(zk.WorldACL(zk.PermAll&^zk.PermRead)...))
		require.NoError(t, err)
		create(t, client, "/tree/secret/child", "3")
		c := started(t, client, "/tree")
		require.Equal(t, "1", picture(c)["/tree/open"])
		require.NotContains(t, picture(c), "/tree/secret")
		require.NoError(t, client.Delete(t.Context(), "/tree/secret/child"))
		require.NoError(t, client.Delete(t.Context(), "/tree/secret"))
		create(t, client, "/tree/secret", "4")
		fresh(t, c)
		require.Equal(t, map[string]string{"/tree": "", "/tree/open": "1", "/tree/secret": "4"}, picture(c))
	})
}
