// SPDX-License-Identifier: Apache-2.0

package cache_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/cache"
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
		client := zktest.Client(t, server)
		create(t, client, "/tree/a", "1")
		c := newCache(t, client, "/tree")
		start(t, c)
		require.NoError(t, server.Stop())
		time.Sleep(5 * time.Minute)
		require.Equal(t, framework.Lost, client.State())
		require.Equal(t, map[string]string{"/tree": "", "/tree/a": "1"}, picture(c), "it stays what it was")
		require.NoError(t, server.Restart())
		zktest.AwaitState(t, client, framework.Reconnected)
		create(t, client, "/tree/b", "2")
		fresh(t, c)
		require.Equal(t, map[string]string{"/tree": "", "/tree/a": "1", "/tree/b": "2"}, picture(c))
		require.NoError(t, c.Close())
	})
}

// The servers remove the root, an empty container, and it is created again.
func TestPathChildrenCache_testParentContainerMissing(t *testing.T) {
	for _, version := range []string{"3.8.0", old} {
		t.Run(version, func(t *testing.T) {
			client := zktest.Client(t, zktest.NewServer(t, zkserver.WithVersion(version), zkserver.WithContainerCheckInterval(10*time.Millisecond)))
			c := newCache(t, client, "/parent/folder")
			told := listenTo(c, cache.AfterInitialized())
			start(t, c)
			for range 2 {
				must.Get(client.Create(t.Context(), "/parent/folder/node", nil, framework.CreatingParentContainersIfNeeded()))(t)
				require.NoError(t, c.WaitFor(zktest.Context(t), func(c *cache.CuratorCache) bool { return c.Size() == 2 }))
				remove(t, client, "/parent/folder/node")
				require.NoError(t, c.WaitFor(zktest.Context(t), func(c *cache.CuratorCache) bool { return c.Size() == 0 }))
			}
			told.expect(t, "INITIALIZED")
			for range 2 {
				told.expect(t, "NODE_CREATED /parent/folder +", "NODE_CREATED /parent/folder/node +",
					"NODE_DELETED /parent/folder/node -", "NODE_DELETED /parent/folder -")
			}
		})
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

// A znode that may not be read is left out, and no reason to stop.
func TestScenarioCacheWithoutRights(t *testing.T) {
	eachWatching(t, func(t *testing.T, server zktest.Backend) {
		client := zktest.Client(t, server)
		create(t, client, "/tree/open", "1")
		must.Get(client.Create(t.Context(), "/tree/secret", []byte("2"), framework.WithACL(zk.WorldACL(zk.PermAll&^zk.PermRead)...)))(t)
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
