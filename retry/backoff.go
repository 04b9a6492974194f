// SPDX-License-Identifier: Apache-2.0

package retry

import (
	"time"

	"github.com/cenkalti/backoff/v4"
)

// FromBackOff returns the policy that waits as the BackOffs made by factory do. A BackOff counts its own calls and serves one caller
// at a time. So factory must return a new one each time. It must not block, and several goroutines may call it at once.
//
// Each call under the policy, such as a [Do], takes one BackOff from factory when it begins, and follows it. A limit of elapsed time
// counts from that moment.
//
// A program rarely calls Next itself. Then Next takes a new BackOff and calls it attempt times, so its cost grows with attempt, and
// random waits are drawn again. It ignores elapsed, except for the limit of a plain *backoff.ExponentialBackOff.
//
// To put a policy of your own in front of this one, use [Wrap], which passes on the BackOff of the call. A struct that embeds the
// policy calls Next instead.
//
// backoff.Stop means give up. Any other wait is moved into the range from [MinWait] to [MaxWait], so that a backoff.ZeroBackOff
// does not spin. A context attached with backoff.WithContext is checked between waits, but only the context given to Do ends a wait.
// With a nil factory, or one that returns nil, the policy never retries.
func FromBackOff(factory func() backoff.BackOff) Policy {
	if factory == nil {
		return None()
	}
	return fromBackOff{factory: factory}
}

type fromBackOff struct{ factory func() backoff.BackOff }

func (p fromBackOff) Next(attempt int, elapsed time.Duration, _ error) (time.Duration, bool) {
	b := p.factory()
	exponential, ok := b.(*backoff.ExponentialBackOff)
	if !ok {
		return answer(replay(b, attempt))
	}
	// Its clock starts with Reset and knows nothing of elapsed: replay without the limit, then apply the limit to elapsed.
	unlimited := *exponential
	unlimited.MaxElapsedTime = 0
	wait := replay(&unlimited, attempt)
	if limit := exponential.MaxElapsedTime; limit != 0 && elapsed > limit-max(wait, 0) {
		wait = exponential.Stop
	}
	return answer(wait)
}

// Begin returns the stateful form that one call uses.
func (p fromBackOff) Begin() Policy {
	b := p.factory()
	if b == nil {
		return None()
	}
	b.Reset()
	return startedBackOff{b: b}
}

// startedBackOff follows one BackOff through one Do. It is a Policy only within that Do.
type startedBackOff struct{ b backoff.BackOff }

func (p startedBackOff) Next(int, time.Duration, error) (time.Duration, bool) {
	return answer(p.b.NextBackOff())
}

// replay returns what b, a new BackOff, answers after it has been asked attempt times before. A nil b answers backoff.Stop.
func replay(b backoff.BackOff, attempt int) time.Duration {
	if b == nil {
		return backoff.Stop
	}
	b.Reset()
	for range attempt {
		if b.NextBackOff() == backoff.Stop {
			return backoff.Stop
		}
	}
	return b.NextBackOff()
}

// answer turns what a BackOff returned into what a Policy returns.
func answer(wait time.Duration) (time.Duration, bool) {
	if wait == backoff.Stop {
		return 0, false
	}
	return clamp(wait), true
}
