// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"errors"
	"fmt"

	"github.com/gocurator/curator/retry"
)

// RetryOption is returned by [WithRetry].
type RetryOption struct{ policy retry.Policy }

// WithRetry sets the retry policy of this one call, instead of the policy of the client or
// of a [Framework.Retry] around it. It does not change which calls may be repeated. With
// retry.None() there is one try.
//
// A [Framework.Pipeline] of several reads and a transaction refuse WithRetry: they are
// repeated as a whole, see Framework.Retry.
func WithRetry(policy retry.Policy) RetryOption { return RetryOption{policy} }

func (o RetryOption) checked() (retry.Policy, error) {
	if o.policy == nil {
		return nil, errors.New("WithRetry(nil), expected a policy such as retry.None()")
	}
	return o.policy, nil
}

func (o RetryOption) applyCreate(c *createConfig) (err error) { c.retry, err = o.checked(); return err }

func (o RetryOption) applyDelete(c *deleteConfig) (err error) { c.retry, err = o.checked(); return err }

func (o RetryOption) applyGet(c *readConfig) (err error) { c.retry, err = o.checked(); return err }

func (o RetryOption) applyExists(c *readConfig) (err error) { c.retry, err = o.checked(); return err }

func (o RetryOption) applyChildren(c *readConfig) (err error) { c.retry, err = o.checked(); return err }

func (o RetryOption) applySet(c *setConfig) (err error) { c.retry, err = o.checked(); return err }

func (o RetryOption) applyGetACL(c *readConfig) (err error) { c.retry, err = o.checked(); return err }

func (o RetryOption) applySetACL(c *setConfig) (err error) { c.retry, err = o.checked(); return err }

func (o RetryOption) applyReconfig(c *reconfigConfig) (err error) {
	c.retry, err = o.checked()
	return err
}

func (o RetryOption) applyCall(c *callConfig) (err error) { c.retry, err = o.checked(); return err }

func (o RetryOption) applyLoop(c *loopConfig) (err error) { c.retry, err = o.checked(); return err }

// SessionOption is returned by [InSession].
type SessionOption struct{ session *Session }

// InSession binds the call to this session: once the session has ended, even while the call
// waits for a connection, the call fails with [ErrSessionEnded] and sends nothing. Given to
// [Framework.Retry], it binds all calls within, including [Framework.Pipeline] and
// [Framework.Transact].
func InSession(s *Session) SessionOption { return SessionOption{s} }

func (o SessionOption) bind(c *common) error {
	if o.session == nil {
		return errors.New("InSession(nil), expected a session")
	}
	c.session = o.session
	return nil
}

func (o SessionOption) applyCreate(c *createConfig) error     { return o.bind(&c.common) }
func (o SessionOption) applyDelete(c *deleteConfig) error     { return o.bind(&c.common) }
func (o SessionOption) applyGet(c *readConfig) error          { return o.bind(&c.common) }
func (o SessionOption) applyExists(c *readConfig) error       { return o.bind(&c.common) }
func (o SessionOption) applyChildren(c *readConfig) error     { return o.bind(&c.common) }
func (o SessionOption) applySet(c *setConfig) error           { return o.bind(&c.common) }
func (o SessionOption) applyGetACL(c *readConfig) error       { return o.bind(&c.common) }
func (o SessionOption) applySetACL(c *setConfig) error        { return o.bind(&c.common) }
func (o SessionOption) applyReconfig(c *reconfigConfig) error { return o.bind(&c.common) }
func (o SessionOption) applyCall(c *callConfig) error         { return o.bind(&c.common) }
func (o SessionOption) applyLoop(c *loopConfig) error         { return o.bind(&c.common) }

// CallOption is an option of the verbs without options of their own.
type CallOption interface{ applyCall(*callConfig) error }

// callConfig is what a CallOption sets.
type callConfig struct{ common }

func newCallConfig(opts []CallOption) (callConfig, error) {
	var cfg callConfig
	err := applyAll(opts, func(o CallOption) error { return o.applyCall(&cfg) })
	return cfg, err
}

// LoopOption is an option of [Framework.Retry]: [WithRetry], [Idempotent] or [InSession].
type LoopOption interface{ applyLoop(*loopConfig) error }

// loopConfig is what a LoopOption sets.
type loopConfig struct {
	common
	idempotent bool
}

//nolint:unparam // other options can fail
func (IdempotentOption) applyLoop(c *loopConfig) error { c.idempotent = true; return nil }

// Retry calls op until it succeeds or fails with an error that is not [Retryable], as
// the client's retry policy or [WithRetry] says. It does not repeat op after a write whose
// outcome is unknown, unless op is marked [Idempotent]: a second run does no harm after a
// partial first run. It is Curator's RetryLoop.callWithRetry.
//
// Calls of this client within op that use the context given to op are repeated too, and
// share one budget with op: together they make no more retries, and spend no more time on
// them, than the policy allows a single call. The same goes for a Retry within op.
//
// Retry returns the error of the last try, as op returned it. It blocks while op runs and
// during the pauses, which end with the context and with the client. If the client is
// closed, or not started, Retry fails and does not call op.
func (f *Framework) Retry(ctx context.Context, op func(ctx context.Context) error, opts ...LoopOption) error {
	var cfg loopConfig
	err := applyAll(opts, func(o LoopOption) error { return o.applyLoop(&cfg) })
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
	return f.repeat(ctx, &plan{common: common{session: cfg.session}, attempt: op, repeatable: cfg.idempotent}, nil)
}
