// SPDX-License-Identifier: Apache-2.0

package retry_test

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/gocurator/curator/retry"
)

var errTest = errors.New("test: connection lost")

const (
	minDuration = time.Duration(math.MinInt64)
	maxDuration = time.Duration(math.MaxInt64)
)

// Curator: TestRetryLoop, all.
func TestFixedPolicies(t *testing.T) {
	type answer struct {
		wait time.Duration
		ok   bool
	}
	const s = time.Second
	giveUp := answer{}
	tests := []struct {
		name    string
		policy  retry.Policy
		attempt int
		elapsed time.Duration
		want    answer
	}{
		{"none", retry.None(), 0, 0, giveUp},
		{"nil func", retry.PolicyFunc(nil), 0, 0, giveUp},

		{"n times, first", retry.NTimes(3, s), 0, 0, answer{s, true}},
		{"n times, last", retry.NTimes(3, s), 2, time.Hour, answer{s, true}},
		{"n times, one too many", retry.NTimes(3, s), 3, 0, giveUp},
		{"n times, far too many", retry.NTimes(3, s), 1 << 40, 0, giveUp},
		{"n times, negative attempt is the first", retry.NTimes(1, s), -7, 0, answer{s, true}},
		{"zero times", retry.NTimes(0, s), 0, 0, giveUp},
		{"zero times, negative attempt", retry.NTimes(0, s), -1, 0, giveUp},
		{"minus one times", retry.NTimes(-1, s), 0, 0, giveUp},
		{"max int times", retry.NTimes(math.MaxInt, s), 1 << 40, 0, answer{s, true}},
		{"n times, no sleep", retry.NTimes(3, 0), 0, 0, answer{retry.MinWait, true}},
		{"n times, negative sleep", retry.NTimes(3, minDuration), 0, 0, answer{retry.MinWait, true}},
		{"n times, huge sleep", retry.NTimes(3, maxDuration), 0, 0, answer{retry.MaxWait, true}},

		{"one time", retry.OneTime(s), 0, 0, answer{s, true}},
		{"one time, second", retry.OneTime(s), 1, 0, giveUp},

		{"forever", retry.Forever(s), 1 << 40, maxDuration, answer{s, true}},
		{"forever, no interval", retry.Forever(0), 0, 0, answer{retry.MinWait, true}},
		{"forever, negative interval", retry.Forever(-s), 0, 0, answer{retry.MinWait, true}},
		{"forever, interval below the minimum", retry.Forever(1), 0, 0, answer{retry.MinWait, true}},
		{"forever, huge interval", retry.Forever(maxDuration), 0, 0, answer{retry.MaxWait, true}},

		{"until elapsed, start", retry.UntilElapsed(time.Minute, s), 0, 0, answer{s, true}},
		{"until elapsed, just before", retry.UntilElapsed(time.Minute, s), 1 << 40, time.Minute - 1, answer{s, true}},
		{"until elapsed, limit", retry.UntilElapsed(time.Minute, s), 0, time.Minute, giveUp},
		{"until elapsed, after", retry.UntilElapsed(time.Minute, s), 0, maxDuration, giveUp},
		{"until elapsed, no time", retry.UntilElapsed(0, s), 0, 0, giveUp},
		{"until elapsed, negative time", retry.UntilElapsed(-s, s), 0, 0, giveUp},
		{"until elapsed, no sleep", retry.UntilElapsed(time.Minute, 0), 0, 0, answer{retry.MinWait, true}},

		{"session failed delegates", retry.SessionFailed(retry.OneTime(s)), 0, 0, answer{s, true}},
		{"session failed delegates the end", retry.SessionFailed(retry.OneTime(s)), 1, 0, giveUp},
		{"session failed of nil", retry.SessionFailed(nil), 0, 0, giveUp},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			wait, ok := tt.policy.Next(tt.attempt, tt.elapsed, errTest)
			require.Equal(t, tt.want, answer{wait, ok}, "Next(%d, %v)", tt.attempt, tt.elapsed)
		})
	}
}

func TestWaitLimits(t *testing.T) {
	require.Equal(t, time.Millisecond, retry.MinWait)
	require.EqualValues(t, math.MaxInt32, retry.MaxWait.Milliseconds(), "Curator's ceiling")
}

