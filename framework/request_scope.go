package framework

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/gocurator/curator/retry"
)

// scope is what the calls of one client under a context have in common. It is nil for a
// context without any.
type scope struct {
	budget  *retry.Budget // of the retries of all; nil for none
	over    *atomic.Bool  // the loop that made the budget has ended; nil without a loop
	session *Session      // the only one to run in, nil for any

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

// inSession returns a context whose calls run in one session only.
func (r *requests) inSession(ctx context.Context, parent *scope, session *Session, byPolicy bool) (context.Context, *scope) {
	bound := &scopedContext{Context: ctx, key: scopeKey{r}, scope: scope{session: session, byPolicy: byPolicy}}
	if parent != nil {
		bound.scope.budget, bound.scope.over = parent.budget, parent.over
	}
	return bound, &bound.scope
}

// scopedContext is a context with a scope. It does what context.WithValue does, in one piece
// of memory.
type scopedContext struct {
	context.Context
	key   scopeKey
	scope scope
}

// Value returns the scope for its key.
func (c *scopedContext) Value(key any) any {
	if key == any(c.key) {
		return &c.scope
	}
	return c.Context.Value(key)
}

// expired translates the error of a call that its policy has bound to a session into the
// error that the policy looks for.
func (s *scope) expired(err error) error {
	if err == nil || s == nil || !s.byPolicy || !errors.Is(err, ErrSessionEnded) {
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
	loop := &scope{budget: retry.NewBudget(policy), over: new(atomic.Bool)}
	if outer != nil {
		loop.session, loop.byPolicy = outer.session, outer.byPolicy
	}
	return context.WithValue(ctx, scopeKey{r}, loop), func() { loop.over.Store(true) }
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
