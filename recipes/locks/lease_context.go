package locks

import (
	"context"
	"fmt"
	"time"
)

// Context derives a context for work under the lock. It has the values and the deadline of
// ctx, ends when ctx or the lease ends, and carries ownership: an acquisition of the same
// lock with it re-enters. When the lease has ended context.Cause returns a [*LostError] or
// [ErrReleased]. It panics if ctx is nil, as package context does.
//
// There is nothing to cancel: the resources of the context are freed when ctx or the lease
// ends, and contexts derived from one ctx share them.
func (l *Lease) Context(ctx context.Context) context.Context {
	if ctx == nil {
		panic("locks: Context of a lease and a nil context")
	}
	if l.derived.Load() == nil {
		l.derived.CompareAndSwap(nil, new(derivations))
	}
	ends, cancel := l.derived.Load().with(l.context(), ctx)
	c := &leaseContext{Context: ends, cancel: cancel, values: ctx, hold: l.hold, lease: l}
	c.settle()
	return c
}

// leaseKey finds the innermost leaseContext in a context.
type leaseKey struct{}

// leaseContext is a context under a lease: it ends with the lease or with another context,
// and has the values of that context.
type leaseContext struct {
	context.Context // ends; has no values of its own
	cancel          context.CancelCauseFunc
	values          context.Context
	hold            *hold
	lease           *Lease
}

// settle ends the context if its parent has ended. Otherwise that would wait for the
// goroutine that context.AfterFunc starts.
func (c *leaseContext) settle() {
	if c.values.Err() != nil {
		c.cancel(context.Cause(c.values))
	}
}

// Err returns nil while the lease and the context that Context was given last.
func (c *leaseContext) Err() error {
	c.settle()
	return c.Context.Err()
}

// Deadline returns the deadline of the context that Context was given.
func (c *leaseContext) Deadline() (time.Time, bool) { return c.values.Deadline() }

// Value returns ownership, then the values of the context that Context was given.
// The embedded one comes first: package context finds its own there.
func (c *leaseContext) Value(key any) any {
	if v := c.Context.Value(key); v != nil {
		c.settle() // it may be asked for the cause
		return v
	}
	switch key {
	case leaseKey{}:
		return c
	case c.hold.l.owner:
		return c.hold
	}
	return c.values.Value(key)
}

// Format names the context as package context names its own, for every verb.
func (c *leaseContext) Format(s fmt.State, _ rune) {
	// As in Lease.Format.
	_, _ = fmt.Fprintf(s, "%v.WithLease(%s)", c.values, c.hold.node.path)
}