// Curator: TestRetryLoop, all.
func TestSessionFailedGivesUpOnExpiry(t *testing.T) {
	policy := retry.SessionFailed(retry.Forever(time.Second))
	for _, err := range []error{
		zk.ErrSessionExpired,
		fmt.Errorf("framework: get /a: %w", zk.ErrSessionExpired),
		errors.Join(errTest, zk.ErrSessionExpired),
	} {
		_, ok := policy.Next(0, 0, err)
		require.False(t, ok, "must give up on %v", err)
	}
	for _, err := range []error{zk.ErrConnectionClosed, zk.ErrSessionMoved, errTest} {
		wait, ok := policy.Next(0, 0, err)
		require.True(t, ok, "must retry on %v", err)
		require.Equal(t, time.Second, wait)
	}
}

func TestPolicyFuncPassesItsArguments(t *testing.T) {
	policy := retry.PolicyFunc(func(attempt int, elapsed time.Duration, err error) (time.Duration, bool) {
		require.Equal(t, 4, attempt)
		require.Equal(t, 5*time.Second, elapsed)
		require.Equal(t, errTest, err)
		return 7 * time.Second, true
	})
	wait, ok := policy.Next(4, 5*time.Second, errTest)
	require.True(t, ok)
	require.Equal(t, 7*time.Second, wait)
}

// TestSharedPolicies asks each policy from several goroutines at once, for the race detector, and compares with what a
// single goroutine is told.
func TestSharedPolicies(t *testing.T) {
	const s = time.Second
	policies := map[string]retry.Policy{
		"none":          retry.None(),
		"n times":       retry.NTimes(3, s),
		"forever":       retry.Forever(s),
		"until elapsed": retry.UntilElapsed(time.Minute, s),
		"exponential":   retry.ExponentialBackoff(s, 3),
		"session":       retry.SessionFailed(retry.NTimes(2, s)),
		"backoff": retry.FromBackOff(func() backoff.BackOff {
			return backoff.WithMaxRetries(backoff.NewConstantBackOff(s), 4)
		}),
	}
	for name, policy := range policies {
		t.Run(name, func(t *testing.T) {
			var want [6]bool
			for attempt := range want {
				_, want[attempt] = policy.Next(attempt, 0, errTest)
			}
			var callers sync.WaitGroup
			for range 8 {
				callers.Go(func() {
					for range 50 {
						for attempt, wantOK := range want {
							if _, ok := policy.Next(attempt, 0, errTest); ok != wantOK {
								t.Errorf("Next(%d): got ok=%v among other callers, want %v", attempt, ok, wantOK)
							}
						}
					}
				})
			}
			callers.Wait()
		})
	}
}

// TestNoPolicySpins draws any policy with any parameters, and any question.
func TestNoPolicySpins(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		duration := func(label string) time.Duration { return time.Duration(rapid.Int64().Draw(t, label)) }
		count := func(label string) int { return rapid.Int().Draw(t, label) }
		policies := map[string]retry.Policy{
			"ExponentialBackoff":        retry.ExponentialBackoff(duration("base"), count("retries")),
			"BoundedExponentialBackoff": retry.BoundedExponentialBackoff(duration("base"), duration("max"), count("retries")),
			"NTimes":                    retry.NTimes(count("n"), duration("sleep")),
			"OneTime":                   retry.OneTime(duration("sleep")),
			"Forever":                   retry.Forever(duration("interval")),
			"UntilElapsed":              retry.UntilElapsed(duration("elapsed limit"), duration("sleep")),
			"SessionFailed":             retry.SessionFailed(retry.Forever(duration("interval"))),
			"None":                      retry.None(),
		}
		attempt, elapsed := count("attempt"), duration("elapsed")
		for name, policy := range policies {
			wait, ok := policy.Next(attempt, elapsed, errTest)
			if ok && (wait < retry.MinWait || wait > retry.MaxWait) {
				t.Fatalf("%s: Next(%d, %v) = %v, want a wait within [%v, %v]", name, attempt, elapsed, wait, retry.MinWait, retry.MaxWait)
			}
			if !ok && wait != 0 {
				t.Fatalf("%s: Next(%d, %v) gave up with wait %v, want 0", name, attempt, elapsed, wait)
			}
		}
	})
}
