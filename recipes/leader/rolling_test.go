// SPDX-License-Identifier: Apache-2.0

package leader_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/internal/testkit/seeds"
	"github.com/gocurator/curator/recipes/leader"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/ensemble"
	"github.com/gocurator/curator/testing/zktest"
)

// TestRollingReconfigurationLosesNothing has servers join and others leave, the leader of them
// included. Clients that were told of the first one that leaves, and track the ensemble, hold locks and
// lead meanwhile, and write under their leases. Only the client loses its lock that does not track.
func TestRollingReconfigurationLosesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("takes real servers")
	}
	clients, changes := 6, 1
	if seeds.Long() {
		clients, changes = 50, 2
	}
	servers := zktest.NewEnsemble(t, 3, ensemble.WithConfig("reconfigEnabled", "true"),
		ensemble.WithSuperDigest("super", "secret"), ensemble.WithSyncLimit(20))
	operator := zktest.Client(t, servers, framework.WithEnsembleTracker(), framework.WithAuth("digest", []byte("super:secret")))
	leaving := must.Get(servers.Leader(t.Context()))(t)

	// By StandardErrorPolicy each connection that moves ends the holds.
	byTheSession := framework.WithErrorPolicy(framework.SessionErrorPolicy)
	var leases []*locks.Lease
	for i := range clients {
		client := zktest.Client(t, leaving.Addr(), framework.WithEnsembleTracker(), byTheSession)
		if i%2 == 0 {
			leases = append(leases, acquire(t, client, fmt.Sprint("/locks/", i)))
			continue
		}
		latch := must.Get(leader.NewLeaderLatch(client, fmt.Sprint("/latches/", i)))(t)
		require.NoError(t, latch.Start())
		t.Cleanup(func() { require.NoError(t, latch.Close()) })
		lease := must.Get(latch.Await(zktest.Context(t)))(t)
		leases = append(leases, lease)
	}
	bound := acquire(t, zktest.Client(t, leaving.Addr(), framework.WithSessionTimeout(2*time.Second), byTheSession), "/bound")

	ended, stop := context.WithCancel(t.Context())
	var work sync.WaitGroup
	written := make([]int, clients)
	for i, lease := range leases {
		path := fmt.Sprint("/data/", i)
		must.Get(operator.Create(t.Context(), path, nil, framework.CreatingParentsIfNeeded()))(t)
		work.Go(func() {
			for ended.Err() == nil {
				_, err := lease.Transact(ended, framework.SetDataOp(path, nil))
				if errors.Is(err, framework.ErrNoNode) || lease.Err() != nil {
					t.Errorf("client %d has lost its lease: %v, %v", i, err, lease.Err())
					return
				}
				if err == nil {
					written[i]++
				}
				time.Sleep(20 * time.Millisecond) // the pace of the load
			}
		})
	}

	reconfig := func(change framework.Reconfiguration) {
		_, err := operator.Reconfig(zktest.Context(t), change)
		if err != nil && !framework.OutcomeUnknown(err) { // a leader that leaves may not answer
			require.NoError(t, err)
		}
	}
	for range changes {
		joining := must.Get(servers.Add(t.Context()))(t)
		reconfig(framework.Reconfiguration{Joining: []string{joining.Line()}})
	}
	for range changes {
		reconfig(framework.Reconfiguration{Leaving: []string{strconv.Itoa(leaving.ID())}})
		require.NoError(t, servers.Remove(leaving))
		leaving = must.Get(servers.Leader(t.Context()))(t)
	}
	zktest.Await(t, bound.Done(), "the loss of the client whose only server has left")
	stop()
	work.Wait()
	for i, lease := range leases {
		require.NoError(t, lease.Err(), "client %d", i)
		require.Positive(t, written[i])
		_, err := lease.Transact(zktest.Context(t), framework.SetDataOp(fmt.Sprint("/data/", i), nil))
		require.NoError(t, err, "client %d holds it still", i)
	}
}

func acquire(t *testing.T, client *framework.Framework, path string) *locks.Lease {
	t.Helper()
	mutex := must.Get(locks.NewInterProcessMutex(client, path))(t)
	lease := must.Get(mutex.Acquire(zktest.Context(t)))(t)
	return lease
}
