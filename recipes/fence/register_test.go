// SPDX-License-Identifier: Apache-2.0

package fence_test

import (
	"context"
	"errors"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/fence"
)

// TestAccept: whatever comes, exactly those are accepted that are not older than the
// newest before them, also by a register that goes on where another was stored.
func TestAccept(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tokens := rapid.SliceOf(rapid.OneOf(
			rapid.Int64(), rapid.Int64Range(-2, 5), rapid.Int64Range(math.MaxInt64-2, math.MaxInt64))).Draw(t, "tokens")
		register, newest := &fence.Register{}, int64(0)
		for i, token := range tokens {
			err := register.Accept(token)
			var stale *fence.StaleError
			switch {
			case token < 1:
				require.ErrorIs(t, err, fence.ErrInvalidToken, "%d: %d", i, token)
				require.NotErrorIs(t, err, fence.ErrStale)
			case token < newest:
				require.ErrorIs(t, err, fence.ErrStale, "%d: %d", i, token)
				require.ErrorAs(t, err, &stale)
				require.Equal(t, fence.StaleError{Token: token, Newest: newest}, *stale)
			default:
				require.NoError(t, err, "%d: %d after %d", i, token, newest)
				newest = token
			}
			require.Equal(t, newest, register.Newest())
			if rapid.Bool().Draw(t, "restart") {
				register = must.Get(fence.NewRegister(register.Newest()))(t)
			}
		}
	})
}

func TestNewRegister(t *testing.T) {
	_, err := fence.NewRegister(-1)
	require.ErrorIs(t, err, fence.ErrInvalidToken)
	require.EqualError(t, err, "fence: invalid fencing token -1, expected 0 for none, or more")
}

// TestRegisterNoOlderWorkBesideNewer runs many functions at once: while one runs, nobody with
// another token does, and nobody with an older one ever after.
func TestRegisterNoOlderWorkBesideNewer(t *testing.T) {
	var register fence.Register
	var mu sync.Mutex
	running, newest := map[int64]int{}, int64(0) // as the functions see it
	work := func(token int64) error {
		mu.Lock()
		running[token]++
		if newest > token || len(running) > 1 {
			t.Errorf("%d runs after %d, all that run: %v", token, newest, running)
		}
		newest = token
		mu.Unlock()
		runtime.Gosched()
		mu.Lock()
		defer mu.Unlock()
		if running[token]--; running[token] == 0 {
			delete(running, token)
		}
		return nil
	}
	var ran, refused atomic.Int64
	var wg sync.WaitGroup
	const workers, each = 8, 500
	for w := range workers {
		wg.Go(func() {
			for i := range each {
				token := int64(1 + i/3 + w%2)
				switch err := register.Do(context.Background(), token, func() error { return work(token) }); {
				case err == nil:
					ran.Add(1)
				case errors.Is(err, fence.ErrStale):
					refused.Add(1)
				default:
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, workers*each, ran.Load()+refused.Load())
	require.Equal(t, newest, register.Newest())
	require.Positive(t, ran.Load())
}

// TestRegisterNewerTokenWaitsForOlderWork and refuses what is older meanwhile.
func TestRegisterNewerTokenWaitsForOlderWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var register fence.Register
		finish := make(chan struct{})
		failed := errors.New("it has failed")
		var running atomic.Int64
		work := func() error {
			running.Add(1)
			defer running.Add(-1)
			<-finish
			return failed
		}
		results := make(chan error, 3)
		for range 2 { // one token, at the same time
			go func() { results <- register.Do(t.Context(), 5, work) }()
		}
		synctest.Wait()
		require.EqualValues(t, 2, running.Load())

		newer := make(chan error, 1)
		go func() { newer <- register.Do(t.Context(), 7, func() error { return nil }) }()
		synctest.Wait()
		require.Empty(t, newer, "as long as the older ones run")
		require.ErrorIs(t, register.Do(t.Context(), 5, func() error { panic("must not run") }), fence.ErrStale)

		// Who gives up leaves its token known.
		cause := errors.New("enough")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, cause)
		defer cancel()
		err := register.Do(ctx, 8, func() error { panic("must not run") })
		require.ErrorIs(t, err, cause)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.EqualValues(t, 8, register.Newest())

		close(finish)
		require.ErrorIs(t, <-results, failed)
		require.ErrorIs(t, <-results, failed)
		require.ErrorIs(t, <-newer, fence.ErrStale, "overtaken while it waited")
		require.NoError(t, register.Do(t.Context(), 8, func() error { return nil }))
	})
}

func TestRegisterBadInput(t *testing.T) {
	var register fence.Register
	var nilContext context.Context
	require.ErrorContains(t, register.Do(nilContext, 1, func() error { return nil }), "context nil")
	require.ErrorContains(t, register.Do(t.Context(), 1, nil), "function nil")
	require.Zero(t, register.Newest())
}

func TestRegisterPanicLeavesTheRegisterFree(t *testing.T) {
	var register fence.Register
	require.Panics(t, func() { _ = register.Do(t.Context(), 1, func() error { panic("in fn") }) })
	require.NoError(t, register.Do(t.Context(), 2, func() error { return nil }))
}
