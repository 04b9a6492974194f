// SPDX-License-Identifier: Apache-2.0

// Package contexts makes one context of two: one that ends with either, or one with the values of
// the other.
package contexts

import (
	"context"
	"sync"
)

// Either has the contexts that end with one context, which is always the same, or with another,
// one for each Done channel of the other. So a caller that derives a context for each request from
// two long-lived ones uses one entry for all of them. The zero value is ready for use.
type Either struct {
	mu     sync.Mutex
	byDone map[<-chan struct{}]*derivation
}

type derivation struct {
	context.Context
	cancel context.CancelCauseFunc
}

// With returns a context that ends when either ends, and a function that ends it. For a
// ctx that never ends these are the one context itself and a function without effect.
func (d *Either) With(one, ctx context.Context) (context.Context, context.CancelCauseFunc) {
	done := ctx.Done()
	if done == nil {
		return one, func(error) {}
	}
	d.mu.Lock()
	have := d.byDone[done]
	if have != nil && have.Err() == nil { // one that has ended is about to be forgotten
		d.mu.Unlock()
		return have.Context, have.cancel
	}
	made := new(derivation)
	made.Context, made.cancel = context.WithCancelCause(one)
	if d.byDone == nil {
		d.byDone = make(map[<-chan struct{}]*derivation)
	}
	d.byDone[done] = made
	d.mu.Unlock()
	// The callbacks refer to d and to no owner of d, which may be dropped while ctx lasts.
	stop := context.AfterFunc(ctx, func() { made.cancel(context.Cause(ctx)) })
	context.AfterFunc(made.Context, func() {
		stop()
		d.forget(done, made)
	})
	return made.Context, made.cancel
}

// forget removes a context that has ended, unless another has taken its place.
func (d *Either) forget(done <-chan struct{}, ended *derivation) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.byDone[done] == ended {
		delete(d.byDone, done)
	}
}

// WithValues returns ctx with the values of another context, such as the span of a caller.
func WithValues(ctx, values context.Context) context.Context {
	if values == context.Background() {
		return ctx
	}
	return valuesContext{ctx, values}
}

// valuesContext is a context with the values of another one.
type valuesContext struct {
	context.Context
	values context.Context
}

// Value returns a value of either. Package context finds its own in the embedded one, so it
// comes first.
func (c valuesContext) Value(key any) any {
	if v := c.Context.Value(key); v != nil {
		return v
	}
	return c.values.Value(key)
}
