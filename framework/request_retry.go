package framework

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/gocurator/curator/retry"
)

// common is what the options of all verbs set.
type common struct {
	retry   retry.Policy // nil for the policy of the surrounding Retry, or the client's
	session *Session     // the only one to run in, nil for any
}

// plan describes how a call of a verb is carried out.
type plan struct {
	common

	// A try calls attempt or, if that is nil, sends calls in one write.
	calls   []*call
	attempt func(context.Context) error

	// repeatable means that a second run does no harm after a try whose outcome is unknown.
	repeatable bool

	// settle, when set, translates the error of the last try, considering all tries.
	settle func(error) error

	onRetry func(ctx context.Context, attempt int) // when set, called before each try but the first

	tries   int
	last    error // of the newest try
	inDoubt bool  // a try has failed whose outcome is unknown
}

// verb carries out a call of a verb: it prepares the plan, measures, retries, and names the
// verb and its path in the error.
func (r *requests) verb(ctx context.Context, op operation, path string, prepare func() (plan, error)) error {
	p, err := prepare()
	if err == nil {
		err = r.carryOut(ctx, op, path, &p)
	}
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

// carryOut measures and retries. If user code such as the retry policy panics, what the call
// would have left to the background is left to it all the same.
func (r *requests) carryOut(ctx context.Context, op operation, path string, p *plan) error {
	p.last = ErrNotConnected // nothing has been sent
	returned := false
	defer func() {
		if !returned && p.settle != nil && p.last != nil {
			_ = p.settle(p.last) // the panic is the error
		}
	}()
	err := r.measured(ctx, op, path, p)
	returned = true
	return err
}

// failed makes sure that an error of a verb is an OpError.
func failed(op operation, path string, err error) error {
	var have *OpError
	if err == nil || errors.As(err, &have) {
		return err
	}
	return &OpError{op.name, path, err}
}

// named returns an OpError: err itself, if it is one, as of a call that stands for several.
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

// try makes one try.
func (r *requests) try(ctx context.Context, p *plan) error {
	if p.tries++; p.tries > 1 && p.onRetry != nil {
		p.onRetry(ctx, p.tries)
	}
	var err error
	if p.attempt != nil {
		err = p.attempt(ctx)
	} else {
		err = r.exchange(ctx, p.calls...)
	}
	p.last, p.inDoubt = err, p.inDoubt || OutcomeUnknown(err)
	return err
}

// retry makes tries as the policy says.
func (r *requests) retry(ctx context.Context, p *plan) error {
	scope := r.scopeOf(ctx)
	run := retry.Begin(r.policyFor(scope, p.retry))
	// A surrounding call that is bound to another session has ended with it.
	if outer := scope.boundTo(); p.session != nil && p.session != outer && outer.over() == nil {
		// Also for the calls that an attempt makes, such as those for parents.
		ctx, scope = r.inSession(ctx, scope, p.session, false)
	}
	err := r.repeat(ctx, scope, p, &run)
	run.Done(err)
	return err
}

func (r *requests) repeat(ctx context.Context, scope *scope, p *plan, run *retry.Run) error {
	// A policy that does not retry in another session binds the call to the current one.
	binds := scope.boundTo() == nil && !run.AllowRetry(ErrSessionExpired, true)
	for {
		if _, s := r.tracker.current(); binds && s != nil && s.Err() == nil {
			ctx, scope = r.inSession(ctx, scope, s, true) //nolint:fatcontext // once at most
			binds = false
		}
		err := scope.expired(r.try(ctx, p))
		if err == nil || isPermanent(err) {
			return permanentReason(err)
		}
		// A second run of a write that was applied could undo what others did since.
		if OutcomeUnknown(err) && !p.repeatable || !mayRepeat(run, err) {
			return err
		}
		if why := r.over(ctx); why != nil {
			return stopped(why, err) // the policy is not asked about a try that cannot be made
		}
		wait, ok := run.Next(err)
		if !ok {
			return err // the policy gives up: the last error says why
		}
		if why := r.pause(ctx, wait); why != nil {
			return stopped(why, err)
		}
	}
}

// mayRepeat reports whether the policy allows another try. A policy may widen what is
// retryable, but not beyond the end of the context, the session or the client.
func mayRepeat(run *retry.Run, err error) bool {
	_, ended := errors.AsType[*InterruptedError](err)
	if ended || errors.Is(err, ErrClosed) || errors.Is(err, ErrSessionEnded) || errors.Is(err, ErrNotStarted) {
		return false
	}
	return run.AllowRetry(err, Retryable(err))
}

// isPermanent reports whether the function given to Framework.Retry refuses another try.
func isPermanent(err error) bool {
	_, permanent := errors.AsType[*backoff.PermanentError](err)
	return permanent
}

func permanentReason(err error) error {
	if permanent, ok := errors.AsType[*backoff.PermanentError](err); ok {
		return permanent.Err
	}
	return err
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
