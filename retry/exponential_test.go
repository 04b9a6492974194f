// SPDX-License-Identifier: Apache-2.0

package retry_test

import (
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/gocurator/curator/retry"
)

// samples asks policy many times the same question and returns the distinct waits, sorted.
func samples(t *testing.T, policy retry.Policy, attempt, n int) []time.Duration {
	t.Helper()
	seen := make(map[time.Duration]bool)
	for range n {
		wait, ok := policy.Next(attempt, 0, errTest)
		require.True(t, ok, "Next(%d) gave up", attempt)
		seen[wait] = true
	}
	return slices.Sorted(maps.Keys(seen))
}

// times returns base multiplied with each integer from low to high.
func times(base time.Duration, low, high int) []time.Duration {
	var waits []time.Duration
	for factor := low; factor <= high; factor++ {
		waits = append(waits, base*time.Duration(factor))
	}
	return waits
}

func TestExponentialBackoffJitter(t *testing.T) {
	const base = 100 * time.Millisecond
	policy := retry.ExponentialBackoff(base, 10)
	// The least likely factor of attempt 3 has a chance of 1/16: missing it 2000 times in a row has one of 1e-56.
	require.Equal(t, times(base, 1, 1), samples(t, policy, 0, 2000))
	require.Equal(t, times(base, 1, 3), samples(t, policy, 1, 2000))
	require.Equal(t, times(base, 1, 7), samples(t, policy, 2, 2000))
	require.Equal(t, times(base, 1, 15), samples(t, policy, 3, 2000))

	last := samples(t, policy, 9, 5000)
	require.GreaterOrEqual(t, last[0], base)
	require.LessOrEqual(t, last[len(last)-1], 1023*base)
	require.Greater(t, last[len(last)-1], 512*base, "the upper half of the range is never drawn")
	require.Less(t, last[0], 512*base, "the lower half of the range is never drawn")
}

func TestBoundedExponentialBackoffCeiling(t *testing.T) {
	const base = 100 * time.Millisecond
	policy := retry.BoundedExponentialBackoff(base, 5*base, 10)
	require.Equal(t, times(base, 1, 3), samples(t, policy, 1, 2000), "below the ceiling nothing changes")
	require.Equal(t, times(base, 1, 5), samples(t, policy, 2, 2000))
	require.Equal(t, 5*base, slices.Max(samples(t, policy, 9, 2000)))

	odd := retry.BoundedExponentialBackoff(base, 250*time.Millisecond, 10)
	require.Equal(t, []time.Duration{base, 2 * base, 250 * time.Millisecond}, samples(t, odd, 4, 2000),
		"a ceiling between two multiples")
}

// Curator: TestRetryLoop, all.
func TestExponentialBackoffRetryCount(t *testing.T) {
	tests := []struct {
		maxRetries, want int
	}{
		{math.MinInt, 0},
		{-1, 0},
		{0, 0},
		{1, 1},
		{28, 28},
		{29, 29},
		{30, 29}, // Curator's limit
		{math.MaxInt, 29},
	}
	for _, tt := range tests {
		for name, policy := range map[string]retry.Policy{
			"unbounded": retry.ExponentialBackoff(time.Second, tt.maxRetries),
			"bounded":   retry.BoundedExponentialBackoff(time.Second, time.Minute, tt.maxRetries),
		} {
			retries := 0
			for ok := true; ok; retries++ {
				_, ok = policy.Next(retries, 0, errTest)
			}
			require.Equal(t, tt.want, retries-1, "%s, maxRetries %d", name, tt.maxRetries)
			for _, attempt := range []int{tt.want + 1, 63, 64, 1 << 40, math.MaxInt} {
				_, ok := policy.Next(attempt, 0, errTest)
				require.False(t, ok, "%s, maxRetries %d: Next(%d)", name, tt.maxRetries, attempt)
			}
		}
	}
}

// Curator: TestRetryLoop, all.
func TestExponentialBackoffClamps(t *testing.T) {
	tests := []struct {
		name    string
		policy  retry.Policy
		attempt int
		want    []time.Duration
	}{
		{"zero base", retry.ExponentialBackoff(0, 5), 1, times(retry.MinWait, 1, 3)},
		{"negative base", retry.ExponentialBackoff(minDuration, 5), 1, times(retry.MinWait, 1, 3)},
		{"huge base", retry.ExponentialBackoff(maxDuration, 99), 28, []time.Duration{retry.MaxWait}},
		{"negative attempt", retry.ExponentialBackoff(time.Second, 5), math.MinInt, times(time.Second, 1, 1)},
		{"no ceiling", retry.BoundedExponentialBackoff(time.Second, 0, 5), 4, []time.Duration{retry.MinWait}},
		{"negative ceiling", retry.BoundedExponentialBackoff(time.Second, -1, 5), 4, []time.Duration{retry.MinWait}},
		{"ceiling below base", retry.BoundedExponentialBackoff(time.Minute, time.Second, 5), 0, times(time.Second, 1, 1)},
		{"huge ceiling", retry.BoundedExponentialBackoff(retry.MaxWait, maxDuration, 29), 28, []time.Duration{retry.MaxWait}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			require.Equal(t, tt.want, samples(t, tt.policy, tt.attempt, 500))
		})
	}
}

// TestExponentialBackoffStaysInRange checks the formula itself: a whole multiple of base between 1 and 1<<(attempt+1)-1, or the
// ceiling when the multiple exceeds it.
func TestExponentialBackoffStaysInRange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base := time.Duration(rapid.Int64Range(int64(retry.MinWait), int64(retry.MaxWait)).Draw(t, "base"))
		ceiling := time.Duration(rapid.Int64Range(int64(base), int64(retry.MaxWait)).Draw(t, "ceiling"))
		attempt := rapid.IntRange(0, 28).Draw(t, "attempt")

		wait, ok := retry.BoundedExponentialBackoff(base, ceiling, 29).Next(attempt, 0, errTest)
		if !ok {
			t.Fatalf("Next(%d) gave up", attempt)
		}
		if wait == ceiling {
			return
		}
		factor := int64(wait / base)
		if wait%base != 0 || factor < 1 || factor >= 1<<(attempt+1) || wait > ceiling {
			t.Fatalf("Next(%d) = %v, want %v times a factor within [1, 1<<%d), at most %v", attempt, wait, base, attempt+1, ceiling)
		}
	})
}

func BenchmarkExponentialBackoffNext(b *testing.B) {
	policy := retry.ExponentialBackoff(100*time.Millisecond, 29)
	b.ReportAllocs()
	for b.Loop() {
		policy.Next(7, time.Second, errTest)
	}
}
