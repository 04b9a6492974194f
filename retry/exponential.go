// SPDX-License-Identifier: Apache-2.0

package retry

import (
	"math/rand/v2"
	"time"
)

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
