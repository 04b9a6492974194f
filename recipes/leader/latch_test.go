// SPDX-License-Identifier: Apache-2.0

package leader_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/leader"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/ensemble"
	"github.com/gocurator/curator/testing/zkproxy"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// CURATOR-537: the token is not of the node that leads.
func TestLatchLeadersComeInTheOrderOfTheirStart(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		const candidates = 5
		client := zktest.Client(t, server)
		latches := make([]*leader.LeaderLatch, candidates)
		for i := range latches {
			latches[i] = started(t, client, leader.WithID(fmt.Sprintf("candidate-%d", i)), leader.WithLockOptions(locks.WithQueuePlaces(0)))
			awaitCandidates(t, client, i+1)
		}
		var term int64
		for i, latch := range latches {
			lease := awaitLeadership(t, latch)
			require.True(t, latch.HasLeadership())
			require.Greater(t, lease.Token(), term, "terms rise")
			term = lease.Token()
			for j, other := range latches {
				require.Equal(t, i == j, other.HasLeadership(), "candidate %d", j)
			}
			who, ok, err := latches[(i+1)%candidates].Leader(zktest.Context(t))
			require.NoError(t, err)
			require.True(t, ok)
			require.Equal(t, fmt.Sprintf("candidate-%d", i), who.Identity)
			require.Equal(t, term, who.Token)
			require.NoError(t, latch.Close())
			require.False(t, latch.HasLeadership())
		}
	})
}

// CURATOR-83: no listener is told when the leader closes.
func TestLatchBeginningsAndEndsAlternate(t *testing.T) {
	for mode, ends := range map[leader.CloseMode]int{leader.Silent: 1, leader.NotifyLeader: 2} {
		eachBackendNamed(t, fmt.Sprint(mode), func(t *testing.T, server zktest.Backend) {
			client := zktest.Client(t, server)
			latch := newLatch(t, client, leader.WithCloseMode(mode))
			changes := changesOf(t, latch)
			require.NoError(t, latch.Start())

			first := zktest.Await(t, changes, "the first beginning")
			require.True(t, first.Leader)
			require.NoError(t, first.Err)
			lease := awaitLeadership(t, latch)
			require.Equal(t, lease.Token(), first.Term)
			require.NoError(t, latch.Resign(zktest.Context(t)))
			require.ErrorIs(t, lease.Err(), locks.ErrReleased)
			require.Equal(t, leader.Change{Term: first.Term, Err: locks.ErrReleased}, zktest.Await(t, changes, "the first end"))
			second := zktest.Await(t, changes, "the second beginning")
			require.True(t, second.Leader)
			require.Greater(t, second.Term, first.Term)

			require.NoError(t, latch.Close())

			if ends == 2 {
				last := zktest.Await(t, changes, "the end at the close")
				require.Equal(t, leader.Change{Term: second.Term, Err: leader.ErrClosed}, last)
			}
			require.Empty(t, changes)
		})
	}
}

func TestCloseLogsARemovalThatFails(t *testing.T) {
	for fault, isLogged := range map[zkserver.Fault]bool{zkserver.Pass: false, zkserver.FailWith(-102): true} {
		synctest.Test(t, func(t *testing.T) {
			server := zktest.NewServer(t, zkserver.WithoutListener())
			client, log := logging(t, server)
			latch := started(t, client)
			awaitLeadership(t, latch)
			server.Intercept(func(r zkserver.Request) zkserver.Fault {
				if r.Op == zkserver.OpDelete {
					return fault
				}
				return zkserver.Pass
			})

			require.NoError(t, latch.Close())

			require.Equal(t, isLogged, strings.Contains(log(), "could not leave its election"))
		})
	}
}

// Another goroutine has released the leadership, and the server has not answered yet.
func TestCloseReturnsWhenAResignedLeaderIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const roundTrip = 50 * time.Millisecond
		server := zktest.NewServer(t, zkserver.WithoutListener())
		latch := started(t, zktest.Client(t, server))
		awaitLeadership(t, latch)
		server.Intercept(zkserver.Nth(1, zkserver.OpDelete, zkserver.Delay(roundTrip)))
		resigned := make(chan error, 1)
		go func() { resigned <- latch.Resign(context.Background()) }()
		time.Sleep(roundTrip / 2)

		require.NoError(t, latch.Close())

		require.Empty(t, must.Get(latch.Participants(t.Context()))(t))
		require.NoError(t, <-resigned)
	})
}

