// SPDX-License-Identifier: Apache-2.0

package leader_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/leader"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// TestProclaimIsObservedInOrderAndOnce: each value, and each leader, but no value twice, and no
// request to resign.
func TestProclaimIsObservedInOrderAndOnce(t *testing.T) {
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		client, watcher := zktest.Client(t, server), zktest.Client(t, server)
		ctx, cancel := context.WithCancel(zktest.Context(t))
		defer cancel()
		first := started(t, client, leader.WithID("a"))
		lease := awaitLeadership(t, first)
		second := started(t, client, leader.WithID("b"))
		awaitCandidates(t, client, 2)
		seen := observed(ctx, t, newLatch(t, watcher))
		require.Equal(t, "a", zktest.Await(t, seen, "the leader").leader.Identity)
		for _, value := range []string{"one", "two", "", "three"} {
			for range 2 {
				require.NoError(t, first.Proclaim(ctx, []byte(value)))
			}
			s := zktest.Await(t, seen, "the value "+value)
			require.Equal(t, value, s.leader.Identity)
			require.Equal(t, lease.Token(), s.leader.Token)
		}
		require.NoError(t, locks.AttemptRevoke(ctx, watcher, lease.Path()))
		<-lease.Revoked()
		require.ErrorIs(t, first.Proclaim(ctx, []byte("four")), leader.ErrRevoked)
		require.NoError(t, first.Close())
		require.Equal(t, "b", zktest.Await(t, seen, "the next leader").leader.Identity)
		awaitLeadership(t, second)
		require.NoError(t, second.Proclaim(ctx, []byte("five")))
		require.Equal(t, "five", zktest.Await(t, seen, "its value").leader.Identity)
	})
}

// TestProclaimIsForTheLeader: others are refused, and nothing is sent.
func TestProclaimIsForTheLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		client := zktest.Client(t, server)
		awaitLeadership(t, started(t, client))
		other := zktest.Client(t, server)
		latch, selector := started(t, other), newSelector(t, other)
		synctest.Wait()
		before := len(server.Log())
		require.ErrorIs(t, latch.Proclaim(t.Context(), nil), locks.ErrNotAcquired)
		require.ErrorIs(t, selector.Proclaim(t.Context(), nil), locks.ErrNotAcquired)
		require.Len(t, server.Log(), before)
	})
}

// TestProclaimEndsWithTheLeadership: the value of a leader that is cut off is written by no later request.
func TestProclaimEndsWithTheLeadership(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		client, other := zktest.Client(t, server), zktest.Client(t, server)
		latch := started(t, client)
		lease := awaitLeadership(t, latch)
		next := started(t, other, leader.WithID("next"))
		synctest.Wait()
		heal := server.Blackhole(client.Session().ID(), zkserver.Both)
		defer heal()
		var lost *locks.LostError
		proclaimed := make(chan error, 1)
		go func() { proclaimed <- latch.Proclaim(context.Background(), []byte("late")) }()
		<-lease.Done()
		ended := time.Now()
		require.ErrorAs(t, <-proclaimed, &lost)
		require.Equal(t, ended, time.Now())
		awaitLeadership(t, next)
		heal()
		time.Sleep(time.Minute)
		found, _, err := next.Leader(t.Context())
		require.NoError(t, err)
		require.Equal(t, "next", found.Identity)
	})
}

// TestProclaimOfALeaderWhoseNodeIsGoneTellsTheLoss, whether the lease has heard of it or not.
func TestProclaimOfALeaderWhoseNodeIsGoneTellsTheLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		client, other := zktest.Client(t, server), zktest.Client(t, server)
		latch := started(t, client)
		for _, op := range []zkserver.OpCode{zkserver.OpGetData, zkserver.OpSetData} {
			lease := awaitLeadership(t, latch)
			asked := make(chan struct{})
			remove := server.Intercept(func(r zkserver.Request) zkserver.Fault {
				if r.Op == op && r.SessionID == client.Session().ID() {
					return zkserver.HoldUntil(asked)
				}
				return zkserver.Pass
			})
			result := make(chan error, 1)
			go func() { result <- latch.Proclaim(t.Context(), []byte("value")) }()
			synctest.Wait()
			go func() {
				defer close(asked)
				if err := other.Delete(t.Context(), lease.Path()); err != nil {
					t.Error(err)
				}
			}()
			require.ErrorAs(t, <-result, new(*locks.LostError))
			remove()
			<-lease.Done()
		}
	})
}

