// SPDX-License-Identifier: Apache-2.0

package cache_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/cache"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// limited is a cache with limits, and what it keeps of a tree.
type limited struct {
	name  string
	opts  []cache.Option
	keeps func(path string) bool
	lists func(path string) bool // among the paths that it keeps, and /tree
}

func levels(path string) int { return strings.Count(path, "/") - 1 } // below /tree

// skips leaves out znodes named b, and goes into no znode named y.
var skips = cache.TreeCacheSelector{
	TraverseChildren: func(path string) bool { return !strings.HasSuffix(path, "/y") },
	AcceptChild:      func(path string) bool { return !strings.HasSuffix(path, "/b") },
}

// isSkipped reports whether skips leaves a path out.
func isSkipped(path string) bool {
	names := strings.Split(strings.TrimPrefix(path, "/tree/"), "/")
	return slices.Contains(names, "b") || slices.Contains(names[:len(names)-1], "y")
}

// allLimits are all kinds of limits.
var allLimits = []limited{
	{"all", nil, func(string) bool { return true }, func(string) bool { return true }},
	{
		"a single node",
		[]cache.Option{cache.SingleNodeCache()},
		func(path string) bool { return path == "/tree" }, func(string) bool { return false },
	},
	{
		"depth 0",
		[]cache.Option{cache.WithMaxDepth(0)},
		func(path string) bool { return path == "/tree" }, func(string) bool { return false },
	},
	{
		"depth 1",
		[]cache.Option{cache.WithMaxDepth(1)},
		func(path string) bool { return levels(path) <= 1 }, func(path string) bool { return path == "/tree" },
	},
	{
		"depth 2",
		[]cache.Option{cache.WithMaxDepth(2)},
		func(path string) bool { return levels(path) <= 2 }, func(path string) bool { return levels(path) <= 1 },
	},
	{
		"children only",
		[]cache.Option{cache.WithChildrenOnly()},
		func(path string) bool { return levels(path) == 1 }, func(path string) bool { return path == "/tree" },
	},
	{
		"a selector",
		[]cache.Option{cache.WithSelector(skips)},
		func(path string) bool { return !isSkipped(path) }, skips.TraverseChildren,
	},
	{
		"a selector and depth 2",
		[]cache.Option{cache.WithSelector(skips), cache.WithMaxDepth(2)},
		func(path string) bool { return !isSkipped(path) && levels(path) <= 2 },
		func(path string) bool { return skips.TraverseChildren(path) && levels(path) <= 1 },
	},
	{
		"selected children only",
		[]cache.Option{cache.WithChildrenOnly(), cache.WithSelector(skips)},
		func(path string) bool { return !isSkipped(path) && levels(path) == 1 }, func(path string) bool { return path == "/tree" },
	},
	{
		"a selector of nothing",
		[]cache.Option{cache.WithChildrenOnly(), cache.WithSelector(cache.TreeCacheSelector{TraverseChildren: func(string) bool { return false }})},
		func(string) bool { return false }, func(string) bool { return false },
	},
}

// everywhere are paths of /tree that each of allLimits divides in its own way.
var everywhere = []string{
	"/tree", "/tree/a", "/tree/a/b", "/tree/a/b/x", "/tree/a/x", "/tree/a/x/y", "/tree/b", "/tree/b/x", "/tree/y", "/tree/y/x",
}

// of returns what a cache keeps of a picture of the whole tree.
func (l limited) of(tree map[string]string) map[string]string {
	kept := maps.Clone(tree)
	maps.DeleteFunc(kept, func(path, _ string) bool { return !l.keeps(path) })
	return kept
}

// mayRead reports whether a cache may make a request: for what it keeps, and for the path of the
// cache, whose data it does not read if it does not keep it.
func (l limited) mayRead(r zkserver.Request) bool {
	switch r.Op {
	case zkserver.OpGetData, zkserver.OpMultiRead:
		return !slices.ContainsFunc(append(r.Reads, r.Path), func(path string) bool { return path != "" && !l.keeps(path) })
	case zkserver.OpExists:
		return r.Path == "/tree" || l.keeps(r.Path)
	case zkserver.OpGetChildren, zkserver.OpGetChildren2:
		return (r.Path == "/tree" || l.keeps(r.Path)) && l.lists(r.Path)
	default:
		return true
	}
}

