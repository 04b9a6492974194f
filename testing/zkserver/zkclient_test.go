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
func clientOf(tb testing.TB, srv *zkserver.Server) *zk.Conn {
	tb.Helper()
	conn, events, err := zk.Connect([]string{srv.Addr()}, 5*time.Second, zk.WithLogger(quiet{}))
	require.NoError(tb, err)
	tb.Cleanup(func() {
		conn.Close()
		for range events { // closed when its goroutines are done
		}
	})
	awaitState(tb, events, zk.StateHasSession)
	return conn
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

// TestZKClientManyClients has clients create, watch and delete at the same time, and looks at what is left and at the numbers
// they were given.
func TestZKClientManyClients(t *testing.T) {
	srv := start(t)
	root := clientOf(t, srv)
	open := zk.WorldACL(zk.PermAll)
	_, err := root.Create("/q", nil, 0, open)
	require.NoError(t, err)
	const clients, rounds = 6, 40
	names := make(chan string, clients*rounds)
	var wg sync.WaitGroup
	for range clients {
		conn := clientOf(t, srv)
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
