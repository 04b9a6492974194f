// SPDX-License-Identifier: Apache-2.0

package typed_test

import (
	"encoding/binary"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/cache"
	"github.com/gocurator/curator/recipes/typed"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

func TestMain(m *testing.M) { zktest.Main(m) }

type service struct {
	Address string
	Hits    int
}

func TestNode(t *testing.T) {
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		client := zktest.Client(t, server)
		node := must.Get(typed.NewNode(client, "/services/a", typed.JSON[service]()))(t)
		_, _, err := node.Get(t.Context())
		require.ErrorIs(t, err, framework.ErrNoNode)
		must.Get(node.Create(t.Context(), service{"a:80", 0}, framework.CreatingParentsIfNeeded()))(t)
		require.NoError(t, node.Set(t.Context(), service{"b:80", 1}, framework.WithVersion(0)))
		value, stat, err := node.Get(t.Context())
		require.NoError(t, err)
		require.Equal(t, service{"b:80", 1}, value)
		require.Equal(t, int32(1), stat.Version)

		require.NoError(t, client.Set(t.Context(), node.Path(), []byte("{")))
		_, _, err = node.Get(t.Context())
		require.ErrorIs(t, err, typed.ErrCodec)
		require.NoError(t, node.Delete(t.Context()))
	})
}

// Of many updates at the same time none is lost, and an error of the function changes nothing.
// After 2^32 - 1 writes the version is -1, which is no condition: an update would write over those of others.
func TestUpdateOfAZnodeWithoutAVersion(t *testing.T) {
	server := zktest.NewServer(t)
	node := must.Get(typed.NewNode(zktest.Client(t, server), "/node", typed.JSON[int]()))(t)
	must.Get(node.Create(t.Context(), 1))(t)
	server.Intercept(func(r zkserver.Request) zkserver.Fault {
		if r.Op != zkserver.OpGetData {
			return zkserver.Pass
		}
		reply, err := binary.Append(nil, binary.BigEndian, struct {
			Size, Xid   int32
			Zxid        int64
			Err, Length int32
			Data        byte
			Stat        framework.Stat
		}{16 + 4 + 1 + 68, r.Xid, 1, 0, 1, '1', framework.Stat{Czxid: 1, Mzxid: 1, Version: -1, DataLength: 1}})
		if err != nil {
			return zkserver.FailWith(-1)
		}
		return zkserver.RespondWith(reply)
	})
	err := node.Update(t.Context(), func(*int) error { return nil })
	require.EqualError(t, err, "typed: /node: the znode has been written 2^32 - 1 times, it must be deleted before it is changed again")
}

func TestUpdate(t *testing.T) {
	server := zktest.NewServer(t)
	const clients, updates = 4, 25
	first := zktest.Client(t, server)
	node := must.Get(typed.NewNode(first, "/node", typed.JSON[service]()))(t)
	must.Get(node.Create(t.Context(), service{}))(t)
	done := make(chan error, clients)
	for range clients {
		own := must.Get(typed.NewNode(zktest.Client(t, server), "/node", typed.JSON[service]()))(t)
		go func() {
			var err error
			for range updates {
				err = errors.Join(err, own.Update(t.Context(), func(s *service) error { s.Hits++; return nil }))
			}
			done <- err
		}()
	}
	for range clients {
		require.NoError(t, zktest.Await(t, done, "a client"))
	}
	refused := errors.New("refused")
	require.ErrorIs(t, node.Update(t.Context(), func(s *service) error { s.Hits = 0; return refused }), refused)
	value, _, err := node.Get(t.Context())
	require.NoError(t, err)
	require.Equal(t, clients*updates, value.Hits)
}

// The servers are restored while the function runs. Another value has the version there.
func TestUpdateChangesWhatRestoredServersHave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, another := zktest.NewServer(t, zkserver.WithoutListener()), zktest.NewServer(t, zkserver.WithoutListener())
		for server, value := range map[*zkserver.Server]int{server: 1, another: 100} {
			require.NoError(t, must.Get(typed.NewNode(zktest.Client(t, server), "/node", typed.JSON[int]()))(t).Put(t.Context(), value))
		}
		client := zktest.Client(t, server, framework.WithRetryPolicy(retry.Forever(time.Second)))
		node := must.Get(typed.NewNode(client, "/node", typed.JSON[int]()))(t)
		var once sync.Once

		err := node.Update(t.Context(), func(value *int) error {
			once.Do(func() {
				require.NoError(t, server.Stop())
				zktest.AwaitState(t, client, framework.Suspended)
				require.NoError(t, server.Restore(another.Backup(), 0))
				require.NoError(t, server.Restart())
			})
			*value++
			return nil
		})

		require.NoError(t, err)
		value, _, err := node.Get(t.Context())
		require.NoError(t, err)
		require.Equal(t, 101, value)
	})
}

func TestFolder(t *testing.T) {
	server := zktest.NewServer(t)
	client := zktest.Client(t, server)
	folder := must.Get(typed.NewFolder(client, "/services/{service}/{id}", typed.JSON[service]()))(t)
	for _, id := range []string{"1", "2"} {
		node := must.Get(folder.Node("search", id))(t)
		require.Equal(t, "/services/search/"+id, node.Path())
		must.Get(node.Create(t.Context(), service{}, framework.CreatingParentsIfNeeded()))(t)
	}
	require.ElementsMatch(t, []string{"1", "2"}, must.Get(folder.Children(t.Context(), "search"))(t))
}

