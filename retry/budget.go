package retry

import (
	"sync"
	"time"
)

// Budget is a policy whose retries and time several calls of [Do] use up together, so that one within another does not multiply
// them: the retries that have been made and the time that has passed are those of all. When the policy has given up once, every
// later answer is to give up. It is what Curator's ThreadLocalRetryLoop is for.
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

// Next asks the policy about the next retry of all. What it is told of retries and of time itself is that of one Do, and ignored.
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
