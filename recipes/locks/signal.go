package locks

import (
	"context"
	"sync/atomic"
)

// signal ends once, with a cause. The context that ends with it is made when it is first
// asked for: most holds are released before anything waits for their signals. The zero value
// has not ended. It is safe for concurrent use.
type signal struct {
	made atomic.Pointer[ending] // nil while it has neither ended nor a context
}

// ending is the context of a signal.
type ending struct {
	context.Context
	cancel context.CancelCauseFunc
}

func newEnding(parent context.Context) *ending {
	e := new(ending)
	e.Context, e.cancel = context.WithCancelCause(parent)
	return e
}

// endedBy returns the context of a signal that has ended before it had one.
func endedBy(cause error) *ending {
	e := newEnding(context.Background())
	e.cancel(cause)
	return e
}

// The endings of nearly all signals, which need none of their own.
var endedByNothing, endedByRelease = endedBy(nil), endedBy(ErrReleased)

// context returns a context that ends with the signal.
func (s *signal) context() context.Context { return s.within(context.Background()) }

// within returns a context that ends with the signal or with its parent, which is the same
// in all calls.
func (s *signal) within(parent context.Context) context.Context {
	if e := s.made.Load(); e != nil {
		return e.Context
	}
	e := newEnding(parent)
	if !s.made.CompareAndSwap(nil, e) {
		e.cancel(nil) // another goroutine was faster
	}
	return s.made.Load().Context
}

// end ends the signal, and with it its context. Calls after the first have no effect.
func (s *signal) end(cause error) {
	if s.made.Load() == nil {
		e := endedByNothing
		switch {
		case cause == ErrReleased: //nolint:errorlint // the ending has this very error
			e = endedByRelease
		case cause != nil:
			e = endedBy(cause)
		}
		if s.made.CompareAndSwap(nil, e) {
			return
		}
	}
	s.made.Load().cancel(cause)
}

// cause returns why the signal, or the parent of its context, has ended, or nil.
func (s *signal) cause() error {
	if e := s.made.Load(); e != nil {
		return context.Cause(e.Context)
	}
	return nil
}

func (s *signal) hasEnded() bool { return s.cause() != nil }
