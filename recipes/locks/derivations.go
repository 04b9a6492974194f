package locks

import (
	"context"
	"sync"
)

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
