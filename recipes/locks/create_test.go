// SPDX-License-Identifier: Apache-2.0

package locks_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/testing/zkproxy"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// The node is created, the reply is lost with the connection, and the server that
// is asked next is behind until it is told to sync (CURATOR-264): the node is found
// all the same, and is the only one.
//
// See CURATOR-3, CURATOR-79, samuel/go-zookeeper#229 and samuel/go-zookeeper#237.
func TestCreateOneNodeAlthoughTheNextServerIsBehind(t *testing.T) {
	runTrials(t, func(t *testing.T, _ int) {
		server := zktest.NewServer(t)
		client := zktest.Client(t, server.Addr())
		_, err := client.Create(zktest.Context(t), "/locks/behind", nil, framework.CreatingParentsIfNeeded())
		require.NoError(t, err)
		ctx, giveUp := context.WithCancel(zktest.Context(t))
		defer giveUp()
		var thaw func()
		created := 0
		defer server.Intercept(func(r zkserver.Request) zkserver.Fault {
			if r.Op == zkserver.OpSync {
				thaw()
			}
			if r.Op != zkserver.OpCreate2 {
				return zkserver.Pass
			}
			if created++; created == 1 {
				thaw = server.FreezeReads(0) // before the node is there
				return zkserver.LoseReply
			}
			t.Errorf("creation %d of the node", created)
			giveUp()
			return zkserver.Pass
		})()
		lease, err := newMutex(t, client, "/locks/behind").Acquire(ctx)
		require.NoError(t, err)
		require.Equal(t, 1, server.Stats().Ephemerals)
		stat, err := client.Exists(zktest.Context(t), lease.Path())
		require.NoError(t, err)
		require.Equal(t, lease.Token(), stat.Czxid)
		release(t, lease)
		require.Zero(t, server.Stats().Ephemerals)
	})
}

// As above with three real servers: the client is led to another one after its
// reply was lost.
//
// See CURATOR-3, CURATOR-79, CURATOR-264, samuel/go-zookeeper#229 and samuel/go-zookeeper#237.
func TestCreateOneNodeAlthoughTheClientMovesOn(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("needs Java: an ensemble of three real servers")
	}
	servers := zktest.NewEnsemble(t, 3)
	observer := zktest.Client(t, servers.ConnectString())
	for trial := range trials() {
		path := fmt.Sprintf("/locks/%d", trial)
		link := zktest.NewProxy(t, servers.Server(trial%3).Addr())
		client := zktest.Client(t, link.Addr())
		var lost atomic.Bool
		link.Intercept(func(f zkproxy.Frame) zkproxy.Verdict {
			if f.Direction != zkproxy.ToClient || f.Op != zkproxy.OpCreate2 || f.Err != 0 || !lost.CompareAndSwap(false, true) {
				return zkproxy.Pass
			}
			link.SetTarget(servers.Server((trial + 1) % 3).Addr())
			return zkproxy.CutBefore
		})
		m := newMutex(t, client, path)
		lease := acquire(t, m)
		require.True(t, lost.Load())
		require.NoError(t, observer.Sync(zktest.Context(t), path))
		queue := awaitQueue(t, newMutex(t, observer, path), 1)
		require.Equal(t, lease.Path(), queue[0].Path)
		require.Equal(t, lease.Token(), queue[0].Token)
		release(t, lease)
	}
}
