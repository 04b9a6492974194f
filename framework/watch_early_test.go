// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
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
	for name, opts := range map[string][]zkserver.Option{"a version": nil, "none": {zkserver.WithKeeper()}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := zktest.NewServer(t, append(opts, zkserver.WithoutListener())...)
				var hangUps atomic.Int64
				defer server.Intercept(func(r zkserver.Request) zkserver.Fault {
					if r.Op != zkserver.OpSetWatches {
						return zkserver.Pass
					}
					hangUps.Add(1)
					return zkserver.LoseRequest
				})()
				f := zktest.Client(t, server, framework.WithRetryPolicy(retry.Forever(time.Millisecond)))
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
