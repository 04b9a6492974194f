// SPDX-License-Identifier: Apache-2.0

package cache_test

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/cache"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// words are the keys of the data "a b".
func words(data *cache.ChildData) []string { return strings.Fields(string(data.Data)) }

func byWord(tb testing.TB, c *cache.CuratorCache, word string) []string {
	tb.Helper()
	found, err := c.ByIndex("words", word)
	require.NoError(tb, err)
	paths := []string{}
	for _, data := range found {
		paths = append(paths, data.Path)
	}
	slices.Sort(paths)
	return paths
}

func TestByIndexFollowsTheTree(t *testing.T) {
	eachWatching(t, func(t *testing.T, server zktest.Backend) {
		client, writer := zktest.Client(t, server), zktest.Client(t, server)
		create(t, writer, "/tree/a", "red big")
		create(t, writer, "/tree/b", "red")
		c := started(t, client, "/tree", cache.WithIndex("words", words), cache.WithIndex("paths", func(d *cache.ChildData) []string { return []string{d.Path} }))
		require.Equal(t, []string{"/tree/a", "/tree/b"}, byWord(t, c, "red"))
		require.Equal(t, []string{"/tree/a"}, byWord(t, c, "big"))

		set(t, writer, "/tree/a", "blue big")
		fresh(t, c)
		require.Equal(t, []string{"/tree/b"}, byWord(t, c, "red"), "it has lost this key")
		require.Equal(t, []string{"/tree/a"}, byWord(t, c, "big"))
		require.Equal(t, []string{"/tree/a"}, byWord(t, c, "blue"))
		remove(t, writer, "/tree/a")
		fresh(t, c)
		require.Empty(t, byWord(t, c, "big"))
		found, err := c.ByIndex("paths", "/tree/b")
		require.NoError(t, err)
		require.Len(t, found, 1)
		require.Equal(t, "red", string(found[0].Data))

		_, err = c.ByIndex("colours", "red")
		require.ErrorIs(t, err, framework.ErrInvalidOption)
		require.ErrorContains(t, err, `index "colours", expected one that WithIndex has made: [words paths]`)
		require.NoError(t, c.Close())
		require.Empty(t, byWord(t, c, "red"), "as Get")
	})
}

func TestWithIndexOfAKeptPicture(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	create(t, client, "/tree/a", "red")
	storage := cache.NewStandardStorage()
	first := started(t, client, "/tree", cache.WithStorage(storage), cache.DoNotClearOnClose())
	require.NoError(t, first.Close())
	second := newCache(t, client, "/tree", cache.WithStorage(storage), cache.WithIndex("words", words))
	require.Equal(t, []string{"/tree/a"}, byWord(t, second, "red"), "before it has read anything")
	start(t, second)
	remove(t, client, "/tree/a")
	fresh(t, second)
	require.Empty(t, byWord(t, second, "red"))
}

func TestWithIndexOfAStorageWithoutData(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	create(t, client, "/tree/a", "red")
	c := started(t, client, "/tree", cache.WithStorage(cache.NewStorageWithoutData()), cache.WithIndex("words", words))
	require.Equal(t, []string{"/tree/a"}, byWord(t, c, "red"), "the function is given the data")
}

func TestWithIndexBadInput(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	for want, opts := range map[string][]cache.Option{
		`WithIndex("words") with a nil function`: {cache.WithIndex("words", nil)},
		`WithIndex("words") twice`:               {cache.WithIndex("words", words), cache.WithIndex("words", words)},
	} {
		_, err := cache.NewCuratorCache(client, "/tree", opts...)
		require.ErrorIs(t, err, framework.ErrInvalidOption)
		require.ErrorContains(t, err, want)
	}
}

func TestUserCodePanicOfAnIndexCostsTheKeys(t *testing.T) {
	eachMisbehaving(t, func(t *testing.T, server *zkserver.Server, misbehave func()) {
		client := zktest.Client(t, server)
		create(t, client, "/tree/a", "red")
		create(t, client, "/tree/b", "red bad")
		c := started(t, client, "/tree", cache.WithIndex("words", func(data *cache.ChildData) []string {
			if strings.Contains(string(data.Data), "bad") {
				misbehave()
			}
			return words(data)
		}))
		require.Equal(t, []string{"/tree/a"}, byWord(t, c, "red"))
		_, found := c.Get("/tree/b")
		require.True(t, found)
		set(t, client, "/tree/b", "red")
		fresh(t, c)
		require.Equal(t, []string{"/tree/a", "/tree/b"}, byWord(t, c, "red"))
		require.NoError(t, c.Close())
	})
}

