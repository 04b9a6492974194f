// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"log/slog"
	"sync"
)

// gate is a log handler that can be blocked: what is logged then waits, with the goroutine that logs it.
type gate struct {
	slog.Handler

	state *gateState
}

// gateState is what a handler and those derived from it share.
type gateState struct {
	mu   sync.Mutex
	open chan struct{} // closed unless the gate is blocked
}

func newGate(h slog.Handler) *gate {
	g := &gate{h, &gateState{open: make(chan struct{})}}
	close(g.state.open)
	return g
}

// Handle waits until the gate is open.
func (g *gate) Handle(ctx context.Context, r slog.Record) error {
	g.state.mu.Lock()
	open := g.state.open
	g.state.mu.Unlock()
	<-open
	return g.Handler.Handle(ctx, r)
}

// WithAttrs and WithGroup return handlers that are blocked together with this one.
func (g *gate) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &gate{g.Handler.WithAttrs(attrs), g.state}
}

// WithGroup is explained at WithAttrs.
func (g *gate) WithGroup(name string) slog.Handler { return &gate{g.Handler.WithGroup(name), g.state} }

// block blocks the gate, if it is open.
func (g *gate) block() {
	g.state.mu.Lock()
	defer g.state.mu.Unlock()
	select {
	case <-g.state.open:
		g.state.open = make(chan struct{})
	default:
	}
}

// unblock opens the gate, if it is blocked.
func (g *gate) unblock() {
	g.state.mu.Lock()
	defer g.state.mu.Unlock()
	select {
	case <-g.state.open:
	default:
		close(g.state.open)
	}
}
