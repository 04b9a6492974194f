// SPDX-License-Identifier: Apache-2.0

package retry

import (
	"sync"
	"time"
)

// Budget is a policy whose retries and time several calls of [Do] share, so that nested calls do not multiply them. Its policy sees
// the retries of all calls, and the time since the budget was made. Once the policy has given up, the budget always gives up.
// It does what Curator's ThreadLocalRetryLoop does.
//
// A Budget is for one piece of work, unlike the policy that it is made from. It may be used by several goroutines.
type Budget struct {
	start  time.Time
	policy Policy

	mu      sync.Mutex // guards what follows, and lets one goroutine at a time ask for the next retry
	retries int
	spent   bool
}

// AllowRetry asks the policy, if it is a [Selector].
func (b *Budget) AllowRetry(err error, retryable bool) bool {
	return allowRetry(b.policy, err, retryable)
}

// Done tells the policy, if it is an [Observer].
func (b *Budget) Done(err error) { done(b.policy, err) }

// NewBudget returns a budget of what policy allows from now on. A nil policy counts as [None].
func NewBudget(policy Policy) *Budget { return &Budget{start: time.Now(), policy: begin(policy)} }

// Next asks the policy about the next retry of all calls. It ignores its arguments for retries and time, which count one Do only.
func (b *Budget) Next(_ int, _ time.Duration, err error) (time.Duration, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.spent {
		return 0, false
	}
	wait, ok := b.policy.Next(b.retries, time.Since(b.start), err)
	if !ok {
		b.spent = true
		return 0, false
	}
	b.retries++
	return wait, true
}
