package locks

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Context derives a context for work under the lock: it has the values of ctx,
// ends with ctx and when the lease ends, and carries ownership, so that an
// acquisition of the same lock with it re-enters. When the lease has ended
// context.Cause is a [*LostError] or [ErrReleased]. Derived from a context that has
// ended it has ended too. It panics if ctx is nil, as package context does.
//
// There is nothing to cancel: what the context needs is freed when ctx or the lease
// ends, and contexts derived from one ctx share it.
func (l *Lease) Context(ctx context.Context) context.Context {
	if ctx == nil {
		panic("locks: Context of a lease and a nil context")
	}
	ends, cancel := l.derived.with(l.ctx, ctx)
	c := &leaseContext{Context: ends, cancel: cancel, values: ctx, hold: l.hold, lease: l}
	c.settle()
	return c
}

// leaseContext is a context under a lease: it ends with the lease and with another
// context, whose values it has.
type leaseContext struct {
	context.Context // ends; has no values of its own
	cancel          context.CancelCauseFunc
	values          context.Context
	hold            *hold
	lease           *Lease
}

// settle ends the context if the one that it was derived from has ended. It need not
// wait for the goroutine that tells of that.
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

// Deadline is that of the context that Context was given.
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
	_, _ = fmt.Fprintf(s, "%v.WithLease(%s)", c.values, c.hold.node.Path)
}

// derivations are the contexts that end with a lease and with another context. Those
// that end with contexts of one Done channel are one: a caller that derives a context for
// each request, under a lease and from a context that both outlive it, keeps one for all.
type derivations struct {
	mu     sync.Mutex
	byDone map[<-chan struct{}]*derivation
}

type derivation struct {
	context.Context
	cancel context.CancelCauseFunc
}

// with returns a context that ends with both. For one that never ends it is the lease's
// own, which cancel then leaves alone.
func (d *derivations) with(lease, ctx context.Context) (context.Context, context.CancelCauseFunc) {
	done := ctx.Done()
	if done == nil {
		return lease, func(error) {}
	}
	d.mu.Lock()
	have := d.byDone[done]
	if have != nil && have.Err() == nil {
		d.mu.Unlock()
		return have.Context, have.cancel
	}
	made := new(derivation)
	made.Context, made.cancel = context.WithCancelCause(lease)
	if d.byDone == nil {
		d.byDone = make(map[<-chan struct{}]*derivation)
	}
	d.byDone[done] = made
	d.mu.Unlock()
	// The functions must not refer to the lease, which may be dropped while ctx lasts.
	stop := context.AfterFunc(ctx, func() { made.cancel(context.Cause(ctx)) })
	context.AfterFunc(made.Context, func() {
		stop()
		d.forget(done, made)
	})
	return made.Context, made.cancel
}

func (d *derivations) forget(done <-chan struct{}, ended *derivation) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.byDone[done] == ended {
		delete(d.byDone, done)
	}
}