// hoarder is a storage that never forgets, so that an index that does not shows.
type hoarder struct{ cache.CuratorCacheStorage }

func (hoarder) Remove(string) *cache.ChildData { return nil }

func TestByIndexKeepsNothingOfADeletedZnode(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	create(t, client, "/tree/a", "red")
	c := started(t, client, "/tree", cache.WithStorage(hoarder{cache.NewStandardStorage()}), cache.WithIndex("words", words))
	remove(t, client, "/tree/a")
	fresh(t, c)
	require.Empty(t, byWord(t, c, "red"))
}

// interrupted is a storage that runs a function between a change of its own and the event.
type interrupted struct {
	cache.CuratorCacheStorage
	between func(path string)
}

func (s *interrupted) Put(data *cache.ChildData) *cache.ChildData {
	old := s.CuratorCacheStorage.Put(data)
	s.between(data.Path)
	return old
}

func (s *interrupted) Remove(path string) *cache.ChildData {
	old := s.CuratorCacheStorage.Remove(path)
	s.between(path)
	return old
}

// meanwhile runs fn on a goroutine and gives it time, so that a mistake shows. A correct fn waits
// for the caller.
func meanwhile(fn func()) {
	done := make(chan struct{})
	go func() { defer close(done); fn() }()
	select {
	case <-done:
	case <-time.After(20 * time.Millisecond):
	}
}

func TestByIndexAndReplayAreOfOneMoment(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	create(t, client, "/tree/a", "red")
	var c *cache.CuratorCache
	var late []*record
	wrong := make(chan string, 100)
	calls := make(chan struct{}, 100)
	var armed atomic.Bool
	storage := &interrupted{cache.NewStandardStorage(), func(string) {
		if !armed.Load() {
			return
		}
		r := &record{make(chan cache.Event, 1<<8), map[string]string{}}
		late = append(late, r)
		meanwhile(func() {
			c.Listen(func(e cache.Event) { r.events <- e }, cache.WithReplay())
			calls <- struct{}{}
		})
		meanwhile(func() {
			found, err := c.ByIndex("words", "red")
			if err != nil {
				wrong <- err.Error()
			}
			for _, data := range found {
				if !slices.Contains(words(data), "red") {
					wrong <- "red: " + string(data.Data)
				}
			}
			calls <- struct{}{}
		})
	}}
	c = started(t, client, "/tree", cache.WithStorage(storage), cache.WithIndex("words", words))
	armed.Store(true)
	set(t, client, "/tree/a", "blue")
	fresh(t, c)
	remove(t, client, "/tree/a")
	fresh(t, c)
	armed.Store(false)
	create(t, client, "/tree/end", "")
	fresh(t, c)
	for range 2 * len(late) {
		zktest.Await(t, calls, "a call during a change")
	}
	require.Empty(t, wrong)
	for i, want := range []string{"NODE_CREATED /tree/a +blue", ""} {
		late[i].expect(t, "NODE_CREATED /tree +")
		if want != "" {
			late[i].expect(t, want, "INITIALIZED", "NODE_DELETED /tree/a -blue")
		} else {
			late[i].expect(t, "INITIALIZED")
		}
		late[i].expect(t, "NODE_CREATED /tree/end +")
	}
}

func TestWithReplayGivesALateListenerThePicture(t *testing.T) {
	eachWatching(t, func(t *testing.T, server zktest.Backend) {
		client, writer := zktest.Client(t, server), zktest.Client(t, server)
		create(t, writer, "/tree/a/b", "1")
		c := newCache(t, client, "/tree")
		early := listenTo(c, cache.WithReplay())
		start(t, c)
		early.expect(t, "NODE_CREATED /tree +", "NODE_CREATED /tree/a +", "NODE_CREATED /tree/a/b +1", "INITIALIZED")
		late := listenTo(c, cache.WithReplay())
		late.expect(t, "NODE_CREATED /tree +", "NODE_CREATED /tree/a +", "NODE_CREATED /tree/a/b +1", "INITIALIZED")
		selected := listenTo(c, cache.WithReplay(), cache.For(cache.NodeCreated), cache.WithPathFilter(func(path string) bool { return path == "/tree/a" }))
		selected.expect(t, "NODE_CREATED /tree/a +")
		set(t, writer, "/tree/a/b", "2")
		for _, r := range []*record{early, late} {
			r.expect(t, "NODE_CHANGED /tree/a/b -1 +2")
		}
		remove(t, writer, "/tree/a/b")
		fresh(t, c)
		for _, r := range []*record{early, late} {
			r.expect(t, "NODE_DELETED /tree/a/b -2")
			r.none(t)
		}
		selected.none(t)
	})
}