// Views read what a cache has, and no request is made.
func TestCached(t *testing.T) {
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		client := zktest.Client(t, server)
		folder := must.Get(typed.NewFolder(client, "/services/{service}/{id}", typed.JSON[service]()))(t)
		for i, id := range []string{"1", "2"} {
			node := must.Get(folder.Node("search", id))(t)
			must.Get(node.Create(t.Context(), service{"a:80", i}, framework.CreatingParentsIfNeeded()))(t)
		}
		must.Get(client.Create(t.Context(), "/services/search/2/below", nil))(t)
		must.Get(client.Create(t.Context(), "/services/search/broken", []byte("{")))(t)
		c := must.Get(cache.NewCuratorCache(client, "/services", cache.DoNotClearOnClose()))(t)
		require.NoError(t, c.Start())
		require.NoError(t, c.Fresh(t.Context()))
		require.NoError(t, c.Close())
		require.NoError(t, client.Close()) // from now on there is only the picture

		node := must.Get(folder.Node("search", "2"))(t)
		value, stat, err := node.Cached(c)
		require.NoError(t, err)
		require.Equal(t, service{"a:80", 1}, value)
		require.NotZero(t, stat.Czxid)
		missing := must.Get(folder.Node("search", "3"))(t)
		_, _, err = missing.Cached(c)
		require.ErrorIs(t, err, cache.ErrClosed)
		broken := must.Get(folder.Node("search", "broken"))(t)
		_, _, err = broken.Cached(c)
		require.ErrorIs(t, err, typed.ErrCodec)

		hits := map[string]int{}
		for node, err := range folder.Cached(c) {
			require.Equal(t, []string{"search", node.Path[len("/services/search/"):]}, node.Parameters)
			if node.Path == "/services/search/broken" {
				require.ErrorIs(t, err, typed.ErrCodec)
				continue
			}
			require.NoError(t, err)
			hits[node.Path] = node.Value.Hits
		}
		require.Equal(t, map[string]int{"/services/search/1": 0, "/services/search/2": 1}, hits)
	})
}

// A closed cache has no znodes, which says nothing about the server.
func TestCachedOfAClosedCache(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	folder := must.Get(typed.NewFolder(client, "/services/{id}", typed.JSON[service]()))(t)
	node := must.Get(folder.Node("1"))(t)
	must.Get(node.Create(t.Context(), service{"a:80", 1}, framework.CreatingParentsIfNeeded()))(t)
	missing := must.Get(folder.Node("2"))(t)
	c := must.Get(cache.NewCuratorCache(client, "/services"))(t)
	require.ErrorIs(t, c.Err(), cache.ErrNotStarted)
	require.NoError(t, c.Start())
	require.NoError(t, c.Fresh(t.Context()))
	require.NoError(t, c.Err())
	_, _, err := missing.Cached(c)
	require.ErrorIs(t, err, framework.ErrNoNode)

	require.NoError(t, c.Close())

	require.ErrorIs(t, c.Err(), cache.ErrClosed)
	_, _, err = node.Cached(c)
	require.ErrorIs(t, err, cache.ErrClosed)
	require.NotErrorIs(t, err, framework.ErrNoNode)
	said := 0
	for cached, err := range folder.Cached(c) {
		require.Nil(t, cached)
		require.ErrorIs(t, err, cache.ErrClosed)
		said++
	}
	require.Equal(t, 1, said)
}

func TestTypedBadInput(t *testing.T) {
	client := must.Get(framework.New("localhost:1"))(t)
	folder := must.Get(typed.NewFolder(client, "/services/{service}/{id}", typed.JSON[service]()))(t)
	for name, try := range map[string]func() error{
		"client": func() error { _, err := typed.NewNode(nil, "/a", typed.JSON[service]()); return err },
		"codec":  func() error { _, err := typed.NewNode(client, "/a", typed.Codec[service]{}); return err },
		"no check": func() error {
			_, err := typed.NewNode(client, "/a", typed.JSON[service]().Validating(nil))
			return err
		},
		"checked codec": func() error {
			_, err := typed.NewNode(client, "/a", typed.Codec[service]{}.Validating(func(service) error { return nil }))
			return err
		},
		"form":      func() error { _, err := typed.NewFolder(client, "/a/{b}/c", typed.JSON[service]()); return err },
		"too few":   func() error { _, err := folder.Node("a"); return err },
		"too many":  func() error { _, err := folder.Node("a", "b", "c"); return err },
		"no name":   func() error { _, err := folder.Node("a", ""); return err },
		"a path":    func() error { _, err := folder.Node("a/b", "c"); return err },
		"of a list": func() error { _, err := folder.Children(t.Context(), "a", "b"); return err },
		"nil cache": func() error {
			node := must.Get(folder.Node("a", "b"))(t)
			_, _, err := node.Cached(nil)
			for _, each := range folder.Cached(nil) {
				require.ErrorIs(t, each, framework.ErrInvalidOption)
			}
			return err
		},
		"nil change": func() error {
			node := must.Get(folder.Node("a", "b"))(t)
			return node.Update(t.Context(), nil)
		},
	} {
		require.ErrorIs(t, try(), framework.ErrInvalidOption, name)
	}
	_, err := typed.NewNode(client, "a", typed.JSON[service]())
	require.ErrorIs(t, err, framework.ErrInvalidPath)
}
