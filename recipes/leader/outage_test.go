// SPDX-License-Identifier: Apache-2.0

package leader_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/leader"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// shortSession is for candidates that are to lose their session by its timeout.
const shortSession = 8 * time.Second

// unconnected returns a client that no server has ever answered, and what connects it.
func unconnected(tb testing.TB, server zktest.Backend) (client *framework.Framework, connect func()) {
	tb.Helper()
	link := zktest.NewProxy(tb, server)
	link.Refuse(true)
	client = must.Get(framework.New(server.ConnectStringVia(link.Addr()), framework.WithLogger(slog.New(slog.DiscardHandler))))(tb)
	require.NoError(tb, client.Start())
	tb.Cleanup(func() { require.NoError(tb, client.Close()) })
	return client, func() { link.Refuse(false) }
}

// leading returns the latches that lead.
func leading(latches []*leader.LeaderLatch) (all []*leader.LeaderLatch) {
	for _, latch := range latches {
		if latch.HasLeadership() {
			all = append(all, latch)
		}
	}
	return all
}

// awaitOneLeader waits until a latch leads, and checks that no other does.
func awaitOneLeader(tb testing.TB, latches []*leader.LeaderLatch) *locks.Lease {
	tb.Helper()
	ctx, cancel := context.WithCancel(zktest.Context(tb))
	defer cancel()
	leases := make(chan *locks.Lease, len(latches))
	for _, latch := range latches {
		go func() {
			lease, err := latch.Await(ctx)
			if err != nil {
				lease = nil
			}
			leases <- lease
		}()
	}
	for range latches {
		if lease := zktest.Await(tb, leases, "a leader"); lease != nil {
			require.LessOrEqual(tb, len(leading(latches)), 1)
			return lease
		}
	}
	tb.Fatal("no candidate leads")
	return nil
}

// Candidates are led to another server that knows nothing of their election.
//
// CURATOR-724: the path of the election vanishes.
func TestOutageElectionStartsAgainOnAnEmptyServer(t *testing.T) {
	t.Parallel()
	server, empty := zktest.NewServer(t), zktest.NewServer(t)
	link := zktest.NewProxy(t, server)
	short := framework.WithSessionTimeout(shortSession) // a server that knows nothing of a session refuses its client until it has ended
	latches := []*leader.LeaderLatch{started(t, zktest.Client(t, link, short)), started(t, zktest.Client(t, link, short))}
	first := awaitOneLeader(t, latches)
	awaitCandidates(t, zktest.Client(t, server), 2)

	link.SetTarget(empty.Addr())
	link.Cut()

	zktest.Await(t, first.Done(), "the loss")
	awaitCandidates(t, zktest.Client(t, empty), 2)
	require.NotEqual(t, first.Path(), awaitOneLeader(t, latches).Path())
}

// The requests of a long outage have failed all the time, and the pauses between them have grown.
func TestOutageCandidatesAreBackWithTheirClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		client := zktest.Client(t, server, framework.WithConnectionTimeout(time.Second), framework.WithRetryPolicy(retry.None()))
		latch := started(t, client)
		selector := must.Get(leader.NewLeaderSelector(client, "/leader/selector", leader.WithAutoRequeue()))(t)
		ctx, stop := context.WithCancel(context.Background())
		var all sync.WaitGroup
		defer all.Wait()
		defer stop()
		leads, seen := make(chan struct{}, 100), make(chan *locks.Participant, 100)
		all.Go(func() {
			_ = selector.Run(ctx, func(ctx context.Context) error {
				leads <- struct{}{}
				<-ctx.Done()
				return context.Cause(ctx)
			})
		})
		all.Go(func() {
			for p, err := range latch.Observe(ctx) {
				if err == nil && p != nil {
					seen <- p
				}
			}
		})
		first := must.Get(latch.Await(ctx))(t)
		<-leads
		<-seen
		require.NoError(t, server.Stop())
		time.Sleep(5*time.Minute + 17*time.Second)
		require.NoError(t, server.Restart())
		require.NoError(t, client.BlockUntilConnected(ctx))
		back := time.Now()

		second := must.Get(latch.Await(ctx))(t)
		require.Greater(t, second.Token(), first.Token())
		<-leads
		require.Less(t, time.Since(back), time.Second)
		for p := range seen {
			if p.Token == second.Token() {
				break
			}
		}
		require.Less(t, time.Since(back), time.Second)
	})
}
