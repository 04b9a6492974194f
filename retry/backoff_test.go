// SPDX-License-Identifier: Apache-2.0

package retry_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/retry"
)

// scripted is a BackOff that answers a fixed list of waits and then backoff.Stop.
type scripted struct {
	waits []time.Duration
	next  int
}

func (s *scripted) Reset() { s.next = 0 }

func (s *scripted) NextBackOff() time.Duration {
	if s.next == len(s.waits) {
		return backoff.Stop
	}
	s.next++
	return s.waits[s.next-1]
}

// doubling returns a factory of exact, jitter-free exponential BackOffs: 100 ms, 200 ms, 400 ms and so on.
func doubling(opts ...backoff.ExponentialBackOffOpts) func() backoff.BackOff {
	return func() backoff.BackOff {
		return backoff.NewExponentialBackOff(append([]backoff.ExponentialBackOffOpts{
			backoff.WithInitialInterval(100 * time.Millisecond),
			backoff.WithMultiplier(2),
			backoff.WithRandomizationFactor(0),
			backoff.WithMaxInterval(time.Hour),
			backoff.WithMaxElapsedTime(0),
		}, opts...)...)
	}
}

// notReset returns a BackOff that nobody has called Reset on, as a plain literal is.
func notReset() backoff.BackOff {
	return &backoff.ExponentialBackOff{
		InitialInterval: 100 * time.Millisecond,
		Multiplier:      2,
		MaxInterval:     time.Hour,
		MaxElapsedTime:  time.Second,
		Stop:            backoff.Stop,
		Clock:           backoff.SystemClock,
	}
}

func TestFromBackOffNext(t *testing.T) {
	const ms = time.Millisecond
	list := func() backoff.BackOff { return &scripted{waits: []time.Duration{3 * ms, 1 * ms, 2 * ms}} }
	limited := doubling(backoff.WithMaxElapsedTime(time.Second))
	tests := []struct {
		name    string
		factory func() backoff.BackOff
		attempt int
		elapsed time.Duration
		want    time.Duration // zero means give up
	}{
		{"list, first", list, 0, 0, 3 * ms},
		{"list, second", list, 1, 0, 1 * ms},
		{"list, third", list, 2, 0, 2 * ms},
		{"list, end", list, 3, 0, 0},
		{"list, after the end", list, 1 << 40, 0, 0},
		{"list, negative attempt is the first", list, -3, 0, 3 * ms},

		{"exponential, first", doubling(), 0, 0, 100 * ms},
		{"exponential, fourth", doubling(), 3, time.Hour, 800 * ms},
		{"exponential, within its time", limited, 1, 800 * ms, 200 * ms},
		{"exponential, over its time", limited, 1, 801 * ms, 0},
		{"exponential, first wait over its time", doubling(backoff.WithMaxElapsedTime(ms)), 0, 0, 0},
		{"exponential, only an earlier wait over its time", doubling(
			backoff.WithMultiplier(0.25), backoff.WithMaxElapsedTime(50*ms)), 1, 25 * ms, 25 * ms},
		{"exponential, not reset", notReset, 1, 0, 200 * ms},
		{"wrapped exponential, not reset", func() backoff.BackOff { return backoff.WithMaxRetries(notReset(), 2) }, 1, 0, 200 * ms},
		{"exponential, huge limit", doubling(backoff.WithMaxElapsedTime(maxDuration)), 0, time.Hour, 100 * ms},
		{"exponential that goes on with another wait", doubling(
			backoff.WithMaxElapsedTime(time.Second), backoff.WithRetryStopDuration(time.Minute)), 0, time.Hour, time.Minute},

		{"constant", func() backoff.BackOff { return backoff.NewConstantBackOff(time.Second) }, 99, 0, time.Second},
		{"zero does not spin", func() backoff.BackOff { return &backoff.ZeroBackOff{} }, 5, 0, retry.MinWait},
		{"negative does not spin", func() backoff.BackOff { return &scripted{waits: []time.Duration{-2}} }, 0, 0, retry.MinWait},
		{"huge", func() backoff.BackOff { return backoff.NewConstantBackOff(maxDuration) }, 0, 0, retry.MaxWait},
		{"stop", func() backoff.BackOff { return &backoff.StopBackOff{} }, 0, 0, 0},
		{"max retries, last", func() backoff.BackOff { return backoff.WithMaxRetries(doubling()(), 3) }, 2, 0, 400 * ms},
		{"max retries, one too many", func() backoff.BackOff { return backoff.WithMaxRetries(doubling()(), 3) }, 3, 0, 0},

		{"no factory", nil, 0, 0, 0},
		{"factory of nothing", func() backoff.BackOff { return nil }, 0, 0, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			policy := retry.FromBackOff(tt.factory)
			for range 3 { // the same question gets the same answer
				wait, ok := policy.Next(tt.attempt, tt.elapsed, errTest)
				require.Equal(t, tt.want, wait, "Next(%d, %v)", tt.attempt, tt.elapsed)
				require.Equal(t, tt.want != 0, ok, "Next(%d, %v)", tt.attempt, tt.elapsed)
			}
		})
	}
}

