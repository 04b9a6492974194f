// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// countingPolicy allows some retries, without a pause, and counts how often it is
// asked.
type countingPolicy struct {
	allows int
	asked  atomic.Int64
}

func (p *countingPolicy) Next(attempt int, _ time.Duration, _ error) (time.Duration, bool) {
	p.asked.Add(1)
	return 0, attempt < p.allows
}

// throttledServer refuses every request of these operations, as one that may be made
// again, and counts them.
func throttledServer(t *testing.T, ops ...zkserver.OpCode) (*zkserver.Server, *atomic.Int64) {
	t.Helper()
	server, refused := zktest.NewServer(t), new(atomic.Int64)
	server.Intercept(func(r zkserver.Request) zkserver.Fault {
		if r.Op == zkserver.OpCreateSession || r.Op == zkserver.OpPing || r.Op == zkserver.OpCloseSession {
			return zkserver.Pass
		}
		for _, op := range ops {
			if r.Op != op {
				continue
			}
			refused.Add(1)
			return zkserver.FailWith(throttled)
		}
		if len(ops) > 0 {
			return zkserver.Pass
		}
		refused.Add(1)
		return zkserver.FailWith(throttled)
	})
	return server, refused
}

const throttled = -127

func TestWithRetryOnEveryVerb(t *testing.T) {
	server, refused := throttledServer(t)
	f := zktest.Client(t, server.Addr(), framework.WithRetryPolicy(retry.PolicyFunc(
		func(int, time.Duration, error) (time.Duration, bool) {
			t.Error("the client's policy is asked")
			return 0, false
		})))
	for name, verb := range withOption {
		refused.Store(0)
		policy := &countingPolicy{allows: 3}
		require.ErrorIs(t, verb(t.Context(), f, framework.WithRetry(policy)), framework.ServerError(throttled), name)
		require.EqualValues(t, 4, refused.Load(), name)
		require.EqualValues(t, 4, policy.asked.Load(), name)
		require.ErrorIs(t, verb(t.Context(), f, framework.WithRetry(nil)), framework.ErrInvalidOption, name)
		require.ErrorIs(t, verb(t.Context(), f, framework.WithRetry((*retry.Budget)(nil))), framework.ErrInvalidOption, name)
	}
}

func TestWithRetryWhereItMakesNoSense(t *testing.T) {
	f, ctx, o := unstarted(t), t.Context(), framework.WithRetry(retry.None())
	require.ErrorIs(t, f.Delete(ctx, "/a", framework.InBackground(), o), framework.ErrInvalidOption)
	require.ErrorIs(t, f.Pipeline(ctx, framework.ReadData("/a", nil, o), framework.ReadChildren("/a", nil)), framework.ErrInvalidOption)
	for _, op := range []framework.Op{
		framework.CreateOp("/a", nil, o), framework.SetDataOp("/a", nil, o), framework.DeleteOp("/a", o),
	} {
		_, err := f.Transact(ctx, op)
		require.ErrorIs(t, err, framework.ErrInvalidOption)
		require.ErrorContains(t, err, "WithRetry")
	}
}

// Curator: TestThreadLocalRetryLoop.testRecursingRetry, testThreadedRecursingRetry.
func TestRetryBudgetIsShared(t *testing.T) {
	server, refused := throttledServer(t, zkserver.OpGetData)
	policy := &countingPolicy{allows: 6}
	f := zktest.Client(t, server.Addr(), framework.WithRetryPolicy(policy))
	mustCreate(t, f, "/a")
	get := func(ctx context.Context) error {
		_, err := f.Get(ctx, "/a")
		return err
	}
	view := must.Get(f.UsingNamespace("x"))(t)
	runs := 0
	require.ErrorIs(t, f.Retry(t.Context(), func(ctx context.Context) error {
		runs++
		if err := f.Sync(ctx, "/a"); err != nil {
			return err
		}
		return view.Retry(ctx, get)
	}), framework.ServerError(throttled))
	require.EqualValues(t, 7, refused.Load(), "and not 343")
	require.Equal(t, 1, runs, "the innermost call is repeated in its place")

	refused.Store(0)
	own := &countingPolicy{allows: 2}
	err := f.Retry(t.Context(), func(ctx context.Context) error {
		require.Error(t, get(ctx))
		_, err := f.Get(ctx, "/a", framework.WithRetry(retry.None()))
		require.Error(t, err)
		return errors.New("not retryable")
	}, framework.WithRetry(own))
	require.ErrorContains(t, err, "not retryable")
	require.EqualValues(t, 3+1, refused.Load(), "a policy of its own has a budget of its own")

	// A context that outlives its loop is on its own again.
	refused.Store(0)
	kept := make(chan context.Context, 1)
	require.NoError(t, f.Retry(t.Context(), func(ctx context.Context) error { kept <- ctx; return nil }, framework.WithRetry(own)))
	require.Error(t, get(<-kept))
	require.EqualValues(t, 7, refused.Load())

	// So is another client.
	other := zktest.Client(t, server.Addr(), framework.WithRetryPolicy(retry.None()))
	refused.Store(0)
	require.Error(t, f.Retry(t.Context(), func(ctx context.Context) error {
		_, err := other.Get(ctx, "/a")
		return err
	}))
	require.EqualValues(t, 7, refused.Load())
}

func TestRetryThatMakesNoSense(t *testing.T) {
	f := zktest.Client(t, zktest.NewServer(t).Addr())
	never := func(context.Context) error { return errors.New("it is called") }
	require.ErrorIs(t, f.Retry(t.Context(), never, nil), framework.ErrInvalidOption)
	err := f.Retry(t.Context(), nil)
	require.ErrorIs(t, err, framework.ErrInvalidOption)
	require.EqualError(t, err, "framework: retry: invalid option: op nil, expected a function")
	require.ErrorIs(t, unstarted(t).Retry(t.Context(), never), framework.ErrNotStarted)
	err = f.Retry(t.Context(), func(context.Context) error { return &backoff.PermanentError{} })
	require.ErrorContains(t, err, "a backoff.PermanentError that holds no error", "a failure is no success")
	require.NoError(t, f.Close())
	require.ErrorIs(t, f.Retry(t.Context(), never), framework.ErrClosed)
}
