// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/gocurator/curator/internal/callscope"
	"github.com/gocurator/curator/retry"
)

// plan describes how a call of a verb is carried out.
type plan struct {
	common

	// A try calls attempt or, if that is nil, sends calls in one write.
	calls   []*call
	attempt func(context.Context) error

	// marks means that the attempt is a function of the program, which may mark an error with backoff.Permanent.
	marks bool

	// repeatable means that a second run does no harm after a try whose outcome is unknown.
	repeatable bool

	// settle, when set, translates the error of the last try, considering all tries.
	settle func(error) error

	last    error // of the newest try
	inDoubt bool  // a try has failed whose outcome is unknown
}

// run carries out a call of a verb: it repeats tries as the policy says, measures them
// together, and names the verb and its path in the error. An error in err refuses the call.
func (r *requests) run(ctx context.Context, op operation, path string, p plan, err error) error {
	switch {
	case err != nil:
		return failed(op, path, err)
	case ctx == nil:
		return failed(op, path, errNilContext)
	}
	p.last = ErrNotConnected // nothing has been sent
	measured, ctx := r.telemetry.begin(ctx, op, path)
	returned := false
	defer func() {
		measured.end()
		// After a panic of user code, such as the policy, the cleanup goes on in the background.
		if !returned && p.settle != nil && p.last != nil {
			_ = p.settle(p.last) // the panic is the error
		}
	}()
	err = r.repeat(ctx, &p, measured)
	returned = true
	measured.record(ctx, err)
	switch {
	case err == nil:
		return nil
	case p.settle != nil:
		// It knows about all tries, and says itself whether the outcome is unknown.
		err = p.settle(err)
	case p.inDoubt && !OutcomeUnknown(err):
		// The last try has certainly changed nothing, but an earlier one may have.
		err = fmt.Errorf("%w: %w", errOutcomeUnknown, reasonOf(err))
	}
	return failed(op, path, err)
}

// failed makes sure that an error of a verb is an OpError.
func failed(op operation, path string, err error) error {
	var have *OpError
	if err == nil || errors.As(err, &have) {
		return err
	}
	return &OpError{op.name, path, err}
}

// named returns an OpError. It returns err itself if err is one, as from one of several
// calls.
func named(op operation, path string, err error) error {
	if _, ok := err.(*OpError); ok { //nolint:errorlint // one that is wrapped names something else
		return err
	}
	return &OpError{op.name, path, err}
}

// reasonOf returns the cause in an OpError, for another OpError with verb and path.
func reasonOf(err error) error {
	if op, ok := err.(*OpError); ok { //nolint:errorlint // one that is wrapped names something else
		return op.Err
	}
	return err
}

// errPanicked is what a [retry.Observer] hears of a call that user code has ended with a panic.
var errPanicked = errors.New("framework: the call panicked")

// repeat makes tries until one has succeeded, or there must be no other.
func (r *requests) repeat(ctx context.Context, p *plan, measured *measurement) (err error) {
	scope := r.scopeOf(ctx)
	policy := retry.Begin(r.policyFor(scope, p.retry))
	err = errPanicked // unless this returns
	defer func() { policy.Done(err) }()
	// A surrounding call that is bound to another session has ended with it.
	if outer := scope.boundTo(); p.session != nil && p.session != outer && outer.over() == nil {
		// Also for the calls that an attempt makes, such as the calls for parents.
		ctx, scope = r.within(ctx, scope)
		scope.session, scope.byPolicy = p.session, false
	}
	if p.history != 0 {
		ctx, scope = r.within(ctx, scope)
		scope.history = scope.boundHistory(p.history)
	}
	// A policy that does not retry in another session binds the call to the current one.
	binds := scope.boundTo() == nil && !policy.AllowRetry(ErrSessionExpired, true)
	for tries := 1; ; tries++ {
		if _, s := r.tracker.current(); binds && s != nil && s.Err() == nil {
			ctx, scope = r.within(ctx, scope) //nolint:fatcontext // once at most
			scope.session, scope.byPolicy, binds = s, true, false
		}
		if tries > 1 {
			measured.retry(ctx, tries)
		}
		if p.attempt != nil {
			p.last = p.attempt(ctx)
		} else {
			p.last = r.exchange(ctx, p.calls...)
		}
		p.inDoubt = p.inDoubt || OutcomeUnknown(p.last)
		if permanent, ok := errors.AsType[*backoff.PermanentError](p.last); ok && p.marks {
			return permanentReason(permanent)
		}
		again, outcome := r.awaitRetry(ctx, &policy, scope.expired(p.last), p.repeatable)
		if !again {
			return outcome
		}
	}
}

// awaitRetry waits for the next try after one that has ended with err. It returns false and
// the outcome of the call if there is none.
func (r *requests) awaitRetry(ctx context.Context, policy *retry.Run, err error, repeatable bool) (again bool, outcome error) {
	if err == nil {
		return false, nil
	}
	// A second run of a write that was applied could undo later writes of other clients.
	if OutcomeUnknown(err) && !repeatable || !mayRepeat(policy, err) {
		if code, ok := errors.AsType[ServerError](err); ok && leavesDoubt(int32(code)) {
			_ = r.pause(ctx, doubtPause) // a caller that settles the doubt by the next write would not pause
		}
		return false, err
	}
	if why := r.over(ctx); why != nil {
		return false, stopped(why, err) // the policy is not asked about a try that cannot be made
	}
	wait, ok := policy.Next(err)
	if !ok {
		return false, err // the policy gives up: the last error says why
	}
	if why := r.pause(ctx, wait); why != nil {
		return false, stopped(why, err)
	}
	return true, nil
}

