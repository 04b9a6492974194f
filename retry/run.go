// SPDX-License-Identifier: Apache-2.0

package retry

import (
	"fmt"
	"reflect"
	"sync"
	"time"
)

// Selector is a policy that selects the errors after which a call is repeated, as Curator's RetryPolicy.allowRetry(Throwable) does.
// It may allow more errors than the client does, or fewer. It is optional: without it the client decides.
type Selector interface {
	Policy

	// AllowRetry reports whether a call may be repeated after err. Retryable is what would be decided without the policy. A policy
	// that allows a retry is asked by Next when to make it. AllowRetry keeps the contract of Next.
	AllowRetry(err error, retryable bool) bool
}

// Observer is a policy that learns how calls end, such as a circuit breaker. It is optional.
type Observer interface {
	Policy

	// Done is called at the end of every call under the policy that has made a try, even when the first one succeeded. It receives nil for
	// success, and otherwise the last error, or one that says that the call panicked. It must not block, and may be called by any number
	// of goroutines at once.
	Done(err error)
}

// Starter is a policy that keeps state during one call, as a policy of [FromBackOff] does. It is optional.
type Starter interface {
	Policy

	// Begin returns the policy for one call, which begins now. Its Next is called by one goroutine at a time.
	Begin() Policy
}

// Validate returns an error for a nil pointer, and for a policy that has a method AllowRetry, Done or Begin of another form than [Selector],
// [Observer] and [Starter] have. Such a method would never be called. A port of Curator's allowRetry(Throwable) is one. It
// looks into the policies of this package that have another one inside. A framework client refuses such a policy.
func Validate(policy Policy) error {
	if v := reflect.ValueOf(policy); v.Kind() == reflect.Pointer && v.IsNil() {
		return fmt.Errorf("retry: policy is a nil %T", policy)
	}
	switch p := policy.(type) {
	case nil:
		return nil
	case wrapped:
		return Validate(p.policy)
	case sessionFailed:
		return Validate(p.policy)
	case *Budget:
		return Validate(p.policy)
	}
	// The names are constants, so that the linker can leave methods out.
	of := reflect.TypeOf(policy)
	if m, has := of.MethodByName("AllowRetry"); has && !of.Implements(reflect.TypeFor[Selector]()) {
		return misfit(policy, m, "AllowRetry(err error, retryable bool) bool")
	}
	if m, has := of.MethodByName("Done"); has && !of.Implements(reflect.TypeFor[Observer]()) {
		return misfit(policy, m, "Done(err error)")
	}
	if m, has := of.MethodByName("Begin"); has && !of.Implements(reflect.TypeFor[Starter]()) {
		return misfit(policy, m, "Begin() retry.Policy")
	}
	return nil
}

func misfit(policy Policy, m reflect.Method, wanted string) error {
	return fmt.Errorf("retry: policy %T: its method %s, %v, would not be called: expected %s", policy, m.Name, m.Type, wanted)
}

// Wrap returns a policy whose Next is the function next, which receives the wrapped policy and may call it. The result remains a
// [Selector], an [Observer] and a [Starter] if policy is one; a struct that embeds a Policy would hide these. A nil policy counts as
// [None], and a nil function passes everything on.
//
//	patient := retry.Wrap(policy, func(p retry.Policy, attempt int, elapsed time.Duration, err error) (time.Duration, bool) {
//		if errors.Is(err, framework.ErrNotConnected) {
//			return 5 * time.Second, elapsed < 10*time.Minute
//		}
//		return p.Next(attempt, elapsed, err)
//	})
func Wrap(policy Policy, next func(policy Policy, attempt int, elapsed time.Duration, err error) (wait time.Duration, ok bool)) Policy {
	if next == nil {
		next = func(p Policy, attempt int, elapsed time.Duration, err error) (time.Duration, bool) {
			return p.Next(attempt, elapsed, err)
		}
	}
	return wrapped{orNone(policy), next}
}

type wrapped struct {
	policy Policy
	next   func(Policy, int, time.Duration, error) (time.Duration, bool)
}

func (p wrapped) Next(attempt int, elapsed time.Duration, err error) (time.Duration, bool) {
	return p.next(p.policy, attempt, elapsed, err)
}

func (p wrapped) AllowRetry(err error, retryable bool) bool {
	return allowRetry(p.policy, err, retryable)
}

func (p wrapped) Done(err error) { done(p.policy, err) }

func (p wrapped) Begin() Policy { return wrapped{begin(p.policy), p.next} }

func allowRetry(policy Policy, err error, retryable bool) bool {
	if s, ok := policy.(Selector); ok {
		return s.AllowRetry(err, retryable)
	}
	return retryable
}

func done(policy Policy, err error) {
	if o, ok := policy.(Observer); ok {
		o.Done(err)
	}
}

func begin(policy Policy) Policy {
	if s, ok := policy.(Starter); ok {
		return orNone(s.Begin())
	}
	return orNone(policy)
}

// Run is one call under a policy, for a caller that makes its tries and waits itself, as [Do] does. It serves one goroutine.
type Run struct {
	policy  Policy
	start   time.Time
	retries int
}

// Begin returns the run of a call whose first try begins now. A nil policy counts as [None].
func Begin(policy Policy) Run { return Run{policy: begin(policy), start: time.Now()} }

// AllowRetry reports whether the policy lets the call be repeated after err; retryable is what the caller would decide.
func (r *Run) AllowRetry(err error, retryable bool) bool { return allowRetry(r.policy, err, retryable) }

// Next asks the policy about the next retry. The wait is not below zero.
func (r *Run) Next(err error) (wait time.Duration, ok bool) {
	wait, ok = r.policy.Next(r.retries, time.Since(r.start), err)
	if !ok {
		return 0, false
	}
	r.retries++
	return max(wait, 0), true
}

// Done tells the policy how the call has ended.
func (r *Run) Done(err error) { done(r.policy, err) }

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