// CURATOR-653: two leaders after a reset during a change.
func TestLatchEndIsToldBeforeTheNodeGoes(t *testing.T) {
	server := zktest.NewServer(t)
	latch := started(t, zktest.Client(t, server))
	awaitLeadership(t, latch)
	changes := changesOf(t, latch)
	release := make(chan struct{})
	server.Intercept(zkserver.Nth(1, zkserver.OpDelete, zkserver.HoldUntil(release)))
	closed := make(chan error, 1)

	go func() { closed <- latch.CloseWith(leader.NotifyLeader) }()

	require.False(t, zktest.Await(t, changes, "the end, while the server keeps the node").Leader)
	require.Empty(t, closed)
	close(release)
	require.NoError(t, zktest.Await(t, closed, "the close"))
}

func TestCloseReturnsWhenAWaitingCandidateIsGone(t *testing.T) {
	server := zktest.NewServer(t)
	client := zktest.Client(t, server)
	awaitLeadership(t, started(t, client))
	waiting := started(t, client)
	awaitCandidates(t, client, 2)
	asked, release := make(chan string, 10), make(chan struct{})
	server.Intercept(func(r zkserver.Request) zkserver.Fault {
		if r.Op != zkserver.OpDelete {
			return zkserver.Pass
		}
		asked <- r.Path
		return zkserver.HoldUntil(release)
	})
	closed := make(chan error, 1)

	go func() { closed <- waiting.Close() }()

	zktest.Await(t, asked, "the request to delete the node")
	require.Never(t, func() bool { return len(closed) > 0 }, 50*time.Millisecond, time.Millisecond)
	close(release)
	require.NoError(t, zktest.Await(t, closed, "the close"))
	require.Len(t, must.Get(waiting.Participants(zktest.Context(t)))(t), 1)
}

// CURATOR-653: two leaders after a reset during a change.
func TestLatchResignedLeadershipEndsBeforeItsNodeGoes(t *testing.T) {
	server := zktest.NewServer(t)
	latch := started(t, zktest.Client(t, server))
	lease := awaitLeadership(t, latch)
	over := make(chan bool, 1)
	server.Intercept(func(r zkserver.Request) zkserver.Fault {
		if r.Op == zkserver.OpDelete && r.Path == lease.Path() {
			select {
			case <-lease.Done():
				over <- !latch.HasLeadership()
			default:
				over <- false
			}
		}
		return zkserver.Pass
	})

	require.NoError(t, latch.Resign(zktest.Context(t)))

	require.True(t, zktest.Await(t, over, "the request to delete the node"), "it has ended before")
}

// CURATOR-110: started before the server, a candidate never joins.
func TestCloseWithoutEverAConnection(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		client, connect := unconnected(t, server)
		latch := started(t, client)

		require.NoError(t, latch.Close())

		_, err := latch.Await(zktest.Context(t))
		require.ErrorIs(t, err, leader.ErrClosed)
		connect()
		require.Nil(t, must.Get(client.Exists(zktest.Context(t), election))(t), "nothing was begun that goes on without it")
	})
}

// A candidate that has stood in the queue for long does not pay for the failures before that.
func TestLatchNextAttemptAfterALongStandingComesSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const noAuth = -102
		server := zktest.NewServer(t, zkserver.WithoutListener())
		client, other := zktest.Client(t, server), zktest.Client(t, server)
		rival := started(t, other)
		awaitLeadership(t, rival)
		var refuse atomic.Bool
		server.Intercept(func(r zkserver.Request) zkserver.Fault {
			if refuse.Load() && r.SessionID == client.Session().ID() {
				return zkserver.FailWith(noAuth)
			}
			return zkserver.Pass
		})
		refuse.Store(true)
		latch := started(t, client)
		time.Sleep(5 * time.Minute) // the pauses are at their longest
		refuse.Store(false)
		awaitCandidates(t, other, 2)
		time.Sleep(5 * time.Minute)
		refuse.Store(true)
		require.NoError(t, rival.Close())
		time.Sleep(time.Millisecond) // for the failure

		refuse.Store(false)

		began := time.Now()
		for !latch.HasLeadership() {
			time.Sleep(10 * time.Millisecond)
			require.Less(t, time.Since(began), time.Second)
		}
	})
}

