// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"sync/atomic"

	"github.com/gocurator/curator/internal/callscope"
	"github.com/gocurator/curator/retry"
)

// scope is what the calls of one client under a context have in common. It is nil for a
// context without any.
type scope struct {
	budget *retry.Budget // of the retries of all; nil for none
	over   *atomic.Bool  // the loop that made the budget has ended; nil without a loop
	bounds

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

// bound returns the bounds of calls.
func (s *scope) bound() bounds {
	if s == nil {
		return bounds{}
	}
	return s.bounds
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
