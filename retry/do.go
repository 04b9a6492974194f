// SPDX-License-Identifier: Apache-2.0

package retry

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// Do calls op until it returns nil, and between the calls waits as policy says. Op gets ctx as it is, and runs on the
// goroutine of the caller, one call at a time. Do retries after any error of op, unless the error is, or wraps, a
// *backoff.PermanentError. op marks an error that is not worth another try with backoff.Permanent. A [Selector] may
// refuse a retry too, and an [Observer] receives what Do returns. A nil policy counts as [None].
//
// Do returns
//   - nil when op returned nil;
//   - the error within the *backoff.PermanentError when op returned one, without what may have been wrapped around it;
//   - the last error of op, unchanged, when policy gave up;
//   - an error that matches ctx.Err() and context.Cause(ctx), without a call of op, when ctx had ended before the first call;
//   - an error that matches ctx.Err(), context.Cause(ctx) and the last error of op (by errors.Is and errors.As) when ctx ended
//     later, during a call that failed or during a wait. If the last error of op already matches the cause, it is returned
//     alone.
//
// Do blocks for as long as op does, plus the waits. A wait ends as soon as ctx does, and op is not called again after that. Policy
// receives the monotonic time since the first call began. Do leaves no goroutine and no timer behind. A panic of op passes
// through it; an Observer receives an error then.
func Do(ctx context.Context, policy Policy, op func(ctx context.Context) error) error {
	if op == nil {
		return errors.New("retry: op is nil, expected the function to run")
	}
	if ctx == nil {
		return errors.New("retry: context is nil, expected one such as context.Background()")
	}
	if ctx.Err() != nil {
		return ended(ctx)
	}
	l := &loop{ctx: ctx, run: Begin(policy), op: op}
	err := errPanicked // unless what follows returns
	defer func() { l.run.Done(err) }()
	err = l.outcome(backoff.Retry(l.try, backoff.WithContext(l, ctx)))
	return err
}

// errPanicked is what an [Observer] hears of a call that has ended with a panic, or with its goroutine.
var errPanicked = errors.New("retry: the call panicked")

// loop is one Do. To backoff.Retry it is the BackOff, and try is the operation.
type loop struct {
	ctx context.Context // of this Do only: a loop does not outlive it
	run Run
	op  func(context.Context) error

	last   error // of op
	gaveUp bool  // policy said no
}

func (l *loop) try() error {
	if l.last != nil && l.ctx.Err() != nil {
		return l.last // the wait and ctx ended together: backoff sees ctx next, and stops
	}
	l.last = l.op(l.ctx)
	return l.last
}

// Reset is called by backoff.Retry once, before the first try, with which the run has begun.
func (l *loop) Reset() {}

// NextBackOff is called by backoff.Retry after a failed try unless ctx has ended.
func (l *loop) NextBackOff() time.Duration {
	if l.run.AllowRetry(l.last, true) {
		if wait, ok := l.run.Next(l.last); ok {
			return wait
		}
	}
	l.gaveUp = true
	return backoff.Stop
}

// outcome makes the error of Do from the error of backoff.Retry, which drops either the cause of ctx or the error of op.
func (l *loop) outcome(err error) error {
	if l.last == nil {
		return nil
	}
	permanent, isPermanent := errors.AsType[*backoff.PermanentError](l.last)
	switch {
	case isPermanent:
		if permanent.Err == nil {
			return errors.New("retry: op returned a backoff.PermanentError that holds no error")
		}
		return err
	case l.gaveUp:
		return l.last
	default:
		return interrupted(l.ctx, l.last)
	}
}

// interrupted returns the error of a Do that ended because ctx did.
func interrupted(ctx context.Context, last error) error {
	if errors.Is(last, context.Cause(ctx)) {
		return last
	}
	return fmt.Errorf("retry: stopped: %w; last error: %w", ended(ctx), last)
}

// ended returns the error of a context that has ended, joined with its cause if they differ.
func ended(ctx context.Context) error {
	if cause := context.Cause(ctx); !errors.Is(cause, ctx.Err()) {
		return fmt.Errorf("%w: %w", ctx.Err(), cause)
	}
	return context.Cause(ctx)
}
