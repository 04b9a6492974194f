// SPDX-License-Identifier: Apache-2.0

package zkserver_test

import (
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
