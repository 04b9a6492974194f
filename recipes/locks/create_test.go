// SPDX-License-Identifier: Apache-2.0

package locks_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
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
		must.Get(client.Create(zktest.Context(t), "/locks/behind", nil, framework.CreatingParentsIfNeeded()))(t)
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
		lease := must.Get(newMutex(t, client, "/locks/behind").Acquire(ctx))(t)
		require.Equal(t, 1, server.Stats().Ephemerals)
		require.Equal(t, lease.Token(), must.Get(client.Exists(zktest.Context(t), lease.Path()))(t).Czxid)
		release(t, lease)
		require.Zero(t, server.Stats().Ephemerals)
	})
}