// TestProclaimWritesOverNoRequestToResign that comes between its read and its write.
func TestProclaimWritesOverNoRequestToResign(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		client, other := zktest.Client(t, server), zktest.Client(t, server)
		lead := func(ctx context.Context, selector *leader.LeaderSelector) error {
			lease := locks.LeaseFrom(ctx)
			written := make(chan struct{})
			remove := server.Intercept(func(r zkserver.Request) zkserver.Fault {
				if r.Op == zkserver.OpSetData && r.SessionID == client.Session().ID() {
					return zkserver.HoldUntil(written)
				}
				return zkserver.Pass
			})
			defer remove()
			result := make(chan error, 1)
			go func() { result <- selector.Proclaim(ctx, []byte("value")) }()
			synctest.Wait()
			require.NoError(t, locks.AttemptRevoke(ctx, other, lease.Path()))
			close(written)
			require.ErrorIs(t, <-result, leader.ErrRevoked)
			<-lease.Revoked()
			return errors.New("done")
		}
		selector := newSelector(t, client)
		require.ErrorContains(t, selector.Run(t.Context(), func(ctx context.Context) error { return lead(ctx, selector) }), "done")
	})
}

// TestProclaimBadInput is refused before anything is sent.
func TestProclaimBadInput(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	latch := started(t, client)
	awaitLeadership(t, latch)
	var none context.Context
	require.ErrorContains(t, latch.Proclaim(none, nil), "context nil, expected")
	require.ErrorContains(t, latch.Proclaim(t.Context(), []byte("__REVOKE__")), "expected another value")
	require.ErrorIs(t, latch.Proclaim(t.Context(), make([]byte, 2<<20)), framework.ErrTooLarge)
}

func healthOf(t *testing.T, l *leader.LeaderLatch) (status int, body string) {
	t.Helper()
	answer := httptest.NewRecorder()
	l.HealthHandler().ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), "GET", "/", nil))
	return answer.Code, answer.Body.String()
}

// TestHealthOfALeaderWithoutAConnection: it leads while its leadership is valid.
func TestHealthOfALeaderWithoutAConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		client := zktest.Client(t, server, framework.WithErrorPolicy(framework.SessionErrorPolicy))
		latch := started(t, client)
		lease := awaitLeadership(t, latch)
		allow := server.Refuse()
		defer allow()
		server.Cut(client.Session().ID(), 1)
		time.Sleep(time.Second)
		require.Error(t, client.Health().Err)
		status, body := healthOf(t, latch)
		require.Equal(t, 200, status)
		require.Contains(t, body, `{"role":"leader","term":`)
		<-lease.Done()
		status, _ = healthOf(t, latch)
		require.Equal(t, 503, status)
	})
}

// TestHealthOfAnElection: the handler tells leader, candidate and outage apart.
func TestHealthOfAnElection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		client := zktest.Client(t, server)
		ask := func(l *leader.LeaderLatch) (int, string) { return healthOf(t, l) }
		first := started(t, client)
		awaitLeadership(t, first)
		other := zktest.Client(t, server)
		second := started(t, other)
		synctest.Wait()
		status, body := ask(first)
		require.Equal(t, 200, status)
		require.Contains(t, body, `{"role":"leader","term":`)
		status, body = ask(second)
		require.Equal(t, 200, status)
		require.JSONEq(t, `{"role":"candidate"}`, body)
		third := must.Get(leader.NewLeaderLatch(client, first.Path()))(t)
		for _, want := range []error{leader.ErrNotStarted, leader.ErrClosed} { // it cannot come to lead
			status, body = ask(third)
			require.Equal(t, 503, status)
			require.JSONEq(t, fmt.Sprintf(`{"role":"outage","error":%q}`, want), body)
			require.NoError(t, third.Close())
		}
		allow := server.Refuse()
		for _, c := range []*framework.Framework{client, other} {
			server.Cut(c.Session().ID(), 1)
		}
		time.Sleep(time.Second)
		for _, latch := range []*leader.LeaderLatch{first, second} {
			status, body = ask(latch)
			require.Equal(t, 503, status)
			require.Contains(t, body, `{"role":"outage","error":`)
		}
		allow()
	})
}
