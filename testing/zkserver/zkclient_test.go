// SPDX-License-Identifier: Apache-2.0

package zkserver_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/testing/zkserver"
)

// quiet keeps go-zookeeper from writing to the standard logger.
type quiet struct{}

func (quiet) Printf(string, ...any) {}

// clientOf connects go-zookeeper and waits until it has a session.
func clientOf(tb testing.TB, srv *zkserver.Server) (*zk.Conn, <-chan zk.Event) {
	tb.Helper()
	conn, events, err := zk.Connect([]string{srv.Addr()}, 5*time.Second, zk.WithLogger(quiet{}))
	require.NoError(tb, err)
	tb.Cleanup(func() {
		conn.Close()
		for range events { // closed when its goroutines are done
		}
	})
	awaitState(tb, events, zk.StateHasSession)
	return conn, events
}

func awaitState(tb testing.TB, events <-chan zk.Event, state zk.State) {
	tb.Helper()
	deadline := time.After(patience)
	for {
		select {
		case e := <-events:
			if e.State == state {
				return
			}
		case <-deadline:
			require.Fail(tb, "no "+state.String())
		}
	}
}

func awaitEvent(tb testing.TB, events <-chan zk.Event) zk.Event {
	tb.Helper()
	select {
	case e := <-events:
		return e
	case <-time.After(patience):
		require.Fail(tb, "no event")
		return zk.Event{}
	}
}

func TestZKClientGoZookeeper(t *testing.T) {
	srv := start(t)
	conn, _ := clientOf(t, srv)
	open := zk.WorldACL(zk.PermAll)

	p, err := conn.Create("/a", []byte("one"), 0, open)
	require.NoError(t, err)
	require.Equal(t, "/a", p)
	_, err = conn.Create("/a", nil, 0, open)
	require.ErrorIs(t, err, zk.ErrNodeExists)
	p, err = conn.Create("/a/s-", nil, zk.FlagSequence|zk.FlagEphemeral, open)
	require.NoError(t, err)
	require.Equal(t, "/a/s-0000000000", p)
	p, err = conn.CreateProtectedEphemeralSequential("/a/p-", nil, open)
	require.NoError(t, err)
	require.Regexp(t, `^/a/_c_[0-9a-f]{32}-p-0000000001$`, p)
	_, err = conn.CreateContainer("/c", nil, zk.FlagTTL, open)
	require.Error(t, err)
	_, err = conn.CreateContainer("/c", nil, zk.FlagContainer, open)
	require.NoError(t, err)
	_, err = conn.CreateTTL("/ttl", nil, zk.FlagTTL, open, time.Hour)
	require.NoError(t, err)

	value, st, err := conn.Get("/a")
	require.NoError(t, err)
	require.Equal(t, "one", string(value))
	require.EqualValues(t, 2, st.NumChildren)
	st, err = conn.Set("/a", []byte("two"), st.Version)
	require.NoError(t, err)
	require.EqualValues(t, 1, st.Version)
	_, err = conn.Set("/a", nil, 0)
	require.ErrorIs(t, err, zk.ErrBadVersion)
	children, _, err := conn.Children("/")
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"a", "c", "ttl", "zookeeper"}, children)
	synced, err := conn.Sync("/a")
	require.NoError(t, err)
	require.Equal(t, "/a", synced)
	require.ErrorIs(t, conn.Delete("/a", -1), zk.ErrNotEmpty)
	found, _, err := conn.Exists("/none")
	require.NoError(t, err)
	require.False(t, found)

	results, err := conn.Multi(
		&zk.CreateRequest{Path: "/m", Acl: open},
		&zk.SetDataRequest{Path: "/m", Data: []byte("x"), Version: 0},
		&zk.CheckVersionRequest{Path: "/m", Version: 1},
		&zk.DeleteRequest{Path: "/m", Version: 1})
	require.NoError(t, err)
	require.Len(t, results, 4)
	require.Equal(t, "/m", results[0].String)
	require.EqualValues(t, 1, results[1].Stat.Version)
	results, err = conn.Multi(&zk.DeleteRequest{Path: "/ttl"}, &zk.DeleteRequest{Path: "/none"})
	require.ErrorIs(t, err, zk.ErrNoNode)
	require.Len(t, results, 2)
	found, _, err = conn.Exists("/ttl")
	require.NoError(t, err)
	require.True(t, found)

	_, err = conn.IncrementalReconfig(nil, nil, -1)
	require.ErrorIs(t, err, zk.ErrReconfigDisabled)
}

func TestZKClientGoZookeeperACL(t *testing.T) {
	srv := start(t)
	alice, _ := clientOf(t, srv)
	other, _ := clientOf(t, srv)
	require.NoError(t, alice.AddAuth("digest", []byte("alice:secret")))
	_, err := alice.Create("/private", nil, 0, zk.DigestACL(zk.PermAll, "alice", "secret"))
	require.NoError(t, err)
	_, _, err = other.Get("/private")
	require.ErrorIs(t, err, zk.ErrNoAuth)
	_, err = other.Create("/auth", nil, 0, zk.AuthACL(zk.PermAll))
	require.ErrorIs(t, err, zk.ErrInvalidACL)
	require.NoError(t, other.AddAuth("digest", []byte("alice:secret")))
	list, st, err := other.GetACL("/private")
	require.NoError(t, err)
	require.Equal(t, zk.DigestACL(zk.PermAll, "alice", "secret"), list)
	st, err = other.SetACL("/private", zk.WorldACL(zk.PermRead), st.Aversion)
	require.NoError(t, err)
	require.EqualValues(t, 1, st.Aversion)
	require.ErrorIs(t, other.AddAuth("nosuch", nil), zk.ErrAuthFailed)
}

