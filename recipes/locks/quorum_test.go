// SPDX-License-Identifier: Apache-2.0

package locks_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/ensemble"
	"github.com/gocurator/curator/testing/zktest"
)

// TestQuorumFollowerWithoutAQuorum leaves a holder with a follower that goes on
// answering pings while a majority of the servers is silent, for longer than the
// session timeout, which is far below what StandardErrorPolicy asks for. Under
// QuorumErrorPolicy the lease ends in time, and before a rival at another server can
// get the lock.
//
// A lease under SessionErrorPolicy, held by another client of that follower meanwhile,
// shows what this is for: it goes on, which is logged as a measurement.
//
// Curator: TestWithCluster.testSplitBrain.
func TestQuorumFollowerWithoutAQuorum(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Log("three real servers are left to the full run")
		return
	}
	const (
		tick      = 500 * time.Millisecond
		syncLimit = 40 // so long does the follower keep its clients
		timeout   = 8 * time.Second
	)
	servers := zktest.NewEnsemble(t, 3, ensemble.WithTick(tick), ensemble.WithSyncLimit(syncLimit))
	leader, err := servers.Leader(t.Context())
	require.NoError(t, err)
	followers, err := servers.Followers(t.Context())
	require.NoError(t, err)
	timing := framework.WithServerTiming(tick, syncLimit)
	holder := zktest.Client(t, followers[0].Addr(), timing, framework.WithSessionTimeout(timeout))
	rival := zktest.Client(t, followers[1].Addr(), timing)

	lease := acquire(t, newMutex(t, holder, "/quorum", locks.WithErrorPolicy(framework.QuorumErrorPolicy)))
	// A client of its own: an unanswered heartbeat holds up the answers to later pings.
	pinging := zktest.Client(t, followers[0].Addr(), timing, framework.WithSessionTimeout(timeout))
	pinged := acquire(t, newMutex(t, pinging, "/pinged", locks.WithErrorPolicy(framework.SessionErrorPolicy)))
	time.Sleep(timeout + tick)
	require.NoError(t, lease.Err(), "heartbeats have renewed it: its first deadline is over")

	next := make(chan error, 1)
	theirMutex := newMutex(t, rival, "/quorum")
	go func() {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		theirs, err := theirMutex.Acquire(ctx)
		if err == nil && lease.Err() == nil {
			err = errors.New("both hold the lock")
		}
		if theirs != nil {
			err = errors.Join(err, theirs.Release(t.Context()))
		}
		next <- err
	}()

	require.NoError(t, followers[1].Pause())
	require.NoError(t, leader.Pause())
	began := time.Now()
	// No majority acknowledges a heartbeat now, so this deadline is the last one.
	deadline := holder.Session().HoldDeadline(framework.QuorumErrorPolicy)
	require.NotZero(t, deadline)
	require.LessOrEqual(t, deadline.Sub(began), timeout+tick, "the leader lets the session expire then")
	<-lease.Done()
	took := time.Since(began)
	var lost *locks.LostError
	require.ErrorAs(t, lease.Err(), &lost)
	require.Equal(t, framework.ReasonLeaseEnd, lost.Reason)
	select {
	case <-pinged.Done():
		t.Logf("measured: the quorum's lease ended after %v, that of pings after %v", took, time.Since(began))
	case <-time.After(timeout + tick - took): // the leader would have let the session expire by now
		t.Logf("measured: the quorum's lease ended after %v, that of pings goes on after %v", took, time.Since(began))
	}
	require.NoError(t, leader.Resume())
	require.NoError(t, followers[1].Resume())
	require.NoError(t, <-next)
}

// TestMutexUnderQuorumErrorPolicy: turns of it leave nothing behind, and a lease
// ends synchronously as under the other policies.
//
// See redisson#7272 and redisson#1626.
func TestMutexUnderQuorumErrorPolicy(t *testing.T) {
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		client := zktest.Client(t, server.ConnectString(),
			framework.WithErrorPolicy(framework.QuorumErrorPolicy), framework.WithServerTiming(500*time.Millisecond, 2))
		before := server.Counts(t)
		mutex := newMutex(t, client, "/locks/quorum")
		for range 20 {
			lease, err := mutex.Acquire(t.Context())
			require.NoError(t, err)
			require.NoError(t, lease.Err())
			again, err := mutex.Acquire(lease.Context(t.Context()))
			require.NoError(t, err)
			require.NoError(t, again.Release(t.Context()))
			require.NoError(t, lease.Err())
			require.NoError(t, lease.Release(t.Context()))
		}
		server.AwaitCounts(t, before, limit)

		lease, err := mutex.Acquire(t.Context())
		require.NoError(t, err)
		require.NoError(t, client.Delete(t.Context(), lease.Path()))
		<-lease.Done()
		require.Error(t, lease.Release(t.Context()))
		server.AwaitCounts(t, before, limit)
	})
}