// watchReads returns a function that returns the requests that a cache must not make, so far,
// among those of all clients but the writer.
func (l limited) watchReads(tb testing.TB, server *zkserver.Server, writer *framework.Framework) (forbidden func() []string) {
	tb.Helper()
	var found []string
	tb.Cleanup(server.Intercept(func(r zkserver.Request) zkserver.Fault {
		if r.SessionID != writer.Session().ID() && !l.mayRead(r) {
			found = append(found, fmt.Sprint(r.Op, r.Path, r.Reads))
		}
		return zkserver.Pass
	}))
	return func() []string { return found }
}

// The picture is the part of the tree that the limits select, through changes, while the
// connection is lost, and when the whole tree goes and comes again. Nothing else is read.
func TestLimits(t *testing.T) {
	for _, l := range allLimits {
		t.Run(l.name, func(t *testing.T) {
			inBubbles(t, func(t *testing.T, server *zkserver.Server) {
				client, writer := zktest.Client(t, server), zktest.Client(t, server)
				forbidden := l.watchReads(t, server, writer)
				tree := map[string]string{}
				change := func(data string) {
					for _, path := range everywhere {
						if _, found := tree[path]; found {
							set(t, writer, path, data)
						} else {
							create(t, writer, path, data)
						}
						tree[path] = data
					}
				}
				drop := func(folder string) {
					remove(t, writer, folder)
					maps.DeleteFunc(tree, func(path, _ string) bool { return strings.HasPrefix(path+"/", folder+"/") })
				}
				c := newCache(t, client, "/tree", l.opts...)
				told := listenTo(c)
				judge := func() {
					fresh(t, c)
					require.Equal(t, l.of(tree), picture(c))
					require.Equal(t, l.of(tree), replay(told))
				}
				require.NoError(t, c.Start())
				judge()
				for _, data := range []string{"1", "2"} {
					change(data)
					judge()
					drop("/tree/a")
					judge()
					change(data + "again")

					allow := server.Refuse()
					server.Cut(client.Session().ID(), 1)
					change(data + "unseen")
					drop("/tree/b")
					drop("/tree/a/x")
					allow()
					judge()

					drop("/tree")
					judge()
				}
				require.NoError(t, c.Close())
				require.Empty(t, forbidden())
			})
		})
	}
}

// replay does what a listener was told, and returns the picture that results.
func replay(r *record) map[string]string {
	synctest.Wait()
	for len(r.events) > 0 {
		e := <-r.events
		switch e.Type {
		case cache.NodeCreated, cache.NodeChanged:
			r.shown[e.Path] = string(e.New.Data)
		case cache.NodeDeleted:
			delete(r.shown, e.Path)
		case cache.Initialized:
		}
	}
	return r.shown
}

// A recursive watch shows the changes of what the cache does not keep. They cost no request.
func TestLimitsChangesThatAreNotKeptCostNoRequest(t *testing.T) {
	for _, l := range allLimits {
		t.Run(l.name, func(t *testing.T) {
			inBubbles(t, func(t *testing.T, server *zkserver.Server) {
				client, writer := zktest.Client(t, server), zktest.Client(t, server)
				for _, path := range everywhere {
					create(t, writer, path, "")
				}
				c := started(t, client, "/tree", l.opts...)
				requests := countRequests(t, server, client)
				for _, path := range everywhere {
					if l.keeps(path) {
						continue
					}
					set(t, writer, path, "new")
					if !l.keeps(path + "/new") {
						create(t, writer, path+"/new", "")
						remove(t, writer, path+"/new")
					}
				}
				fresh(t, c)
				synctest.Wait()
				want := map[zkserver.OpCode]int{zkserver.OpSync: 1}
				got := requests.take()
				if !l.keeps("/tree") && strings.HasSuffix(t.Name(), old) {
					want[zkserver.OpExists] = 1 // its one-shot watch, which shows when /tree goes, has ended
				}
				require.Equal(t, want, got)
				require.NoError(t, c.Close())
			})
		})
	}
}

