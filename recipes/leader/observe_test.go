// SPDX-License-Identifier: Apache-2.0

package leader_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/recipes/leader"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// sighting is one value of a sequence of leaders.
type sighting struct {
	leader *locks.Participant
	err    error
}

// observed returns what an observer sees.
func observed(ctx context.Context, t *testing.T, latch *leader.LeaderLatch) <-chan sighting {
	t.Helper()
	seen := make(chan sighting, 100)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for l, err := range latch.Observe(ctx) {
			seen <- sighting{l, err}
		}
	}()
	t.Cleanup(func() { <-done })
	return seen
}

func TestObserversSeeEachLeaderInOrder(t *testing.T) {
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		client, watcher := zktest.Client(t, server), zktest.Client(t, server)
		ctx, cancel := context.WithCancel(t.Context())
		seen := observed(ctx, t, newLatch(t, watcher))
		require.Equal(t, sighting{}, zktest.Await(t, seen, "no leader"))
		latches := []*leader.LeaderLatch{started(t, client, leader.WithID("a"))}
		first := zktest.Await(t, seen, "the first leader")
		require.NoError(t, first.err)
		require.Equal(t, "a", first.leader.Identity)
		for i, id := range []string{"b", "c"} {
			latches = append(latches, started(t, client, leader.WithID(id)))
			awaitCandidates(t, client, i+2)
		}
		term := first.leader.Token
		for i, id := range []string{"b", "c"} {
			require.NoError(t, latches[i].Close())
			next := zktest.Await(t, seen, "the next leader")
			require.NoError(t, next.err)
			require.Equal(t, id, next.leader.Identity)
			require.Greater(t, next.leader.Token, term)
			term = next.leader.Token
		}
		require.NoError(t, latches[2].Close())
		require.Equal(t, sighting{}, zktest.Await(t, seen, "no leader any more"))

		cancel()

		require.ErrorIs(t, zktest.Await(t, seen, "the end").err, context.Canceled)
	})
}

func TestObserverIsNotWokenByThoseWhoWait(t *testing.T) {
	server := zktest.NewServer(t)
	client, watcher := zktest.Client(t, server), zktest.Client(t, server)
	first := started(t, client)
	awaitLeadership(t, first)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	seen := observed(ctx, t, newLatch(t, watcher))
	zktest.Await(t, seen, "the leader")
	requests := func() (n int) {
		for _, e := range server.Log() {
			if e.Kind == zkserver.Served && e.SessionID == watcher.Session().ID() && e.Request.Op != zkserver.OpPing {
				n++
			}
		}
		return n
	}
	before := requests()

	latches := make([]*leader.LeaderLatch, 20)
	for i := range latches {
		latches[i] = started(t, client, leader.WithLockOptions(locks.WithQueuePlaces(0))) // or the others wait in memory
		awaitCandidates(t, client, i+2)
	}
	for _, latch := range latches[1:] {
		require.NoError(t, latch.Close())
	}
	require.NoError(t, first.Close())

	zktest.Await(t, seen, "the next leader")
	require.LessOrEqual(t, requests()-before, 4, "for one change, whoever came and went behind the leader")
}

func TestObserveLeavingTheLoopLeavesNothing(t *testing.T) {
	server := zktest.NewServer(t)
	t.Cleanup(func() { zktest.AssertClean(t, server) })
	latch := newLatch(t, zktest.Client(t, server))

	for l, err := range latch.Observe(t.Context()) {
		require.NoError(t, err)
		require.Nil(t, l)
		break
	}
}

func TestObserverGoesOnAfterAnErrorInsideTheServer(t *testing.T) {
	const systemError = -1
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		watcher := zktest.Client(t, server)
		awaitLeadership(t, started(t, zktest.Client(t, server), leader.WithID("a")))
		ctx, cancel := context.WithCancel(t.Context())
		failures := 0
		server.Intercept(func(r zkserver.Request) zkserver.Fault {
			if failures == 3 || r.Op != zkserver.OpGetChildren2 {
				return zkserver.Pass
			}
			failures++
			return zkserver.FailWith(systemError)
		})

		seen := zktest.Await(t, observed(ctx, t, newLatch(t, watcher)), "the leader")

		cancel()
		require.NoError(t, seen.err)
		require.Equal(t, "a", seen.leader.Identity)
		require.Equal(t, 3, failures)
	})
}
