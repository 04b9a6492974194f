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
	"github.com/gocurator/curator/testing/zkproxy"
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

// unplug takes the server away until plug is called.
func unplug(link *zkproxy.Proxy) (plug func()) {
	link.Refuse(true)
	link.Cut()
	return func() { link.Refuse(false) }
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

// All candidates lose their sessions, one outage after the other. In an outage
// there is no leader; after it there is one, with a greater term.
func TestOutagesOfAllCandidates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const clients, latchesEach, times = 5, 2, 4
		link := zktest.NewProxy(t, zktest.NewServer(t, zkserver.WithoutListener()))
		var all []*framework.Framework
		var latches []*leader.LeaderLatch
		for range clients {
			client := zktest.Client(t, link)
			all = append(all, client)
			for range latchesEach {
				latches = append(latches, started(t, client))
			}
		}
		states := make(chan framework.ConnectionState, 100)
		all[0].OnConnectionState(func(state framework.ConnectionState) { states <- state })
		term := awaitOneLeader(t, latches).Token()
		for range times {
			plug := unplug(link)
			for _, client := range all {
				zktest.AwaitState(t, client, framework.Lost)
			}
			require.Empty(t, leading(latches))
			plug()

			lease := awaitOneLeader(t, latches)

			require.Greater(t, lease.Token(), term)
			term = lease.Token()
			for _, want := range []framework.ConnectionState{framework.Suspended, framework.Lost, framework.Reconnected} {
				require.Equal(t, want, zktest.Await(t, states, "a change of state"))
			}
		}
		require.Empty(t, states)
	})
}

// Under StandardErrorPolicy an outage ends a leadership at once, under
// SessionErrorPolicy only when the session may have ended. That is so for a
// latch and for a selector, and both lead again after it.
func TestOutageWhatEndsALeadershipInAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		link := zktest.NewProxy(t, zktest.NewServer(t, zkserver.WithoutListener()))
		client := zktest.Client(t, link)
		type underPolicy struct {
			policy framework.ErrorPolicy
			lease  *locks.Lease
			next   func() *locks.Lease // the one that follows
		}
		var all []underPolicy
		for _, policy := range []framework.ErrorPolicy{framework.StandardErrorPolicy, framework.SessionErrorPolicy} {
			opts := leader.WithLockOptions(locks.WithErrorPolicy(policy))
			latch := must.Get(leader.NewLeaderLatch(client, "/latches/"+policy.String(), opts))(t)
			require.NoError(t, latch.Start())
			t.Cleanup(func() { require.NoError(t, latch.Close()) })
			all = append(all, underPolicy{policy, awaitLeadership(t, latch), func() *locks.Lease { return awaitLeadership(t, latch) }})
			selector := must.Get(leader.NewLeaderSelector(client, "/selectors/"+policy.String(), opts, leader.WithAutoRequeue()))(t)
			terms, result := runs(t.Context(), selector)
			first := zktest.Await(t, terms, "a term")
			all = append(all, underPolicy{policy, locks.LeaseFrom(first.ctx), func() *locks.Lease {
				zktest.Await(t, first.ctx.Done(), "the end of the term")
				first.done <- context.Cause(first.ctx)
				again := zktest.Await(t, terms, "the next term")
				again.done <- leader.ErrStop
				require.NoError(t, zktest.Await(t, result, "the end"))
				return locks.LeaseFrom(again.ctx)
			}})
		}

		plug := unplug(link)

		time.Sleep(time.Second)
		require.Equal(t, framework.Suspended, client.State())
		for _, l := range all {
			require.Equal(t, l.policy == framework.SessionErrorPolicy, l.lease.Err() == nil, "under %v", l.policy)
		}
		for _, l := range all {
			zktest.Await(t, l.lease.Done(), "the end of a leadership")
			require.ErrorAs(t, l.lease.Err(), new(*locks.LostError))
		}
		plug()
		for _, l := range all {
			require.Greater(t, l.next().Token(), l.lease.Token())
		}
	})
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
