// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"fmt"
)

// Retry calls op until it succeeds or fails with an error that is not [Retryable], as the
// client's retry policy or [WithRetry] says. It does not repeat op after a write whose
// outcome is unknown; mark the writes within op that may be repeated as [Idempotent]. An error
// that op marks as [retry.Permanent] is returned at once. It is Curator's
// RetryLoop.callWithRetry.
//
// Calls of this client within op that use the context given to op are repeated too, and
// share one budget with op. Together they make no more retries, and spend no more time on
// them, than the policy allows a single call. The same goes for a Retry within op.
//
// Retry returns the error of the last try, as op returned it. It blocks while op runs and
// during the pauses, which end with the context and with the client. If the client is
// closed, or not started, Retry fails and does not call op.
func (f *Framework) Retry(ctx context.Context, op func(ctx context.Context) error, opts ...CallOption) error {
	cfg, err := newCommon(opts)
	switch {
	case err != nil:
	case ctx == nil:
		err = errNilContext
	case op == nil:
		err = fmt.Errorf("%w: op nil, expected a function", ErrInvalidOption)
	default:
		err = f.usable()
	}
	if err != nil {
		return fmt.Errorf("framework: retry: %w", err)
	}
	ctx, end := f.withBudget(ctx, cfg.retry)
	defer end()
	return f.repeat(ctx, &plan{common: common{session: cfg.session, history: cfg.history}, attempt: op, marks: true}, nil)
}
