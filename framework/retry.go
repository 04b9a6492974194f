// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gocurator/curator/retry"
)

// plan describes how a call of a verb is carried out.
type plan struct {
	common

	// A try calls attempt or, if that is nil, sends calls in one write.
	calls   []*call
	attempt func(context.Context) error

	// marks means that the attempt is a function of the program, which may mark an error as retry.Permanent.
	marks bool

	// repeatable means that a second run does no harm after a try whose outcome is unknown.
	repeatable bool

	// settles, when set, translates the error of the last try, considering all tries.
	settles interface{ settle(error) error }

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
		if !returned && p.settles != nil && p.last != nil {
			_ = p.settles.settle(p.last) // the panic is the error
		}
	}()
	err = r.repeat(ctx, &p, measured)
	returned = true
	measured.record(ctx, err)
	switch {
	case err == nil:
		return nil
	case p.settles != nil:
		// It knows about all tries, and says itself whether the outcome is unknown.
		err = p.settles.settle(err)
	case p.inDoubt && !OutcomeUnknown(err):
		// The last try has certainly changed nothing, but an earlier one may have.
		err = fmt.Errorf("%w: %w", errOutcomeUnknown, reasonOf(err))
	}
	return failed(op, path, err)
}

// errPanicked is what a [retry.Observer] hears of a call that user code has ended with a panic.
var errPanicked = errors.New("framework: the call panicked")

// repeat makes tries until one has succeeded, or there must be no other.
func (r *requests) repeat(ctx context.Context, p *plan, measured *measurement) (err error) {
	scope := r.scopeOf(ctx)
	policy := retry.Begin(r.policyFor(scope, p.retry))
	err = errPanicked // unless this returns
	defer func() { policy.Done(err) }()
	ctx, scope = r.bind(ctx, scope, p)
	// A policy that does not retry in another session binds the call to the current one.
	binds := scope.bound().session == nil && !policy.AllowRetry(ErrSessionExpired, true)
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
			p.last = r.exchangeIn(ctx, scope.bound(), p.calls)
		}
		p.inDoubt = p.inDoubt || OutcomeUnknown(p.last)
		if marked, reason := retry.Permanent(p.last); marked && p.marks {
			return cmp.Or(reason, errNoReason)
		}
		again, outcome := r.awaitRetry(ctx, &policy, scope.expired(p.last), p.repeatable)
		if !again {
			return outcome
		}
	}
}

// bind binds the tries of a call, and the calls that they make, such as the calls for parents, to its session and its history.
func (r *requests) bind(ctx context.Context, s *scope, p *plan) (context.Context, *scope) {
	// A surrounding call that is bound to another session has ended with it.
	if outer := s.bound().session; p.session != nil && p.session != outer && outer.over() == nil {
		ctx, s = r.within(ctx, s)
		s.session, s.byPolicy = p.session, false
	}
	if p.history != 0 {
		ctx, s = r.within(ctx, s)
		s.history = s.historyOf(p.history)
	}
	return ctx, s
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

// expired translates the error of a call that its policy has bound to a session into the
// error that the policy looks for.
func (s *scope) expired(err error) error {
	if err == nil || s == nil || !s.byPolicy || !errors.Is(err, ErrSessionEnded) || errors.Is(err, errOtherHistory) {
		return err
	}
	err = fmt.Errorf("%w: the call began in session %v", ErrSessionExpired, s.session)
	return err
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

var errNoReason = errors.New("framework: retry: op returned a backoff.PermanentError that holds no error")

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
	select {
	case <-time.After(wait):
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
