// SPDX-License-Identifier: Apache-2.0

package leader_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/leader"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zktest"
)

// term is one term of a selector that a test has under its control.
type term struct {
	ctx  context.Context
	done chan error // what the function returns
}

// runs starts a Run whose terms come through the first channel and whose
// result comes through the second.
func runs(ctx context.Context, selector *leader.LeaderSelector) (<-chan term, <-chan error) {
	terms, result := make(chan term), make(chan error, 1)
	go func() {
		result <- selector.Run(ctx, func(ctx context.Context) error {
			t := term{ctx, make(chan error)}
			select {
			case terms <- t:
				return <-t.done
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		})
	}()
	return terms, result
}

// Each round has the candidates in the order of the first one. A term ends when all others
// stand in the queue again.
func TestSelectorLeadershipRotates(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		const candidates, rounds = 5, 3
		witness := zktest.Client(t, server)
		queue, results := make([]<-chan term, candidates), make([]<-chan error, candidates)
		selectors := make([]*leader.LeaderSelector, candidates)
		for i := range candidates {
			selectors[i] = newSelector(t, zktest.Client(t, server))
			queue[i], results[i] = runs(zktest.Context(t), selectors[i])
			awaitCandidates(t, witness, i+1) // they come in this order
		}
		for round := range rounds {
			for i := range candidates {
				term := zktest.Await(t, queue[i], fmt.Sprintf("term %d of candidate %d", round, i))
				stand := candidates
				if round == rounds-1 {
					stand -= i // the first ones have left
				}
				awaitCandidates(t, witness, stand)
				for other := range candidates {
					require.Equal(t, other == i, selectors[other].HasLeadership(), "candidate %d in the term of %d", other, i)
				}
				if round == rounds-1 {
					term.done <- nil
					require.NoError(t, zktest.Await(t, results[i], "the end"))
					continue
				}
				require.True(t, selectors[i].Requeue())
				term.done <- nil
			}
		}
	})
}

func TestSelectorAutoRequeueEndsWithItsContext(t *testing.T) {
	selector := newSelector(t, zktest.Client(t, zktest.NewServer(t)), leader.WithAutoRequeue())
	ctx, cancel := context.WithCancel(zktest.Context(t))

	err := selector.Run(ctx, func(context.Context) error { cancel(); return nil })

	require.ErrorIs(t, err, context.Canceled)
}

// Requeue promises another term, so a Run that is about to return takes none.
func TestSelectorRequeueIsNotLost(t *testing.T) {
	selector := newSelector(t, zktest.Client(t, zktest.NewServer(t)))

	requeued, err := selector.RequeueAfterItsLastTerm()

	require.NoError(t, err)
	require.False(t, requeued)
	require.NoError(t, selector.Run(zktest.Context(t), func(context.Context) error { return nil }), "the last one is over")
}

// The function uses another client, which is closed. That ends its term and not the Run.
func TestSelectorAnotherClientThatIsClosedEndsNoRun(t *testing.T) {
	selector := newSelector(t, zktest.Client(t, zktest.NewServer(t)), leader.WithAutoRequeue())
	terms, result := runs(t.Context(), selector)

	zktest.Await(t, terms, "a term").done <- fmt.Errorf("another client: %w", framework.ErrClosed)
	zktest.Await(t, terms, "another term").done <- leader.ErrStop

	require.NoError(t, zktest.Await(t, result, "the end"))
}

func TestSelectorEndOfTheClientEndsTheRun(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	selector := newSelector(t, client, leader.WithAutoRequeue())
	terms, result := runs(t.Context(), selector)
	term := zktest.Await(t, terms, "a term")

	require.NoError(t, client.Close())
	term.done <- nil

	require.ErrorIs(t, zktest.Await(t, result, "the end"), framework.ErrClosed)
}