// doubtPause is the time that passes before a call fails because its server is in doubt. A lost connection takes time by itself.
const doubtPause = 20 * time.Millisecond

// mayRepeat reports whether the policy allows another try. A policy may widen what is
// retryable, but not beyond the end of the context, the session or the client.
func mayRepeat(run *retry.Run, err error) bool {
	_, ended := errors.AsType[*InterruptedError](err)
	if ended || errors.Is(err, ErrClosed) || errors.Is(err, ErrSessionEnded) || errors.Is(err, ErrNotStarted) {
		return false
	}
	return run.AllowRetry(err, Retryable(err))
}

// permanentReason returns why the function given to Framework.Retry refuses another try.
func permanentReason(permanent *backoff.PermanentError) error {
	if permanent.Err != nil {
		return permanent.Err
	}
	return errors.New("framework: retry: op returned a backoff.PermanentError that holds no error")
}

// over returns why there can be no other try.
func (r *requests) over(ctx context.Context) error {
	switch {
	case ctx.Err() != nil:
		return interrupted(ctx)
	case r.ctx.Err() != nil:
		return r.ended()
	default:
		return nil
	}
}

// pause waits between two tries, and returns what ended the wait early.
func (r *requests) pause(ctx context.Context, wait time.Duration) error {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-r.ctx.Done():
	}
	return r.over(ctx)
}

// stopped is the error of a call that could not be repeated after last.
func stopped(why, last error) error {
	err := fmt.Errorf("%w; last error: %w", why, reasonOf(last))
	var op *OpError
	if errors.As(last, &op) {
		return &OpError{op.Op, op.Path, err}
	}
	return err
}

// scope is what the calls of one client under a context have in common. It is nil for a
// context without any.
type scope struct {
	budget  *retry.Budget // of the retries of all; nil for none
	over    *atomic.Bool  // the loop that made the budget has ended; nil without a loop
	session *Session      // the only one to run in, nil for any
	history int64         // the only one to run in, 0 for any

	// byPolicy means that a policy such as retry.SessionFailed has bound the call to the
	// session in which it began, rather than the caller by InSession.
	byPolicy bool
}

type scopeKey struct{ client *requests }

// scopeOf returns the scope in the context for this client. A Retry that has returned no
// longer counts, even if its context is still used.
func (r *requests) scopeOf(ctx context.Context) *scope {
	if ctx == nil {
		return nil // the call refuses a nil context itself
	}
	s, _ := ctx.Value(scopeKey{r}).(*scope)
	if s == nil || s.over != nil && s.over.Load() {
		return nil
	}
	return s
}

// boundTo returns the only session that calls may run in, nil for any.
func (s *scope) boundTo() *Session {
	if s == nil {
		return nil
	}
	return s.session
}

// boundHistory returns the only history that a call may run in, 0 for any and -1 for none. Its own is 0 if
// the call itself is not bound.
func (s *scope) boundHistory(own int64) int64 {
	switch {
	case s == nil, s.history == 0, s.history == own:
		return own
	case own == 0:
		return s.history
	default:
		return -1 // one of the two has ended
	}
}

// within returns a context with a scope of its own, which begins as the outer one.
func (r *requests) within(ctx context.Context, outer *scope) (context.Context, *scope) {
	inner := &scopedContext{Context: ctx, key: scopeKey{r}}
	if outer != nil {
		inner.scope = *outer
	}
	return inner, &inner.scope
}

// scopedContext is a context with a scope. It does what context.WithValue does, in one piece
// of memory.
type scopedContext struct {
	context.Context
	key   scopeKey
	scope scope
}

// Value returns the scope for its key, and to recipes.
func (c *scopedContext) Value(key any) any {
	if key == any(c.key) || key == any(callscope.Key{}) {
		return &c.scope
	}
	return c.Context.Value(key)
}

// expired translates the error of a call that its policy has bound to a session into the
// error that the policy looks for.
func (s *scope) expired(err error) error {
	if err == nil || s == nil || !s.byPolicy || !errors.Is(err, ErrSessionEnded) || errors.Is(err, errOtherHistory) {
		return err
	}
	err = fmt.Errorf("%w: the call began in session %v", ErrSessionExpired, s.session)
	return err
}

// withBudget returns a context whose calls share one budget. It is the budget of a
// surrounding Retry, unless there is a policy. The caller must call the second result.
func (r *requests) withBudget(ctx context.Context, policy retry.Policy) (context.Context, func()) {
	outer := r.scopeOf(ctx)
	if policy == nil {
		if outer != nil && outer.budget != nil {
			return ctx, func() {} // the outer loop counts, and ends, for this one as well
		}
		policy = r.cfg.retry
	}
	ctx, loop := r.within(ctx, outer)
	loop.budget, loop.over = retry.NewBudget(policy), new(atomic.Bool)
	return ctx, func() { loop.over.Store(true) }
}

// policyFor returns the policy of a call: its own, its scope's budget, or the client's.
func (r *requests) policyFor(s *scope, own retry.Policy) retry.Policy {
	switch {
	case own != nil:
		return own
	case s != nil && s.budget != nil:
		return s.budget
	default:
		return r.cfg.retry
	}
}