// The children of a path come from the table of its folder: with data, by name, of every storage.
func TestChildren(t *testing.T) {
	server := zktest.NewServer(t)
	client := zktest.Client(t, server)
	for _, path := range everywhere {
		create(t, client, path, "data of "+path)
	}
	for name, storage := range map[string]cache.CuratorCacheStorage{
		"standard": cache.NewStandardStorage(), "the caller's": &callersStorage{CuratorCacheStorage: cache.NewStandardStorage()},
	} {
		t.Run(name, func(t *testing.T) {
			c := started(t, client, "/", cache.WithStorage(storage))
			for path, want := range map[string][]string{
				"/tree": {"a", "b", "y"}, "/tree/a": {"b", "x"}, "/tree/a/x/y": nil, "/tree/missing": nil, "/": {"tree", "zookeeper"},
				"": nil, "/tree/": nil, "tree": nil, "/tre": nil,
			} {
				var names []string
				for name, data := range c.Children(path) {
					require.Equal(t, framework.JoinPath(path, name), data.Path)
					got, found := c.Get(data.Path)
					require.True(t, found)
					require.Equal(t, got, data)
					names = append(names, name)
				}
				require.ElementsMatch(t, want, names, path)
			}
			for range c.Children("/tree") {
				break
			}
			require.NoError(t, c.Close())
			require.Empty(t, maps.Collect(c.Children("/tree")))
		})
	}
}

// The path itself is not in the picture of a cache of its children.
func TestChildrenOfACacheOfChildren(t *testing.T) {
	eachWatching(t, func(t *testing.T, server zktest.Backend) {
		client := zktest.Client(t, server)
		before := server.Counts(t)
		for _, path := range everywhere {
			create(t, client, path, path)
		}
		c := started(t, client, "/tree", cache.WithChildrenOnly())
		require.ElementsMatch(t, []string{"a", "b", "y"}, slices.Collect(maps.Keys(maps.Collect(c.Children("/tree")))))
		require.Equal(t, map[string]string{"/tree/a": "/tree/a", "/tree/b": "/tree/b", "/tree/y": "/tree/y"}, picture(c))
		remove(t, client, "/tree")
		fresh(t, c)
		require.Empty(t, picture(c))
		create(t, client, "/tree/c/d", "1")
		fresh(t, c)
		require.Equal(t, map[string]string{"/tree/c": ""}, picture(c))
		remove(t, client, "/tree")
		require.NoError(t, c.Close())
		server.AwaitCounts(t, before, limit)
	})
}

// callersStorage is a storage that is not the package's.
type callersStorage struct{ cache.CuratorCacheStorage }

// misbehavingAt is a function of a selector that accepts all paths, and misbehaves at one.
func misbehavingAt(at string, misbehave func()) func(string) bool {
	return func(path string) bool {
		if path == at {
			misbehave()
		}
		return true
	}
}

// A selector that panics costs what it was asked about, and the log says so.
func TestLimitsPanicOfASelectorCostsItsElement(t *testing.T) {
	panicky := func(at string) func(string) bool { return misbehavingAt(at, misbehaving["panic"]) }
	exiting := func(at string) func(string) bool { return misbehavingAt(at, misbehaving["Goexit"]) }
	for name, test := range map[string]struct {
		selector cache.TreeCacheSelector
		want     []string
	}{
		"accepting":  {cache.TreeCacheSelector{AcceptChild: panicky("/tree/a")}, []string{"/tree", "/tree/b", "/tree/b/x", "/tree/y", "/tree/y/x"}},
		"traversing": {cache.TreeCacheSelector{TraverseChildren: panicky("/tree/a")}, []string{"/tree", "/tree/a", "/tree/b", "/tree/b/x", "/tree/y", "/tree/y/x"}},
		"the root":   {cache.TreeCacheSelector{TraverseChildren: panicky("/tree")}, []string{"/tree"}},
		"with Goexit": {
			cache.TreeCacheSelector{AcceptChild: exiting("/tree/a"), TraverseChildren: exiting("/tree/b")},
			[]string{"/tree", "/tree/b", "/tree/y", "/tree/y/x"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubbles(t, func(t *testing.T, server *zkserver.Server) {
				var log bytes.Buffer
				client, writer := zktest.Client(t, server, framework.WithLogger(slog.New(slog.NewTextHandler(&log, nil)))), zktest.Client(t, server)
				for _, path := range everywhere {
					create(t, writer, path, "")
				}
				c := started(t, client, "/tree", cache.WithSelector(test.selector))
				require.ElementsMatch(t, test.want, slices.Collect(maps.Keys(picture(c))))
				for _, path := range everywhere {
					set(t, writer, path, "new")
				}
				fresh(t, c)
				for path, data := range picture(c) {
					require.Equal(t, "new", data, path)
				}
				require.NoError(t, c.Close())
				require.NoError(t, client.Close()) // which writes what is in the queue of the log
				require.Contains(t, log.String(), "cache selector panicked")
			})
		})
	}
}

