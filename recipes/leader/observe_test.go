// SPDX-License-Identifier: Apache-2.0

package leader_test

import (
	"context"
	"math"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/leader"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/retry"
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

func TestObserverSurvivesItsSession(t *testing.T) {
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		client, watcher := zktest.Client(t, server), zktest.Client(t, server)
		first, second := started(t, client, leader.WithID("a")), newLatch(t, client, leader.WithID("b"))
		awaitLeadership(t, first)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		seen := observed(ctx, t, newLatch(t, watcher))
		zktest.Await(t, seen, "the leader")
		require.NoError(t, second.Start())
		awaitCandidates(t, client, 2)

		zktest.KillSession(t, watcher)
		require.NoError(t, first.Close())

		require.Equal(t, "b", zktest.Await(t, seen, "the next leader").leader.Identity)
	})
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

// A new session may begin at a server that is behind. An observer that has seen
// a newer leader has the server catch up before it believes an older one.
func TestObserverNeverGoesBack(t *testing.T) {
	server := zktest.NewServer(t)
	client, watcher := zktest.Client(t, server), zktest.Client(t, server)
	awaitLeadership(t, started(t, client, leader.WithID("a")))
	newer := int64(math.MaxInt64)

	err := newLatch(t, watcher).ObserveAfter(zktest.Context(t), newer, func(l *locks.Participant, err error) bool {
		require.NoError(t, err)
		require.Equal(t, "a", l.Identity)
		return false
	})

	require.NoError(t, err)
	synced := false
	for _, e := range server.Log() {
		synced = synced || e.Kind == zkserver.Served && e.Request.Op == zkserver.OpSync && e.SessionID == watcher.Session().ID()
	}
	require.True(t, synced, "it has asked again behind a sync")
}

// The server that an observer had catch up has shown the leader that is known. The next look
// may be answered by a server that is behind.
func TestObserverSyncsBeforeEachOlderLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		client, watcher := zktest.Client(t, server), zktest.Client(t, server)
		first := started(t, client, leader.WithID("a"))
		known := awaitLeadership(t, first).Token()
		second := started(t, client, leader.WithID("b"))
		awaitCandidates(t, client, 2)
		syncs := 0
		server.Intercept(func(r zkserver.Request) zkserver.Fault {
			if r.Op == zkserver.OpSync && r.SessionID == watcher.Session().ID() {
				syncs++
			}
			return zkserver.Pass
		})
		observer, ctx, ended := newLatch(t, watcher), zktest.Context(t), make(chan error, 1)
		var next *locks.Participant
		go func() {
			ended <- observer.ObserveAgain(ctx, known, math.MaxInt64, func(l *locks.Participant, _ error) bool {
				next = l
				return false
			})
		}()
		synctest.Wait()

		require.NoError(t, first.Close())

		require.NoError(t, <-ended)
		require.Equal(t, "b", next.Identity)
		require.Equal(t, 1, syncs, "it has asked again behind a sync")
		awaitLeadership(t, second)
	})
}

// A sync that has failed has brought no server up to date.
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

func TestObserverSyncsUntilItSucceeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		watcher := zktest.Client(t, server, framework.WithRetryPolicy(retry.None()))
		awaitLeadership(t, started(t, zktest.Client(t, server), leader.WithID("a")))
		server.Intercept(zkserver.Nth(1, zkserver.OpSync, zkserver.LoseRequest))
		var seen *locks.Participant

		err := newLatch(t, watcher).ObserveAfter(zktest.Context(t), math.MaxInt64, func(l *locks.Participant, _ error) bool {
			seen = l
			return false
		})

		require.NoError(t, err)
		require.Equal(t, "a", seen.Identity)
		syncs := 0
		for _, e := range server.Log() {
			if e.Kind == zkserver.Served && e.Request.Op == zkserver.OpSync {
				syncs++
			}
		}
		require.Equal(t, 1, syncs, "after the one that was lost")
	})
}