// TestZKClientGoZookeeperExpiry has the client live through a cut connection, a restart and the end of its session.
func TestZKClientGoZookeeperExpiry(t *testing.T) {
	srv := start(t)
	conn, events := clientOf(t, srv)
	id := conn.SessionID()
	_, err := conn.Create("/e", nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)

	// No watch is set yet: go-zookeeper 1.0.4 has a data race when it sets watches again.
	require.NoError(t, srv.Stop())
	require.NoError(t, srv.Restart())
	awaitState(t, events, zk.StateHasSession)
	require.Equal(t, id, conn.SessionID())
	_, err = conn.Set("/e", nil, -1)
	require.NoError(t, err)

	_, _, gone, err := conn.GetW("/e")
	require.NoError(t, err)
	require.True(t, srv.KillSession(id))
	awaitState(t, events, zk.StateExpired)
	require.ErrorIs(t, awaitEvent(t, gone).Err, zk.ErrSessionExpired)
	awaitState(t, events, zk.StateHasSession)
	require.NotEqual(t, id, conn.SessionID())
	found, _, err := conn.Exists("/e")
	require.NoError(t, err)
	require.False(t, found)
}

// TestZKClientGoZookeeperClose ends the session: nothing is left but the data.
func TestZKClientGoZookeeperClose(t *testing.T) {
	srv := start(t)
	conn, events, err := zk.Connect([]string{srv.Addr()}, 5*time.Second, zk.WithLogger(quiet{}))
	require.NoError(t, err)
	awaitState(t, events, zk.StateHasSession)
	_, err = conn.Create("/e", nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	_, _, _, err = conn.ChildrenW("/")
	require.NoError(t, err)
	conn.Close()
	for range events { // until its goroutines are done
	}
	require.Equal(t, zkserver.Stats{Znodes: 5}, srv.Stats())
}

// TestZKClientManyClients has clients create, watch and delete at the same time, and looks at what is left and at the numbers
// they were given.
func TestZKClientManyClients(t *testing.T) {
	srv := start(t)
	root, _ := clientOf(t, srv)
	open := zk.WorldACL(zk.PermAll)
	_, err := root.Create("/q", nil, 0, open)
	require.NoError(t, err)
	const clients, rounds = 6, 40
	names := make(chan string, clients*rounds)
	var wg sync.WaitGroup
	for range clients {
		conn, _ := clientOf(t, srv)
		wg.Go(func() {
			for range rounds {
				p, err := conn.Create("/q/x-", nil, zk.FlagSequence|zk.FlagEphemeral, open)
				if err != nil {
					t.Error(err)
					return
				}
				names <- p
				_, _, changed, err := conn.ChildrenW("/q")
				if err == nil {
					err = conn.Delete(p, -1)
				}
				if err != nil {
					t.Error(err)
					return
				}
				if e := awaitEvent(t, changed); e.Type != zk.EventNodeChildrenChanged {
					t.Error(e)
				}
			}
		})
	}
	wg.Wait()
	close(names)
	seen := map[string]bool{}
	for name := range names {
		require.False(t, seen[name], name)
		seen[name] = true
	}
	for i := range clients * rounds {
		require.True(t, seen[fmt.Sprintf("/q/x-%010d", i)], i)
	}
	_, st, err := root.Get("/q")
	require.NoError(t, err)
	require.EqualValues(t, 2*clients*rounds, st.Cversion)
	require.Zero(t, srv.Stats().Ephemerals)
	require.Zero(t, srv.Stats().Watches)
}

// TestZKClientGoZookeeperFourLetterWords has go-zookeeper parse what the words say. Of the date of the build it knows the form of
// ZooKeeper 3.6 and before only.
func TestZKClientGoZookeeperFourLetterWords(t *testing.T) {
	srv := start(t, zkserver.WithVersion("3.6.3"))
	addr := []string{srv.Addr()}
	require.Equal(t, []bool{true}, zk.FLWRuok(addr, patience))
	c := rawTo(t, srv, connection{}) // which sends no pings in between
	c.must(t, 4, body{}.str("/").flag(false))

	servers, ok := zk.FLWSrvr(addr, patience)
	require.True(t, ok, "%+v", servers[0])
	require.Equal(t, zk.ModeStandalone, servers[0].Mode)
	require.EqualValues(t, 5, servers[0].NodeCount)
	require.EqualValues(t, 2, servers[0].Connections)

	conns, _ := zk.FLWCons(addr, patience) // which cannot make anything of the connection that asks
	require.Len(t, conns[0].Clients, 1)
	require.Equal(t, c.session, conns[0].Clients[0].SessionID)
	require.Equal(t, "GETD", conns[0].Clients[0].LastOperation)
	require.EqualValues(t, 1, conns[0].Clients[0].Lzxid)
}
