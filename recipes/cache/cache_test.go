// SPDX-License-Identifier: Apache-2.0

package cache_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/cache"
	"github.com/gocurator/curator/testing/zktest"
)

// curator#1292: a listener and a watch that stay after Close.
func TestCacheOfATree(t *testing.T) {
	eachWatching(t, func(t *testing.T, server zktest.Backend) {
		client, writer := zktest.Client(t, server), zktest.Client(t, server)
		create(t, writer, "/other", "")
		before := server.Counts(t)
		c := newCache(t, client, "/tree")
		told := listenTo(c)
		start(t, c)
		require.Zero(t, c.Size())
		told.expect(t, "INITIALIZED")

		for range 2 {
			create(t, writer, "/tree", "r")
			create(t, writer, "/tree/a", "1")
			create(t, writer, "/tree/a/b", "2")
			fresh(t, c)
			require.Equal(t, map[string]string{"/tree": "r", "/tree/a": "1", "/tree/a/b": "2"}, picture(c))
			require.Equal(t, 3, c.Size())
			set(t, writer, "/tree/a", "3")
			fresh(t, c)
			data, found := c.Get("/tree/a")
			require.True(t, found)
			require.Equal(t, "3", string(data.Data))
			require.Equal(t, must.Get(writer.Exists(t.Context(), "/tree/a"))(t).Mzxid, data.Stat.Mzxid)
			told.expect(t, "NODE_CREATED /tree +r", "NODE_CREATED /tree/a +1", "NODE_CREATED /tree/a/b +2", "NODE_CHANGED /tree/a -1 +3")
			remove(t, writer, "/tree/a/b")
			fresh(t, c)
			remove(t, writer, "/tree")
			fresh(t, c)
			require.Empty(t, picture(c))
			told.expect(t, "NODE_DELETED /tree/a/b -2")
			told.expectAll(t, "NODE_DELETED /tree/a -3", "NODE_DELETED /tree -r") // of two paths, in any order
			told.none(t)
		}
		_, found := c.Get("/other")
		require.False(t, found)
		require.NoError(t, c.Close())
		server.AwaitCounts(t, before, limit)
	})
}

func TestCacheOfACompressedTree(t *testing.T) {
	eachWatching(t, func(t *testing.T, server zktest.Backend) {
		client := zktest.Client(t, server)
		must.Get(client.Create(t.Context(), "/tree/good", []byte("text"), framework.Compressed(), framework.CreatingParentsIfNeeded()))(t)
		create(t, client, "/tree/damaged", "text")
		c := started(t, client, "/tree", cache.CompressedData())
		require.Equal(t, map[string]string{"/tree": "", "/tree/good": "text"}, picture(c))
		byDefault := started(t, zktest.Client(t, server, framework.WithCompression()), "/tree")
		require.Equal(t, map[string]string{"/tree": "", "/tree/good": "text"}, picture(byDefault))
		require.NoError(t, client.Set(t.Context(), "/tree/damaged", []byte("mended"), framework.Compressed()))
		fresh(t, c)
		require.Equal(t, map[string]string{"/tree": "", "/tree/good": "text", "/tree/damaged": "mended"}, picture(c))

		zktest.KillSession(t, client) // everything is read again
		fresh(t, c)
		require.Equal(t, map[string]string{"/tree": "", "/tree/good": "text", "/tree/damaged": "mended"}, picture(c))
	})
}

// TestWaitForSeesAChangeWhileThePredicateRuns: the only change comes between two looks of the predicate.
func TestWaitForSeesAChangeWhileThePredicateRuns(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	c := started(t, client, "/tree")
	looks := 0
	require.NoError(t, c.WaitFor(zktest.Context(t), func(*cache.CuratorCache) bool {
		if looks++; looks > 1 {
			return true
		}
		must.Get(client.Create(t.Context(), "/tree", nil))(t)
		fresh(t, c)
		return false
	}))
	require.Equal(t, 2, looks)
}

// TestWaitForAfterBothAreClosed: the end of the cache is told, whatever has ended first.
func TestWaitForAfterBothAreClosed(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	c := started(t, client, "/tree")
	require.NoError(t, client.Close())
	require.NoError(t, c.Close())
	require.ErrorIs(t, c.WaitFor(zktest.Context(t), func(*cache.CuratorCache) bool { return false }), cache.ErrClosed)
}

