// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/testing/zkserver"
)

// TestWatchDataOfANameThatIsUsedAgain: while the request is under way, the znode is deleted
// and made anew. Its watch ends with the deletion; what the server has set all the same does
// not take the place of a persistent watch.
func TestWatchDataOfANameThatIsUsedAgain(t *testing.T) {
	inMemory(t, func(t *testing.T, n *memnet) {
		f, other := n.client(t), n.client(t)
		mustCreate(t, f, "/start")
		persistent := record(t, f, "/start", framework.WatchPersistent)
		release, arrived := make(chan struct{}), make(chan struct{})
		remove := n.server.Intercept(func(r zkserver.Request) zkserver.Fault {
			if r.Op != zkserver.OpSetWatches {
				return zkserver.Pass
			}
			close(arrived)
			return zkserver.HoldUntil(release)
		})
		defer remove()
		watches := make([]*framework.Watch, 1)
		done := make(chan error, 1)
		go func() { done <- f.Pipeline(t.Context(), framework.WatchData([]string{"/start"}, watches)) }()
		<-arrived
		require.NoError(t, other.Delete(t.Context(), "/start"))
		mustCreate(t, other, "/start")
		persistent.expect(t, deleted("/start"), created("/start"))
		close(release)
		require.NoError(t, <-done)
		require.Equal(t, deleted("/start"), fired(t, watches[0]))
		persistent.expect(t, resync)
		for range 3 {
			require.NoError(t, other.Set(t.Context(), "/start", nil))
			persistent.expect(t, changed("/start"))
		}
		persistent.Cancel()
		require.NoError(t, f.Sync(t.Context(), "/"))
		require.Zero(t, n.server.Stats().Watches)
		require.Zero(t, f.WatchedPaths())
	})
}

// TestWatchDataOnAServerThatHangsUpAtIt each time costs three connections. With a place for the error it costs
// none, unless the server reports a version of ZooKeeper.
func TestWatchDataOnAServerThatHangsUpAtIt(t *testing.T) {
	for name, said := range map[string]string{"a version": "Zookeeper version: 3.9.3, built on", "none": "ClickHouse Keeper version: v25.8.1.5101-lts"} {
		t.Run(name, func(t *testing.T) {
			inMemory(t, func(t *testing.T, n *memnet) {
				var hangUps atomic.Int64
				defer n.server.Intercept(func(r zkserver.Request) zkserver.Fault {
					if r.Op != zkserver.OpSetWatches {
						return zkserver.Pass
					}
					hangUps.Add(1)
					return zkserver.LoseRequest
				})()
				f := n.client(t, answering(n, said), framework.WithRetryPolicy(retry.Forever(time.Millisecond)))
				var refused error
				var data []byte
				watches := make([]*framework.Watch, 1)
				for range 10 {
					require.NoError(t, f.Pipeline(t.Context(), framework.ReadData("/", &data),
						framework.WatchData([]string{"/"}, watches).StoringErrorIn(&refused)))
					require.ErrorIs(t, refused, framework.ErrUnsupported)
					require.Nil(t, watches[0])
					synctest.Wait() // for the version
				}
				if name == "none" {
					require.Zero(t, hangUps.Load())
				}
				require.ErrorIs(t, f.Pipeline(t.Context(), framework.WatchData([]string{"/"}, watches)), framework.ErrUnsupported)
				require.EqualValues(t, 3, hangUps.Load())
				require.Zero(t, f.WatchedPaths())
			})
		})
	}
}

// answering has the server answer srvr with a text.
func answering(n *memnet, text string) framework.Option {
	return framework.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := n.server.Dial(ctx, network, address)
		return &answeringConn{Conn: conn, text: text}, err
	})
}

type answeringConn struct {
	net.Conn
	text   string
	answer *strings.Reader // nil for a connection that does not ask
}

func (c *answeringConn) Write(b []byte) (int, error) {
	if string(b) == "srvr" {
		c.answer = strings.NewReader(c.text)
		return len(b), nil
	}
	return c.Conn.Write(b)
}

func (c *answeringConn) Read(b []byte) (int, error) {
	if c.answer != nil {
		return c.answer.Read(b)
	}
	return c.Conn.Read(b)
}