// CURATOR-18: closed while its creation is in flight, a candidate leaves a node.
func TestLatchNothingIsLeftOfALatchClosedDuringItsCreation(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		other := zktest.Client(t, server)
		awaitLeadership(t, started(t, other))
		client, link := zktest.ClientViaProxy(t, server)
		link.Intercept(zkproxy.Nth(1, zkproxy.OpCreate2, zkproxy.CutAfter))
		latch := started(t, client)
		zktest.AwaitEvent(t, link, func(e zkproxy.Event) bool { return e.Action == zkproxy.Withheld })

		require.NoError(t, latch.Close())

		awaitCandidates(t, other, 1)
	})
}

// CURATOR-696: two leaders, as the node of an old session is still listed.
func TestLatchLostSessionMakesAnotherTheLeader(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		client, rival := zktest.Client(t, server), zktest.Client(t, server)
		first := started(t, client)
		lease := awaitLeadership(t, first)
		changes := changesOf(t, first)
		second := started(t, rival)
		awaitCandidates(t, rival, 2)

		zktest.KillSession(t, client)

		next := awaitLeadership(t, second)
		zktest.Await(t, lease.Done(), "the end of the leadership") // no client can know before an operator's kill
		require.False(t, first.HasLeadership())
		end := zktest.Await(t, changes, "the end")
		require.False(t, end.Leader)
		require.ErrorAs(t, end.Err, new(*locks.LostError))
		awaitCandidates(t, rival, 2) // it stands again
		require.NoError(t, next.Err(), "the first does not regain it")
		require.NoError(t, second.Close())
		require.Greater(t, awaitLeadership(t, first).Token(), next.Token())
	})
}

func TestLatchShortOutageUnderEachPolicy(t *testing.T) {
	for policy, keeps := range map[framework.ErrorPolicy]bool{
		framework.StandardErrorPolicy: false, framework.SessionErrorPolicy: true,
	} {
		eachBackendNamed(t, policy.String(), func(t *testing.T, server zktest.Backend) {
			if keeps {
				server.Requires(t, ensemble.ResumedSessions)
			}
			client, link := zktest.ClientViaProxy(t, server)
			latch := newLatch(t, client, leader.WithLockOptions(locks.WithErrorPolicy(policy)))
			changes := changesOf(t, latch)
			require.NoError(t, latch.Start())
			first := zktest.Await(t, changes, "the election")
			path := awaitLeadership(t, latch).Path()

			link.Cut()

			if keeps {
				zktest.AwaitState(t, client, framework.Reconnected)
				require.Equal(t, path, awaitLeadership(t, latch).Path(), "the same znode")
				require.Empty(t, changes)
				return
			}
			require.Equal(t, first.Term, zktest.Await(t, changes, "the end").Term)
			again := zktest.Await(t, changes, "the next beginning")
			require.True(t, again.Leader)
			require.Greater(t, again.Term, first.Term)
		})
	}
}

func TestLatchThereNeedBeNoLeader(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		latch := newLatch(t, zktest.Client(t, server))

		_, ok, err := latch.Leader(zktest.Context(t))
		require.NoError(t, err)
		require.False(t, ok)
		require.Empty(t, must.Get(latch.Participants(zktest.Context(t)))(t))
		require.NoError(t, latch.Resign(zktest.Context(t)), "a latch that does not lead has nothing to resign")
	})
}

func TestAwaitEndsWithItsContext(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	leads := started(t, client)
	awaitLeadership(t, leads)
	latch := started(t, client)
	reason := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(reason)

	_, err := latch.Await(ctx)

	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, reason)
}

func TestAwaitWithAnEndedContextFailsEvenForTheLeader(t *testing.T) {
	latch := started(t, zktest.Client(t, zktest.NewServer(t)))
	awaitLeadership(t, latch)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()

	_, err := latch.Await(ctx)

	require.ErrorIs(t, err, context.Canceled)
}

