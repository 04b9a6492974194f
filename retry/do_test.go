// SPDX-License-Identifier: Apache-2.0

package retry_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/retry"
)

// attempts records when an operation was called, as time since its first call.
type attempts struct {
	first time.Time
	at    []time.Duration
}

func (a *attempts) record() int {
	if a.at == nil {
		a.first = time.Now()
	}
	a.at = append(a.at, time.Since(a.first))
	return len(a.at)
}

// fail is an operation that always fails, with an error of its own each time.
func (a *attempts) fail(context.Context) error {
	return fmt.Errorf("try %d: %w", a.record(), errTest)
}

func TestDoSuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tries attempts
		err := retry.Do(t.Context(), retry.NTimes(5, time.Second), func(context.Context) error {
			if tries.record() < 3 {
				return errTest
			}
			return nil
		})
		require.NoError(t, err)
		require.Equal(t, times(time.Second, 0, 2), tries.at)
	})
}

func TestDoReturnsTheLastErrorWhenThePolicyGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tries attempts
		err := retry.Do(t.Context(), retry.NTimes(3, time.Second), tries.fail)
		require.EqualError(t, err, "try 4: test: connection lost")
		require.ErrorIs(t, err, errTest)
		require.Equal(t, times(time.Second, 0, 3), tries.at)
	})
}

func TestDoWithoutRetries(t *testing.T) {
	for name, policy := range map[string]retry.Policy{"none": retry.None(), "nil": nil} {
		var tries attempts
		require.EqualError(t, retry.Do(t.Context(), policy, tries.fail), "try 1: test: connection lost", name)
	}
}

func TestDoWithoutOperation(t *testing.T) {
	require.EqualError(t, retry.Do(t.Context(), retry.None(), nil), "retry: op is nil, expected the function to run")
	var none context.Context
	called := func(context.Context) error { panic("not reached") }
	require.EqualError(t, retry.Do(none, retry.None(), called), "retry: context is nil, expected one such as context.Background()")
}

func TestDoTellsThePolicyWhatHappened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type question struct {
			attempt int
			elapsed time.Duration
			err     string
		}
		var asked []question
		policy := retry.PolicyFunc(func(attempt int, elapsed time.Duration, err error) (time.Duration, bool) {
			asked = append(asked, question{attempt, elapsed, err.Error()})
			return time.Second, attempt < 2
		})
		var tries attempts
		err := retry.Do(t.Context(), policy, func(ctx context.Context) error {
			defer time.Sleep(10 * time.Second)
			return tries.fail(ctx)
		})
		require.ErrorIs(t, err, errTest)
		require.Equal(t, []question{
			{0, 10 * time.Second, "try 1: test: connection lost"},
			{1, 21 * time.Second, "try 2: test: connection lost"},
			{2, 32 * time.Second, "try 3: test: connection lost"},
		}, asked)
	})
}

// Curator: TestRetryLoop, all.
func TestDoUntilElapsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var tries attempts
		require.ErrorIs(t, retry.Do(t.Context(), retry.UntilElapsed(2500*time.Millisecond, time.Second), tries.fail), errTest)
		require.Equal(t, times(time.Second, 0, 3), tries.at, "the last try begins after the limit, by less than one wait")
	})
}

func TestDoTakesNegativeWaitsAsZero(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// -1 is backoff.Stop, which only ok == false may mean.
		policy := retry.PolicyFunc(func(attempt int, _ time.Duration, _ error) (time.Duration, bool) {
			return backoff.Stop, attempt < 2
		})
		var tries attempts
		require.ErrorIs(t, retry.Do(t.Context(), policy, tries.fail), errTest)
		require.Equal(t, []time.Duration{0, 0, 0}, tries.at)
	})
}

func TestDoPassesTheContextOn(t *testing.T) {
	type key struct{}
	ctx := context.WithValue(t.Context(), key{}, "value")
	require.NoError(t, retry.Do(ctx, retry.None(), func(ctx context.Context) error {
		if ctx.Value(key{}) != "value" {
			return errors.New("not the context given to Do")
		}
		return nil
	}))
}

func TestDoPermanent(t *testing.T) {
	inner := fmt.Errorf("no node: %w", errTest)
	tests := []struct {
		name string
		err  error
		want error
	}{
		{"bare", backoff.Permanent(inner), inner},
		{"wrapped", fmt.Errorf("get /a: %w", backoff.Permanent(inner)), inner},
		{"joined", errors.Join(errTest, fmt.Errorf("get /a: %w", backoff.Permanent(inner))), inner},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var calls int
			err := retry.Do(t.Context(), retry.Forever(0), func(context.Context) error { calls++; return tt.err })
			require.Equal(t, tt.want, err)
			require.Equal(t, 1, calls)
		})
	}
	t.Run("empty", func(t *testing.T) {
		err := retry.Do(t.Context(), retry.Forever(0), func(context.Context) error { return &backoff.PermanentError{} })
		require.EqualError(t, err, "retry: op returned a backoff.PermanentError that holds no error")
	})
	t.Run("after the end of the context", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		err := retry.Do(ctx, retry.Forever(0), func(context.Context) error { cancel(); return backoff.Permanent(inner) })
		require.Equal(t, inner, err)
	})
}

