// SPDX-License-Identifier: Apache-2.0

package leader_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/leader"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// Resignations race with the start of a candidate, and four of each of its
// leaderships with each other. They leave the candidate with one node.
func TestLatchRaceRacingResignationsLeaveOneNode(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		client := zktest.Client(t, server)
		latch := newLatch(t, client)
		ctx := zktest.Context(t)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				if err := latch.Resign(ctx); err != nil {
					t.Errorf("resign: %v", err)
				}
			})
		}
		require.NoError(t, latch.Start())
		wg.Wait()
		for range 10 {
			awaitLeadership(t, latch)
			for range 4 {
				wg.Go(func() {
					if err := latch.Resign(ctx); err != nil {
						t.Errorf("resign: %v", err)
					}
				})
			}
			wg.Wait()
		}

		lease := awaitLeadership(t, latch)

		require.Len(t, must.Get(latch.Participants(zktest.Context(t)))(t), 1)
		require.NoError(t, lease.Err())
	})
}

// A listener may call the latch, and may block: nothing waits for it.
func TestLatchRaceListenerMayCallTheLatch(t *testing.T) {
	latch := newLatch(t, zktest.Client(t, zktest.NewServer(t)))
	ended, results := make(chan struct{}), make(chan error, 1)
	registration := latch.OnChange(func(c leader.Change) {
		if c.Leader {
			latch.HasLeadership()
			results <- errors.Join(latch.Resign(context.Background()), latch.Close())
			<-ended
		}
	})
	require.NoError(t, latch.Start())

	require.NoError(t, zktest.Await(t, results, "resignation and close"))

	require.False(t, latch.HasLeadership())
	close(ended)
	registration.Remove()
	<-registration.Done()
}

// atGrant runs a function when an acquisition has succeeded, before its caller
// knows: when the trace of it ends.
type atGrant struct {
	sdktrace.SpanProcessor
	run func()
}

func (g *atGrant) OnStart(context.Context, sdktrace.ReadWriteSpan) {}

func (g *atGrant) OnEnd(span sdktrace.ReadOnlySpan) {
	if span.Name() == "acquire lock" && span.Status().Code != codes.Error {
		g.run()
	}
}

func (g *atGrant) Shutdown(context.Context) error   { return nil }
func (g *atGrant) ForceFlush(context.Context) error { return nil }

// clientAtGrant returns a client that runs a function at each grant.
func clientAtGrant(t *testing.T, server zktest.Backend, run func()) *framework.Framework {
	t.Helper()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(&atGrant{run: run}))
	t.Cleanup(func() { require.NoError(t, provider.Shutdown(context.Background())) })
	return zktest.Client(t, server, framework.WithTracerProvider(provider))
}

// A latch is closed while it is granted the leadership. Its listeners hear of
// no beginning, and its node goes.
func TestLatchRaceNoBeginningIsToldAfterTheClose(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		var latch *leader.LeaderLatch
		closed := make(chan error, 1)
		client := clientAtGrant(t, server, func() {
			go func() { closed <- latch.CloseWith(leader.NotifyLeader) }()
			if _, err := latch.Await(context.Background()); !errors.Is(err, leader.ErrClosed) {
				t.Errorf("await: %v", err)
			}
		})
		latch = newLatch(t, client)
		changes := changesOf(t, latch)

		require.NoError(t, latch.Start())

		require.NoError(t, zktest.Await(t, closed, "the close"))
		awaitCandidates(t, zktest.Client(t, server), 0)
		require.Empty(t, changes)
		require.False(t, latch.HasLeadership())
	})
}

// The caller of Run leaves while it is granted the leadership. The function
// does not begin.
func TestLatchRaceTermDoesNotBeginWithAnEndedContext(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		ctx, leave := context.WithCancel(t.Context())
		client := clientAtGrant(t, server, leave)
		began := false

		err := newSelector(t, client).Run(ctx, func(context.Context) error {
			began = true
			return nil
		})

		require.ErrorIs(t, err, context.Canceled)
		require.False(t, began)
		awaitCandidates(t, zktest.Client(t, server), 0)
	})
}

// At the moment at which the session may have ended no caller is told that the
// latch leads, even before any goroutine of the latch has noticed.
func TestLatchRaceLeaderWhoseSessionIsOverDoesNotLead(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // all that comes at this moment comes one after the other
	synctest.Test(t, func(t *testing.T) {
		const callers = 64
		server := zktest.NewServer(t, zkserver.WithoutListener())
		client := zktest.Client(t, server)
		latch := started(t, client, leader.WithLockOptions(locks.WithErrorPolicy(framework.SessionErrorPolicy)))
		lease := awaitLeadership(t, latch)
		heal := server.Blackhole(client.Session().ID(), zkserver.ToClient)
		deadline := client.Session().HoldDeadline(framework.SessionErrorPolicy)
		answers := make(chan bool, callers)

		for range callers {
			go func() {
				time.Sleep(time.Until(deadline))
				answers <- latch.HasLeadership()
			}()
		}

		for range callers {
			require.False(t, <-answers)
		}
		<-lease.Done()
		heal()
	})
}

// panicsOnce is an ACL provider with a bug.
type panicsOnce struct{ done atomic.Bool }

func (p *panicsOnce) DefaultACL() []framework.ACL {
	if !p.done.Swap(true) {
		panic("the user's own fault")
	}
	return framework.OpenACL()
}

func (*panicsOnce) ACLForPath(string) []framework.ACL { return nil }

func TestLatchRacePanicOfUserCodeDoesNotEndTheLatch(t *testing.T) {
	provider := &panicsOnce{}
	client := zktest.Client(t, zktest.NewServer(t), framework.WithACLProvider(provider))

	awaitLeadership(t, started(t, client))

	require.True(t, provider.done.Load())
}
