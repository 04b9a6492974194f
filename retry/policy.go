// SPDX-License-Identifier: Apache-2.0

package retry

import (
	"errors"
	"math"
	"math/rand/v2"
	"time"

	"github.com/go-zookeeper/zk"
)

// Limits of the waits that the policies of this package return. They do not bind other policies.
const (
	// MinWait is the shortest wait of any policy of this package, so that none of them can spin.
	MinWait = time.Millisecond

	// MaxWait is the longest wait of any policy of this package, about 24.9 days. It is the ceiling of Curator's
	// ExponentialBackoffRetry, the greatest Java int taken as milliseconds.
	MaxWait = (1<<31 - 1) * time.Millisecond
)

// Policy decides after a failed try whether there will be another one, and how long to wait before it.
//
// A program writes its own policy as a function of the three arguments of Next and adapts it with [PolicyFunc], or puts the
// function in front of another policy with [Wrap]. The optional interfaces [Selector], [Observer] and [Starter]
// let a policy do more.
//
// A policy that always returns (0, true) retries without pause and without end. The policies of this package never do.
type Policy interface {
	// Next receives the number of retries already made (0 when it decides on the first retry), the time since the first try
	// began, and the last error, which is not nil. It returns how long to wait and true, or false to give up; wait is then
	// ignored. A wait below zero counts as zero.
	//
	// Next must keep nothing between calls that its callers can notice, and must not block. Any number of goroutines may
	// call it at once. Randomness is allowed.
	Next(attempt int, elapsed time.Duration, err error) (wait time.Duration, ok bool)
}

// PolicyFunc makes a [Policy] of a function, which must keep the contract of [Policy]. A nil PolicyFunc never retries.
type PolicyFunc func(attempt int, elapsed time.Duration, err error) (wait time.Duration, ok bool)

// Next calls f.
func (f PolicyFunc) Next(attempt int, elapsed time.Duration, err error) (time.Duration, bool) {
	if f == nil {
		return 0, false
	}
	return f(attempt, elapsed, err)
}

// None returns the policy that never retries.
func None() Policy { return fixed{} }

// NTimes returns the policy that retries n times and waits for sleep before each retry, as Curator's RetryNTimes does.
// An n below zero counts as zero; sleep is moved into the range from [MinWait] to [MaxWait].
func NTimes(n int, sleep time.Duration) Policy {
	return fixed{n: n, last: math.MaxInt64, sleep: clamp(sleep)}
}

// OneTime returns the policy that retries once, after sleep, as Curator's RetryOneTime does. It is NTimes(1, sleep).
func OneTime(sleep time.Duration) Policy { return NTimes(1, sleep) }

// Forever returns the policy that always retries and waits for interval each time, as Curator's RetryForever does. With it only
// success, a permanent error or the context ends a [Do]. Interval is moved into the range from [MinWait] to [MaxWait].
func Forever(interval time.Duration) Policy {
	return fixed{n: math.MaxInt, last: math.MaxInt64, sleep: clamp(interval)}
}

// UntilElapsed returns the policy that retries as long as less than maxElapsed has passed since the first try began, and waits for
// sleep before each retry, as Curator's RetryUntilElapsed does. The wait is not cut short by the limit, so the last try
// may begin up to sleep after it. Unlike Curator it does not wait once more before it gives up. With a maxElapsed of zero or less
// it never retries; sleep is moved into the range from [MinWait] to [MaxWait].
func UntilElapsed(maxElapsed, sleep time.Duration) Policy {
	return fixed{n: math.MaxInt, last: max(maxElapsed, math.MinInt64+1) - 1, sleep: clamp(sleep)}
}