func TestFromBackOffNextLeavesTheBackOffAlone(t *testing.T) {
	shared := doubling(backoff.WithMaxElapsedTime(time.Minute))().(*backoff.ExponentialBackOff)
	before := *shared
	policy := retry.FromBackOff(func() backoff.BackOff { return shared })
	policy.Next(5, time.Second, errTest)
	require.Equal(t, before, *shared, "an ExponentialBackOff is replayed on a copy")
}

func TestDoUsesOneBackOffPerCall(t *testing.T) {
	for name, wrap := range map[string]func(retry.Policy) retry.Policy{
		"plain":         func(p retry.Policy) retry.Policy { return p },
		"sessionFailed": retry.SessionFailed,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var made atomic.Int32
				policy := wrap(retry.FromBackOff(func() backoff.BackOff {
					made.Add(1)
					return &scripted{waits: []time.Duration{3 * time.Second, time.Second}}
				}))
				for call := range 2 {
					var tries attempts
					require.ErrorIs(t, retry.Do(t.Context(), policy, tries.fail), errTest)
					require.Equal(t, []time.Duration{0, 3 * time.Second, 4 * time.Second}, tries.at)
					require.EqualValues(t, call+1, made.Load(), "BackOffs made")
				}
			})
		})
	}
}

func TestDoKeepsTheElapsedLimitOfABackOff(t *testing.T) {
	for name, factory := range map[string]func() backoff.BackOff{
		"reset":     doubling(backoff.WithMaxElapsedTime(time.Second)),
		"not reset": notReset,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				policy := retry.FromBackOff(factory)
				time.Sleep(time.Hour) // the limit counts from the start of Do
				var tries attempts
				require.ErrorIs(t, retry.Do(t.Context(), policy, tries.fail), errTest)
				require.Equal(t, []time.Duration{0, 100 * time.Millisecond, 300 * time.Millisecond, 700 * time.Millisecond}, tries.at)
			})
		})
	}
}

func TestDoWithBackOffThatNeverRetries(t *testing.T) {
	for name, policy := range map[string]retry.Policy{
		"nil factory":    retry.FromBackOff(nil),
		"factory of nil": retry.FromBackOff(func() backoff.BackOff { return nil }),
		"stop":           retry.FromBackOff(func() backoff.BackOff { return &backoff.StopBackOff{} }),
	} {
		var calls int
		err := retry.Do(t.Context(), policy, func(context.Context) error { calls++; return errTest })
		require.Equal(t, errTest, err, name)
		require.Equal(t, 1, calls, name)
	}
}

func TestDoStopsOnExpiryWhileABackOffWouldGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policy := retry.SessionFailed(retry.FromBackOff(doubling()))
		var calls int
		err := retry.Do(t.Context(), policy, func(context.Context) error {
			if calls++; calls == 3 {
				return zk.ErrSessionExpired
			}
			return errTest
		})
		require.Equal(t, zk.ErrSessionExpired, err)
		require.Equal(t, 3, calls)
	})
}

func BenchmarkFromBackOffNext(b *testing.B) {
	policy := retry.FromBackOff(doubling())
	b.ReportAllocs()
	for b.Loop() {
		policy.Next(7, time.Second, errTest)
	}
}
