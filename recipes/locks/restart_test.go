// SPDX-License-Identifier: Apache-2.0

package locks_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zktest"
)

// Three servers are restarted one after the other, under twenty locks and their
// waiters. No lock is lost, and every waiter has kept its place.
func TestOutageRollingRestartCostsNoLock(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("needs Java: an ensemble of three real servers")
	}
	servers := zktest.NewEnsemble(t, 3)
	const clients = 4
	var leases []*locks.Lease
	var waiting []<-chan outcome
	var places []locks.Participant
	connect := func() *framework.Framework {
		return zktest.Client(t, servers.ConnectString(), framework.WithErrorPolicy(framework.SessionErrorPolicy))
	}
	for range clients {
		holder, waiter := connect(), connect()
		for range 5 {
			path := fmt.Sprintf("/locks/%d", len(leases))
			leases = append(leases, acquire(t, newMutex(t, holder, path)))
			m := newMutex(t, waiter, path)
			waiting = append(waiting, acquireLater(zktest.Context(t), m))
			places = append(places, awaitQueue(t, m, 2)[1])
		}
	}
	for _, server := range servers.Servers() {
		require.NoError(t, server.Stop())
		require.NoError(t, server.Restart(zktest.Context(t)))
	}
	for i, lease := range leases {
		require.NoError(t, lease.Err(), "lock %d", i)
		require.Empty(t, waiting[i], "lock %d", i)
		_, err := lease.Transact(zktest.Context(t), framework.CheckOp("/", framework.AnyVersion))
		require.NoError(t, err, "lock %d", i)
		release(t, lease)
		o := await(t, waiting[i])
		require.NoError(t, o.err)
		require.Equal(t, places[i].Token, o.lease.Token(), "lock %d", i)
		release(t, o.lease)
	}
}
