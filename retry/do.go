// SPDX-License-Identifier: Apache-2.0

package retry

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"
)

// Do calls op until it returns nil, and between the calls waits as policy says. Op gets ctx as it is, and runs on the
// goroutine of the caller, one call at a time. Do retries after any error of op that is not marked as [Permanent]. A [Selector]
// may refuse a retry too, and an [Observer] receives what Do returns. A nil policy counts as [None].
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
	run := Begin(policy)
	err := errPanicked // unless what follows returns
	defer func() { run.Done(err) }()
	err = repeat(ctx, &run, op)
	return err
}

// errPanicked is what an [Observer] hears of a call that has ended with a panic, or with its goroutine.
var errPanicked = errors.New("retry: the call panicked")

// repeat calls op, and waits between the calls, until there is an outcome.
func repeat(ctx context.Context, run *Run, op func(context.Context) error) error {
	for {
		err := op(ctx)
		isPermanent, reason := Permanent(err)
		switch {
		case err == nil:
			return nil
		case isPermanent && reason == nil:
			return errors.New("retry: op returned a backoff.PermanentError that holds no error")
		case isPermanent:
			return reason
		case ctx.Err() != nil:
			return interrupted(ctx, err)
		case !run.AllowRetry(err, true):
			return err
		}
		wait, ok := run.Next(err)
		if !ok {
			return err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
		if ctx.Err() != nil { // even if the wait has ended with it
			return interrupted(ctx, err)
		}
	}
}

// Permanent reports whether an operation has marked err as not worth another try: whether err is, or wraps, what
// backoff.Permanent of github.com/cenkalti/backoff returns. It returns the error within the mark. v4 and v5 of that module
// have a type each, and Permanent knows both.
func Permanent(err error) (marked bool, reason error) {
	for err != nil {
		// By its name, as the type of v5 is not in a module that this one requires.
		if reflect.TypeOf(err).String() == "*backoff.PermanentError" {
			return true, errors.Unwrap(err)
		}
		joined, ok := err.(interface{ Unwrap() []error })
		if !ok {
			err = errors.Unwrap(err)
			continue
		}
		for _, part := range joined.Unwrap() {
			if marked, reason = Permanent(part); marked {
				return true, reason
			}
		}
		return false, nil
	}
	return false, nil
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