// SessionFailed returns the policy that gives up when the error is zk.ErrSessionExpired or wraps it, and otherwise
// decides as policy does. It is Curator's SessionFailedRetryPolicy (CURATOR-544), for work that makes sense only in the
// session it began in. A framework client with this policy binds each call to the session in which the call began. Once
// that session has ended, the call fails with an error that matches zk.ErrSessionExpired, and is never sent in another
// session. A nil policy counts as [None].
func SessionFailed(policy Policy) Policy {
	return sessionFailed{policy: orNone(policy)}
}

// fixed is a policy that always waits for the same time. The zero value never retries.
type fixed struct {
	n     int           // retries
	last  time.Duration // of the time since the first try, after which there is none
	sleep time.Duration
}

func (p fixed) Next(attempt int, elapsed time.Duration, _ error) (time.Duration, bool) {
	if max(attempt, 0) >= p.n || elapsed > p.last {
		return 0, false
	}
	return p.sleep, true
}

type sessionFailed struct{ policy Policy }

func (p sessionFailed) Next(attempt int, elapsed time.Duration, err error) (time.Duration, bool) {
	if errors.Is(err, zk.ErrSessionExpired) {
		return 0, false
	}
	return p.policy.Next(attempt, elapsed, err)
}

// AllowRetry lets no call go on after the end of the session that it began in.
func (p sessionFailed) AllowRetry(err error, retryable bool) bool {
	return !errors.Is(err, zk.ErrSessionExpired) && allowRetry(p.policy, err, retryable)
}

func (p sessionFailed) Done(err error) { done(p.policy, err) }

// Begin begins the wrapped policy, so that one with state, such as a policy of FromBackOff, works below SessionFailed too.
func (p sessionFailed) Begin() Policy { return sessionFailed{policy: begin(p.policy)} }

// clamp moves a wait into the range that this package promises.
func clamp(wait time.Duration) time.Duration {
	return min(max(wait, MinWait), MaxWait)
}

func orNone(policy Policy) Policy {
	if policy == nil {
		return None()
	}
	return policy
}

// maxExponentialRetries is Curator's MAX_RETRIES_LIMIT: with it the random factor stays below 1<<29.
const maxExponentialRetries = 29

// ExponentialBackoff returns the policy that retries up to maxRetries times and waits longer and longer, as Curator's
// ExponentialBackoffRetry does: the wait before retry number n (from 0) is
//
//	base * max(1, random integer in [0, 1<<(n+1)))
//
// so it is base before the first retry, then between one and three times base, then between one and seven times, and so on. The
// factor is the jitter: clients that failed together spread out. No wait exceeds [MaxWait].
//
// As in Curator, a maxRetries above 29 counts as 29; one below zero counts as zero. Base is moved into the range from [MinWait]
// to MaxWait.
func ExponentialBackoff(base time.Duration, maxRetries int) Policy {
	return BoundedExponentialBackoff(base, MaxWait, maxRetries)
}

// BoundedExponentialBackoff returns an [ExponentialBackoff] whose waits do not exceed maxSleep, as in Curator's
// BoundedExponentialBackoffRetry. MaxSleep is moved into the range from [MinWait] to [MaxWait]; zero does not mean
// unbounded. A maxSleep below base makes every wait maxSleep.
func BoundedExponentialBackoff(base, maxSleep time.Duration, maxRetries int) Policy {
	return exponential{
		base:       clamp(base),
		maxSleep:   clamp(maxSleep),
		maxRetries: min(maxRetries, maxExponentialRetries),
	}
}

type exponential struct {
	base, maxSleep time.Duration // both within [MinWait, MaxWait]
	maxRetries     int           // at most maxExponentialRetries
}

func (p exponential) Next(attempt int, _ time.Duration, _ error) (time.Duration, bool) {
	attempt = max(attempt, 0)
	if attempt >= p.maxRetries {
		return 0, false
	}
	factor := max(1, rand.Int64N(1<<(attempt+1)))
	if factor > int64(p.maxSleep/p.base) {
		return p.maxSleep, true // the product exceeds maxSleep, or even what a Duration can hold
	}
	return p.base * time.Duration(factor), true
}