func TestWaitFor(t *testing.T) {
	server := zktest.NewServer(t)
	client := zktest.Client(t, server)
	c := newCache(t, client, "/tree")
	require.NoError(t, c.Start())
	waited := make(chan error, 1)
	go func() {
		waited <- c.WaitFor(zktest.Context(t), func(c *cache.CuratorCache) bool { return c.Size() == 3 })
	}()
	create(t, client, "/tree/a", "")
	create(t, client, "/tree/b", "")
	require.NoError(t, zktest.Await(t, waited, "the picture"))

	go func() {
		waited <- c.WaitFor(zktest.Context(t), func(*cache.CuratorCache) bool { return false })
	}()
	require.NoError(t, c.Close())
	require.ErrorIs(t, zktest.Await(t, waited, "the end"), cache.ErrClosed)
}

func TestCacheUseAfterTheEnd(t *testing.T) {
	server := zktest.NewServer(t)
	client := zktest.Client(t, server)
	c := newCache(t, client, "/tree")
	require.ErrorIs(t, c.Fresh(t.Context()), cache.ErrNotStarted)
	start(t, c)
	require.Error(t, c.Start(), "a second time")
	require.NoError(t, c.Err())
	client.Close()
	require.ErrorIs(t, c.Fresh(t.Context()), framework.ErrClosed)
	require.ErrorIs(t, c.Err(), framework.ErrClosed)
	require.ErrorIs(t, c.WaitFor(zktest.Context(t), func(*cache.CuratorCache) bool { return false }), framework.ErrClosed)
	require.NoError(t, c.Close())
	require.NoError(t, c.Close())
	require.ErrorIs(t, c.Start(), cache.ErrClosed)
	require.ErrorIs(t, c.Fresh(t.Context()), cache.ErrClosed)

	never := newCache(t, client, "/tree")
	require.NoError(t, never.Close())
	require.ErrorIs(t, never.Start(), cache.ErrClosed)
}

func TestCacheBadInput(t *testing.T) {
	client := must.Get(framework.New("localhost:1"))(t)
	for name, try := range map[string]func() error{
		"client":  func() error { _, err := cache.NewCuratorCache(nil, "/tree"); return err },
		"option":  func() error { _, err := cache.NewCuratorCache(client, "/tree", nil); return err },
		"storage": func() error { _, err := cache.NewCuratorCache(client, "/tree", cache.WithStorage(nil)); return err },
		"nil storage": func() error {
			var none *panicky
			_, err := cache.NewCuratorCache(client, "/tree", cache.WithStorage(none))
			return err
		},
		"fresh": func() error { return newCache(t, client, "/tree").Fresh(nil) }, //nolint:staticcheck // what a mistake does
		"wait": func() error {
			return newCache(t, client, "/tree").WaitFor(nil, func(*cache.CuratorCache) bool { return true }) //nolint:staticcheck // what a mistake does
		},
		"predicate": func() error { return newCache(t, client, "/tree").WaitFor(t.Context(), nil) },
	} {
		require.ErrorIs(t, try(), framework.ErrInvalidOption, name)
	}
	_, err := cache.NewCuratorCache(client, "root")
	require.ErrorIs(t, err, framework.ErrInvalidPath)
	require.Panics(t, func() { newCache(t, client, "/tree").Listen(nil) })
	require.PanicsWithValue(t, "cache: Listen with a nil option, expected one such as AfterInitialized",
		func() { newCache(t, client, "/tree").Listen(func(cache.Event) {}, nil) })
}

func TestCacheContextEndsTheWait(t *testing.T) {
	server := zktest.NewServer(t)
	c := started(t, zktest.Client(t, server), "/tree")
	why := errors.New("enough")
	ctx := endedContext(why)
	require.ErrorIs(t, c.WaitFor(ctx, func(*cache.CuratorCache) bool { return false }), why)
	require.ErrorIs(t, c.Fresh(ctx), why)
	require.NoError(t, c.WaitFor(ctx, func(*cache.CuratorCache) bool { return true }), "what is true needs no wait")
}
