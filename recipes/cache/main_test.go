// SPDX-License-Identifier: Apache-2.0

package cache_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/cache"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

func TestMain(m *testing.M) { zktest.Main(m) }

// limit bounds what a test waits for, generously: a test that needs it has failed.
const limit = 2 * time.Minute

// old is a version without persistent watches.
const old = "3.5.9"

// eachWatching runs the test with persistent watches on every backend, and with one-shot
// watches on a server that has no others.
func eachWatching(t *testing.T, test func(t *testing.T, server zktest.Backend)) {
	t.Helper()
	zktest.EachBackend(t, test)
	t.Run(old, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithVersion(old))
		t.Cleanup(func() { zktest.AssertClean(t, server) })
		test(t, zktest.Embedded(server))
	})
}

// inBubbles runs the test on the fake clock, on a server with persistent watches and on one
// without, and asks that nothing is left.
func inBubbles(t *testing.T, test func(t *testing.T, server *zkserver.Server)) {
	t.Helper()
	for _, version := range []string{"3.8.0", old} {
		t.Run(version, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := zktest.NewServer(t, zkserver.WithoutListener(), zkserver.WithVersion(version))
				t.Cleanup(func() { zktest.AssertClean(t, server) })
				test(t, server)
			})
		})
	}
}

// newCache returns a cache that is closed with the test, and not started.
func newCache(tb testing.TB, client *framework.Framework, path string, opts ...cache.Option) *cache.CuratorCache {
	tb.Helper()
	c := must.Get(cache.NewCuratorCache(client, path, opts...))(tb)
	tb.Cleanup(func() { require.NoError(tb, c.Close()) })
	return c
}

// started returns a cache whose picture is full.
func started(tb testing.TB, client *framework.Framework, path string, opts ...cache.Option) *cache.CuratorCache {
	tb.Helper()
	c := newCache(tb, client, path, opts...)
	start(tb, c)
	return c
}

func start(tb testing.TB, c *cache.CuratorCache) {
	tb.Helper()
	require.NoError(tb, c.Start())
	fresh(tb, c)
}

func fresh(tb testing.TB, c *cache.CuratorCache) {
	tb.Helper()
	require.NoError(tb, c.Fresh(zktest.Context(tb)))
}

// picture returns what a cache has, data by path.
func picture(c *cache.CuratorCache) map[string]string {
	all := map[string]string{}
	for path, data := range c.Stream() {
		all[path] = string(data.Data)
	}
	return all
}

func create(tb testing.TB, client *framework.Framework, path, data string) {
	tb.Helper()
	must.Get(client.Create(zktest.Context(tb), path, []byte(data), framework.CreatingParentsIfNeeded()))(tb)
}

// plant creates /tree with folders and leaves in each, all with the same data, and returns the
// paths of the leaves.
func plant(tb testing.TB, client *framework.Framework, folders, leaves int, data []byte) (paths []string) {
	tb.Helper()
	create(tb, client, "/tree", "")
	for folder := range folders {
		parent := fmt.Sprintf("/tree/folder-%03d", folder)
		ops := []framework.Op{framework.CreateOp(parent, nil)}
		for leaf := range leaves {
			path := fmt.Sprintf("%s/node-%06d", parent, leaf)
			ops, paths = append(ops, framework.CreateOp(path, data)), append(paths, path)
		}
		must.Get(client.Transact(zktest.Context(tb), ops...))(tb)
	}
	return paths
}

// setAll sets the data of all paths.
func setAll(tb testing.TB, client *framework.Framework, paths []string, data string) {
	tb.Helper()
	for part := range slices.Chunk(paths, 1000) {
		var ops []framework.Op
		for _, path := range part {
			ops = append(ops, framework.SetDataOp(path, []byte(data)))
		}
		must.Get(client.Transact(zktest.Context(tb), ops...))(tb)
	}
}

func set(tb testing.TB, client *framework.Framework, path, data string) {
	tb.Helper()
	require.NoError(tb, client.Set(zktest.Context(tb), path, []byte(data)))
}

func remove(tb testing.TB, client *framework.Framework, path string) {
	tb.Helper()
	require.NoError(tb, client.Delete(zktest.Context(tb), path, framework.DeletingChildrenIfNeeded()))
}

// record is the events of one listener. Its contents may be read once the listener is done,
// or when it is known what has come.
type record struct {
	events chan cache.Event
	shown  map[string]string // that replay has made of them
}

func listenTo(c *cache.CuratorCache, opts ...cache.ListenOption) *record {
	r := &record{make(chan cache.Event, 1<<16), map[string]string{}}
	c.Listen(func(e cache.Event) { r.events <- e }, opts...)
	return r
}

// line is an event as text, with the data before and after.
func line(e cache.Event) string {
	text := e.Type.String()
	if e.Path != "" {
		text += " " + e.Path
	}
	if e.Old != nil {
		text += " -" + string(e.Old.Data)
	}
	if e.New != nil {
		text += " +" + string(e.New.Data)
	}
	return text
}

// expect waits for these events, in this order.
func (r *record) expect(tb testing.TB, want ...string) {
	tb.Helper()
	for _, w := range want {
		require.Equal(tb, w, line(zktest.Await(tb, r.events, w)))
	}
}

// expectAll waits for these events, in any order.
func (r *record) expectAll(tb testing.TB, want ...string) {
	tb.Helper()
	var got []string
	for _, w := range want {
		got = append(got, line(zktest.Await(tb, r.events, w)))
	}
	require.ElementsMatch(tb, want, got)
}

// none asks that there is no other event. What has been stored has been told before.
func (r *record) none(tb testing.TB) {
	tb.Helper()
	select {
	case e := <-r.events:
		require.Fail(tb, "an event too many", line(e))
	default:
	}
}

func endedContext(why error) context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(why)
	return ctx
}
