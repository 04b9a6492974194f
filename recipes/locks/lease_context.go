// SPDX-License-Identifier: Apache-2.0

package locks

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/gocurator/curator/framework"
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

// LeaseFrom returns the lease that a context was derived from with [Lease.Context]: the
// innermost if there are several, or nil if there is none. Inside [Do] it is the lease that
// Do has acquired; use it for Token, Transact, Revoked, or [Condition.Signal].
//
// The lease belongs to the caller that acquired it. Do releases its lease when fn
// returns; a release before that ends the context of fn.
func LeaseFrom(ctx context.Context) *Lease {
	if c := leaseContextIn(ctx); c != nil {
		return c.lease
	}
	return nil
}

// LeasesFrom returns all leases that a context was derived from, the outermost first.
// Inside [InterProcessMultiLock.Do] the leases of its members come last, in their order.
func LeasesFrom(ctx context.Context) []*Lease {
	var leases []*Lease
	for c := leaseContextIn(ctx); c != nil; c = leaseContextIn(c.values) {
		leases = append(leases, c.lease)
	}
	slices.Reverse(leases)
	return leases
}

func leaseContextIn(ctx context.Context) *leaseContext {
	if ctx == nil {
		return nil
	}
	c, _ := ctx.Value(leaseKey{}).(*leaseContext)
	return c
}

// derivations has the contexts that end with a lease or with another context, one for each
// Done channel. So a caller that derives a context for each request, from one lease and one
// long-lived context, uses one entry for all of them.
type derivations struct {
	mu     sync.Mutex
	byDone map[<-chan struct{}]*derivation
}

type derivation struct {
	context.Context
	cancel context.CancelCauseFunc
}

// with returns a context that ends when either ends, and a function that ends it. For a
// ctx that never ends these are the lease's own context and a function without effect.
func (d *derivations) with(lease, ctx context.Context) (context.Context, context.CancelCauseFunc) {
	done := ctx.Done()
	if done == nil {
		return lease, func(error) {}
	}
	d.mu.Lock()
	have := d.byDone[done]
	if have != nil && have.Err() == nil { // one that has ended is about to be forgotten
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
	// The callbacks must not refer to the lease: it may be dropped while ctx lasts, and only
	// then is it reported.
	stop := context.AfterFunc(ctx, func() { made.cancel(context.Cause(ctx)) })
	context.AfterFunc(made.Context, func() {
		stop()
		d.forget(done, made)
	})
	return made.Context, made.cancel
}

// forget removes a context that has ended, unless another has taken its place.
func (d *derivations) forget(done <-chan struct{}, ended *derivation) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.byDone[done] == ended {
		delete(d.byDone, done)
	}
}

// ownerKey finds the hold of one lock in a context. Views of one client that name the same
// node name the same lock. The two sides of a read/write lock share a folder, so the key
// has the base path.
type ownerKey struct {
	client   *framework.Framework // without namespace
	basePath string               // at the server
}

// owned returns the hold of this lock that ctx carries, or nil.
func (l *LockInternals) owned(ctx context.Context) *hold {
	if ctx == nil {
		return nil // the acquisition returns the error
	}
	h, _ := ctx.Value(l.owner).(*hold)
	return h
}

// refuseReentry returns an error if re-entry is off and ctx holds the lock.
func (l *LockInternals) refuseReentry(ctx context.Context) error {
	h := l.owned(ctx)
	holds := h != nil && h.err() == nil // a hold that has ended is refused later, with its cause
	if !l.cfg.noReentry || !holds {
		return nil
	}
	return fmt.Errorf("%w: the context holds this lock already, which was made WithoutReentry: "+
		"acquire with a context that carries no lease of it", ErrReentered)
}