// CURATOR-518: an interruption swallows the requeue.
// CURATOR-468: an interrupted leader cannot release.
func TestInterruptLeadership(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		selector := newSelector(t, zktest.Client(t, server))
		require.False(t, selector.InterruptLeadership(), "no term is under way")
		terms, result := runs(t.Context(), selector)
		first := zktest.Await(t, terms, "a term")
		require.True(t, selector.Requeue())
		require.False(t, selector.Requeue(), "asked for already")

		require.True(t, selector.InterruptLeadership())
		require.True(t, selector.InterruptLeadership(), "once more does no harm")

		zktest.Await(t, first.ctx.Done(), "the interruption")
		require.ErrorIs(t, context.Cause(first.ctx), leader.ErrInterrupted)
		first.done <- context.Cause(first.ctx)
		var second term
		select {
		case second = <-terms:
		case err := <-result:
			t.Fatalf("the run has ended with %v, expected the term that was asked for", err)
		case <-zktest.Context(t).Done():
			t.Fatal("there is no second term")
		}
		require.NoError(t, second.ctx.Err())
		second.done <- nil
		require.NoError(t, zktest.Await(t, result, "the end"))
		require.False(t, selector.InterruptLeadership(), "no term is under way")
	})
}

// CURATOR-337: a candidate that never led releases.
func TestSelectorContextOfARunEndsIt(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		client := zktest.Client(t, server)
		leads, waits := newSelector(t, client), newSelector(t, client, leader.WithAutoRequeue())
		leadsUntil, stop := context.WithCancel(t.Context())
		terms, result := runs(leadsUntil, leads)
		term := zktest.Await(t, terms, "a term")
		ctx, cancel := context.WithCancel(t.Context())
		_, waited := runs(ctx, waits)
		awaitCandidates(t, client, 2)

		cancel()

		require.ErrorIs(t, zktest.Await(t, waited, "the end of the wait"), context.Canceled)
		awaitCandidates(t, client, 1)
		require.NoError(t, term.ctx.Err(), "the other leads on")

		stop()

		zktest.Await(t, term.ctx.Done(), "the end of the term")
		term.done <- context.Cause(term.ctx)
		require.ErrorIs(t, zktest.Await(t, result, "the end"), context.Canceled)
		awaitCandidates(t, client, 0)
	})
}

// TestSelectorDeadlineOfARunEndsItsTerm with the error of a deadline.
func TestSelectorDeadlineOfARunEndsItsTerm(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	err := newSelector(t, zktest.Client(t, zktest.NewServer(t))).Run(ctx, func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NotErrorIs(t, err, context.Canceled)
}

func TestSelectorOneRunAtATime(t *testing.T) {
	selector := newSelector(t, zktest.Client(t, zktest.NewServer(t)))
	terms, result := runs(t.Context(), selector)
	term := zktest.Await(t, terms, "a term")

	require.ErrorIs(t, selector.Run(t.Context(), func(context.Context) error { return nil }), leader.ErrRunning)

	term.done <- nil
	require.NoError(t, zktest.Await(t, result, "the end"))
	require.False(t, selector.Requeue(), "nothing runs")
}

func TestSelectorPanicGivesTheLeadershipUp(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	selector := newSelector(t, client)

	require.PanicsWithValue(t, "ouch", func() {
		_ = selector.Run(zktest.Context(t), func(context.Context) error { panic("ouch") })
	})

	require.False(t, selector.HasLeadership())
	require.NoError(t, selector.Run(zktest.Context(t), func(context.Context) error { return nil }))
}

func TestSelectorSharesTheQueueOfAMutex(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		client := zktest.Client(t, server)
		selector := newSelector(t, client, leader.WithID("node-0"))
		terms, result := runs(t.Context(), selector)
		term := zktest.Await(t, terms, "a term")
		mutex := must.Get(locks.NewInterProcessMutex(client, election))(t)

		_, err := mutex.TryAcquire(zktest.Context(t))

		require.ErrorIs(t, err, locks.ErrNotAcquired)
		who, ok, err := selector.Leader(zktest.Context(t))
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, "node-0", who.Identity)
		term.done <- nil
		require.NoError(t, zktest.Await(t, result, "the end"))
		_, ok, err = selector.Leader(zktest.Context(t))
		require.NoError(t, err)
		require.False(t, ok)
	})
}

func TestSelectorLeaderCannotStandAgainWithTheContextOfItsTerm(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	inner := newSelector(t, client)

	err := newSelector(t, client).Run(zktest.Context(t), func(ctx context.Context) error {
		return inner.Run(ctx, func(context.Context) error { return nil })
	})

	require.ErrorIs(t, err, locks.ErrReentered)
}
