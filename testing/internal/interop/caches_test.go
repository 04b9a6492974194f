// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/cache"
	"github.com/gocurator/curator/testing/zktest"
)

// treePaths are a tree that limits divide in several ways.
var treePaths = []string{"/tree", "/tree/a", "/tree/a/b", "/tree/a/b/x", "/tree/a/x", "/tree/a/x/y", "/tree/b", "/tree/b/x", "/tree/y", "/tree/y/x"}

// pairs are words by pairs: a path or a name, and data.
func pairs(words []string) map[string]string {
	all := map[string]string{}
	for pair := range slices.Chunk(words, 2) {
		all[pair[0]] = pair[1]
	}
	return all
}

// questions are what a selector was asked.
type questions struct {
	mu    sync.Mutex
	asked map[string]bool
}

// selector goes into no znode named closed and accepts none named left, as the one of Java does.
func (q *questions) selector(closed, left string) cache.TreeCacheSelector {
	q.asked = map[string]bool{}
	not := func(question, name string) func(string) bool {
		return func(path string) bool {
			q.mu.Lock()
			defer q.mu.Unlock()
			q.asked[question+" "+path] = true
			return !strings.HasSuffix(path, "/"+name)
		}
	}
	return cache.TreeCacheSelector{TraverseChildren: not("traverse", closed), AcceptChild: not("accept", left)}
}

func (q *questions) all() []string {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Sorted(maps.Keys(q.asked))
}

// TestCachesTreeCacheOfBothSides: with the same depth and the same selector, a TreeCache and a
// CuratorCache keep the same znodes of a tree that changes. CuratorCache asks its selector nothing
// else than TreeCache does.
func TestCachesTreeCacheOfBothSides(t *testing.T) {
	eachBackend(t, func(t *testing.T, server zktest.Backend) {
		for _, limits := range []struct{ depth, closed, left string }{
			{"-", "-", "-"},
			{"0", "-", "-"},
			{"1", "-", "-"},
			{"2", "-", "-"},
			{"-", "y", "b"},
			{"2", "a", "-"},
			{"3", "-", "x"},
			{"-", "tree", "-"},
		} {
			t.Run(limits.depth+limits.closed+limits.left, func(t *testing.T) {
				java, client := newActor(t, server), zktest.Client(t, server)
				writeTree(t, client, "first")
				java.do(t, "cache-tree", "/tree", limits.depth, limits.closed, limits.left)
				var asked questions
				var opts []cache.Option
				if limits.depth != "-" {
					depth, err := strconv.Atoi(limits.depth)
					require.NoError(t, err)
					opts = append(opts, cache.WithMaxDepth(depth))
				}
				if limits.depth != "0" { // where there is nothing to ask
					opts = append(opts, cache.WithSelector(asked.selector(limits.closed, limits.left)))
				}
				ours := openCache(t, client, opts...)
				agree := func() {
					t.Helper()
					require.NoError(t, ours.Fresh(zktest.Context(t)))
					want := shownBy(ours)
					require.EventuallyWithT(t, func(c *assert.CollectT) {
						assert.Equal(c, want, pairs(java.do(t, "cache-list", "/tree")))
					}, limit, time.Millisecond)
					for _, path := range treePaths {
						children := map[string]string{}
						for name, data := range ours.Children(path) {
							children[name] = string(data.Data)
						}
						require.Equal(t, children, pairs(java.do(t, "cache-list-children", "/tree", path)), path)
					}
				}
				agree()
				require.NoError(t, client.Delete(zktest.Context(t), "/tree/a", framework.DeletingChildrenIfNeeded()))
				agree()
				writeTree(t, client, "second")
				agree()
				require.Subset(t, java.do(t, "cache-asked", "/tree"), asked.all())
				java.do(t, "cache-close", "/tree")
				require.NoError(t, client.Delete(zktest.Context(t), "/tree", framework.DeletingChildrenIfNeeded()))
			})
		}
	})
}

// TestCachesPathChildrenCacheOfBothSides: a PathChildrenCache and a cache of children only keep the
// same.
func TestCachesPathChildrenCacheOfBothSides(t *testing.T) {
	eachBackend(t, func(t *testing.T, server zktest.Backend) {
		java, client := newActor(t, server), zktest.Client(t, server)
		writeTree(t, client, "first")
		java.do(t, "cache-children", "/tree")
		ours := openCache(t, client, cache.WithChildrenOnly())
		agree := func() {
			t.Helper()
			require.NoError(t, ours.Fresh(zktest.Context(t)))
			want := shownBy(ours)
			require.EventuallyWithT(t, func(c *assert.CollectT) {
				assert.Equal(c, want, pairs(java.do(t, "cache-list", "/tree")))
			}, limit, time.Millisecond)
		}
		agree()
		require.NoError(t, client.Delete(zktest.Context(t), "/tree/a", framework.DeletingChildrenIfNeeded()))
		agree()
		writeTree(t, client, "second")
		agree()
		java.do(t, "cache-close", "/tree")
	})
}

// openCache returns a cache of /tree whose picture is full.
func openCache(tb testing.TB, client *framework.Framework, opts ...cache.Option) *cache.CuratorCache {
	tb.Helper()
	c, err := cache.NewCuratorCache(client, "/tree", opts...)
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, c.Close()) })
	require.NoError(tb, c.Start())
	require.NoError(tb, c.Fresh(zktest.Context(tb)))
	return c
}

// writeTree creates treePaths or sets their data.
func writeTree(tb testing.TB, client *framework.Framework, data string) {
	tb.Helper()
	for _, path := range treePaths {
		_, err := client.Create(zktest.Context(tb), path, []byte(data), framework.OrSetData())
		require.NoError(tb, err)
	}
}

func shownBy(c *cache.CuratorCache) map[string]string {
	all := map[string]string{}
	for path, data := range c.Stream() {
		all[path] = string(data.Data)
	}
	return all
}