// CURATOR-365: missing rights hang the candidate.
func TestLatchMissingRightsAreToldToTheWaiter(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		owner := zktest.Client(t, server, framework.WithAuth("digest", []byte("owner:secret")))
		must.Get(owner.Create(zktest.Context(t), election, nil, framework.CreatingParentsIfNeeded(), framework.WithACL(framework.CreatorAllACL()...)))(t)
		stranger := zktest.Client(t, server)

		_, err := started(t, stranger).Await(zktest.Context(t))

		require.ErrorIs(t, err, framework.ErrNoAuth)
		require.NotErrorIs(t, err, context.DeadlineExceeded, "it is told at once")
		awaitLeadership(t, started(t, owner))
	})
}

// A refusal is over when the candidate stands in the queue, though it does not lead yet.
func TestLatchRefusalThatIsOverIsNotTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const noAuth = -102
		server := zktest.NewServer(t, zkserver.WithoutListener())
		awaitLeadership(t, started(t, zktest.Client(t, server)))
		client := zktest.Client(t, server)
		server.Intercept(zkserver.Nth(1, zkserver.OpCreate2, zkserver.FailWith(noAuth)))
		latch := started(t, client)
		_, err := latch.Await(zktest.Context(t))
		require.ErrorIs(t, err, framework.ErrNoAuth)
		awaitCandidates(t, client, 2)
		synctest.Wait()

		_, err = latch.Await(zktest.Context(t))

		require.ErrorIs(t, err, context.DeadlineExceeded, "it waits for its turn")
		require.NotErrorIs(t, err, framework.ErrNoAuth)
	})
}

// A server that has lost its quorum finds it again.
func TestLatchServerThatIsReadOnlyIsNotTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const notReadOnly = -119
		server := zktest.NewServer(t, zkserver.WithoutListener())
		server.Intercept(zkserver.Nth(1, zkserver.OpCreate2, zkserver.FailWith(notReadOnly)))

		awaitLeadership(t, started(t, zktest.Client(t, server)))
	})
}

func TestLatchBadInput(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	for name, c := range map[string]struct {
		path string
		opts []leader.Option
		want string
	}{
		"relative path":    {"election", nil, "election"},
		"nil option":       {election, []leader.Option{nil}, "a nil option"},
		"close mode":       {election, []leader.Option{leader.WithCloseMode(7)}, "close mode 7"},
		"auto requeue":     {election, []leader.Option{leader.WithAutoRequeue()}, "WithAutoRequeue"},
		"an id that asks":  {election, []leader.Option{leader.WithID("__REVOKE__")}, "__REVOKE__"},
		"nil lock options": {election, []leader.Option{leader.WithLockOptions(nil)}, "a nil option"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := leader.NewLeaderLatch(client, c.path, c.opts...)
			require.ErrorContains(t, err, c.want)
		})
	}
	_, err := leader.NewLeaderLatch(nil, election)
	require.ErrorContains(t, err, "client nil")
	_, err = leader.NewLeaderSelector(client, election, leader.WithCloseMode(leader.NotifyLeader))
	require.ErrorContains(t, err, "WithCloseMode")
	selector := newSelector(t, client)
	require.ErrorContains(t, selector.Run(t.Context(), nil), "function nil")
	//nolint:staticcheck // the nil context is what is refused
	require.ErrorContains(t, selector.Run(nil, func(context.Context) error { return nil }), "context nil")
	require.ErrorContains(t, newLatch(t, client).CloseWith(9), "close mode 9")
}

// CURATOR-537: the token is not of the node that leads.
func TestLatchLayout(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		client := zktest.Client(t, server)
		lease := awaitLeadership(t, started(t, client, leader.WithID("node-0")))

		require.Regexp(t, `^/election/_c_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}-latch-\d{10}$`, lease.Path())
		var stat framework.Stat
		require.Equal(t, "node-0", string(must.Get(client.Get(zktest.Context(t), lease.Path(), framework.StoringStatIn(&stat)))(t)))
		require.Equal(t, client.Session().ID(), stat.EphemeralOwner)
	})
}

func TestLatchMayBeClosedByManyAtOnce(t *testing.T) {
	latch := started(t, zktest.Client(t, zktest.NewServer(t)))
	awaitLeadership(t, latch)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if err := latch.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
		})
		wg.Go(func() {
			if err := latch.CloseWith(leader.NotifyLeader); err != nil {
				t.Errorf("close: %v", err)
			}
		})
	}
	wg.Wait()
	require.False(t, latch.HasLeadership())
}