var errCause = errors.New("test: lease lost")

func TestDoDoesNotStartAfterTheEndOfTheContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errCause)
	var tries attempts
	err := retry.Do(ctx, retry.Forever(0), tries.fail)
	require.ErrorIs(t, err, errCause)
	require.ErrorIs(t, err, context.Canceled)
	require.Empty(t, tries.at)
}

func TestDoStopsWaitingWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(2500*time.Millisecond, func() { cancel(errCause) })
		start := time.Now()
		var tries attempts
		err := retry.Do(ctx, retry.Forever(time.Second), tries.fail)
		require.Equal(t, 2500*time.Millisecond, time.Since(start), "Do must return when the context ends")
		require.ErrorIs(t, err, errCause)
		require.ErrorIs(t, err, errTest)
		require.ErrorIs(t, err, context.Canceled)
		require.EqualError(t, err, "retry: stopped: context canceled: test: lease lost; last error: try 3: test: connection lost")
		require.Equal(t, times(time.Second, 0, 2), tries.at)
	})
}

// TestDoPrefersTheContextToTheNextTry has both the wait and the context ended when Do looks, and a select picks one at
// random.
func TestDoPrefersTheContextToTheNextTry(t *testing.T) {
	for range 50 {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			endsTheContext := retry.PolicyFunc(func(int, time.Duration, error) (time.Duration, bool) {
				cancel(errCause)
				return time.Millisecond, true
			})
			var tries attempts
			err := retry.Do(lateContext{ctx}, endsTheContext, tries.fail)
			require.ErrorIs(t, err, errCause)
			require.ErrorIs(t, err, errTest)
			require.Len(t, tries.at, 1, "op must not be called after the end of its context")
		})
	}
}

// lateContext answers Done only when the wait that began before has ended too.
type lateContext struct{ context.Context }

func (c lateContext) Done() <-chan struct{} {
	time.Sleep(time.Second)
	return c.Context.Done()
}

func TestDoStopsWhenTheContextEndsDuringATry(t *testing.T) {
	for name, policy := range map[string]retry.Policy{
		"forever":       retry.Forever(0),
		"without pause": retry.PolicyFunc(func(int, time.Duration, error) (time.Duration, bool) { return 0, true }),
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			var tries attempts
			err := retry.Do(ctx, policy, func(ctx context.Context) error {
				cancel(errCause)
				return tries.fail(ctx)
			})
			require.ErrorIs(t, err, errCause)
			require.ErrorIs(t, err, errTest)
			require.Len(t, tries.at, 1)
		})
	}
}

func TestDoReturnsAnErrorThatNamesTheCauseAlone(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	want := fmt.Errorf("framework: get /a: %w", errCause)
	err := retry.Do(ctx, retry.Forever(0), func(context.Context) error { cancel(errCause); return want })
	require.Equal(t, want, err)
}

// TestDoReturnsTheLastErrorWhenThePolicyGivesUpAsTheContextEnds pins that the verdict of the policy comes first.
func TestDoReturnsTheLastErrorWhenThePolicyGivesUpAsTheContextEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	policy := retry.PolicyFunc(func(int, time.Duration, error) (time.Duration, bool) { cancel(); return 0, false })
	var tries attempts
	require.EqualError(t, retry.Do(ctx, policy, tries.fail), "try 1: test: connection lost")
}

func TestDoLetsAPanicPass(t *testing.T) {
	require.PanicsWithValue(t, "boom", func() {
		err := retry.Do(t.Context(), retry.Forever(0), func(context.Context) error { panic("boom") })
		t.Errorf("Do returned %v", err)
	})
}

func BenchmarkDo(b *testing.B) {
	policy := retry.ExponentialBackoff(100*time.Millisecond, 5)
	op := func(context.Context) error { return nil }
	b.Run("retry", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := retry.Do(b.Context(), policy, op); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("backoff", func(b *testing.B) { // what a user would write without this package
		b.ReportAllocs()
		for b.Loop() {
			err := backoff.Retry(func() error { return op(b.Context()) },
				backoff.WithContext(backoff.WithMaxRetries(backoff.NewExponentialBackOff(), 5), b.Context()))
			if err != nil {
				b.Fatal(err)
			}
		}
	})
}