// A cache with limits begins on the storage of a cache that had none.
func TestLimitsOnAStorageThatWasKept(t *testing.T) {
	for _, l := range allLimits {
		t.Run(l.name, func(t *testing.T) {
			inBubbles(t, func(t *testing.T, server *zkserver.Server) {
				client, writer := zktest.Client(t, server), zktest.Client(t, server)
				tree := map[string]string{}
				for _, path := range everywhere {
					create(t, writer, path, path)
					tree[path] = path
				}
				storage := cache.NewStandardStorage()
				require.NoError(t, started(t, writer, "/tree", cache.WithStorage(storage), cache.DoNotClearOnClose()).Close())

				forbidden := l.watchReads(t, server, writer)
				c := started(t, client, "/tree", append(l.opts, cache.WithStorage(storage))...)

				require.Equal(t, l.of(tree), picture(c))
				require.NoError(t, c.Close())
				require.Empty(t, forbidden())
			})
		})
	}
}

func TestLimitsThatAreRefused(t *testing.T) {
	client := must.Get(framework.New("localhost:1"))(t)
	for want, opts := range map[string][]cache.Option{
		"WithMaxDepth(-1), expected 0 or more levels":                                              {cache.WithMaxDepth(-1)},
		"WithSelector without TraverseChildren and AcceptChild, expected one function or both":     {cache.WithSelector(cache.TreeCacheSelector{})},
		"WithMaxDepth(2) beside SingleNodeCache, expected one of them":                             {cache.SingleNodeCache(), cache.WithMaxDepth(2)},
		"SingleNodeCache beside WithChildrenOnly, expected one of them":                            {cache.WithChildrenOnly(), cache.SingleNodeCache()},
		"WithChildrenOnly beside WithMaxDepth(1), expected one of them":                            {cache.WithMaxDepth(1), cache.WithChildrenOnly()},
		"WithMaxDepth(2) beside WithMaxDepth(1), expected one of them":                             {cache.WithMaxDepth(1), cache.WithMaxDepth(2)},
		"WithSelector beside SingleNodeCache, expected a depth of 1 or more":                       {cache.WithSelector(skips), cache.SingleNodeCache()},
		"WithSelector beside WithMaxDepth(0), expected a depth of 1 or more: the selector would n": {cache.WithMaxDepth(0), cache.WithSelector(skips)},
	} {
		_, err := cache.NewCuratorCache(client, "/tree", opts...)
		require.ErrorIs(t, err, framework.ErrInvalidOption)
		require.ErrorContains(t, err, want)
	}
	for _, opts := range [][]cache.Option{
		{cache.WithMaxDepth(3), cache.WithMaxDepth(3)},
		{cache.WithSelector(skips), cache.WithChildrenOnly()},
		{cache.SingleNodeCache(), cache.SingleNodeCache()},
	} {
		must.Get(cache.NewCuratorCache(client, "/tree", opts...))(t)
	}
}

// The list of a folder is too large because of names that the selector leaves out. When they go,
// the cache lists the folder again, though it does not keep the folder itself.
func TestLimitsOfAListThatIsTooLarge(t *testing.T) {
	inBubbles(t, func(t *testing.T, server *zkserver.Server) {
		writer := zktest.Client(t, server)
		client := zktest.Client(t, server, framework.WithMaxReplySize(2000))
		create(t, writer, "/tree/kept", "1")
		for i := range 300 {
			create(t, writer, fmt.Sprintf("/tree/name-%03d", i), "")
		}
		c := newCache(t, client, "/tree", cache.WithChildrenOnly(), cache.WithSelector(cache.TreeCacheSelector{
			AcceptChild: func(path string) bool { return path == "/tree/kept" },
		}))
		require.NoError(t, c.Start())
		require.ErrorIs(t, c.Fresh(zktest.Context(t)), framework.ErrTooLarge)
		for i := range 299 {
			remove(t, writer, fmt.Sprintf("/tree/name-%03d", i))
		}
		set(t, writer, "/tree", "") // a one-shot watch on a folder that was not listed shows nothing else
		fresh(t, c)
		require.Equal(t, map[string]string{"/tree/kept": "1"}, picture(c))
		require.NoError(t, c.Close())
	})
}
