// SPDX-License-Identifier: Apache-2.0

package listen

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// Set is a set of listeners for values of type T. The package documentation has its contract on order, independence and memory. The
// zero value is an empty Set ready for use. All methods may be called by any number of goroutines at once, and by listeners. A Set must
// not be copied after first use.
type Set[T any] struct {
	handler PanicHandler // nil for the default
	latest  bool         // a queue has the newest value only

	// mu orders the calls of Notify, Add and Remove. It is taken before the mu of a listener and never held during a call of a listener.
	mu        sync.Mutex
	listeners []*listener[T] // each knows its index
}

// New returns an empty [Set] with the given options. Without options it is the same as new(Set[T]).
func New[T any](opts ...Option) *Set[T] {
	var s settings
	for _, opt := range opts {
		if opt == nil {
			panic("listen: New with a nil option, expected one such as OnPanic")
		}
		opt.apply(&s)
	}
	return &Set[T]{handler: s.handler, latest: s.latest}
}

// Add makes fn a listener: it will be called with the value of every Notify that comes later, until the returned registration is removed. Adding the same function twice registers two listeners. Add does not block. It panics if fn is
// nil, which is a mistake in the program and would otherwise come to light only in the first Notify.
func (s *Set[T]) Add(fn func(T)) *Registration {
	if fn == nil {
		panic(fmt.Sprintf("listen: Add of a nil listener, expected a %T", fn))
	}
	l := &listener[T]{fn: fn, handler: s.handler, latest: s.latest, done: make(chan struct{})}

	s.mu.Lock()
	defer s.mu.Unlock()
	l.index = len(s.listeners)
	s.listeners = append(s.listeners, l)
	return &Registration{remove: func() { s.remove(l) }, done: l.done}
}

// Notify queues v for every listener of the set and returns. It never blocks on a listener, calls none on the goroutine of
// the caller, and drops nothing without [Latest]. Its cost grows with the number of listeners. Without listeners it does nothing: v is not kept for
// listeners that are added later.
func (s *Set[T]) Notify(v T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.listeners {
		l.push(v)
	}
}

// Len returns the number of listeners: those added and not yet removed. It does not block.
func (s *Set[T]) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.listeners)
}

// Flush blocks until every listener in the set has returned from its calls with the values of all earlier Notify calls. It does not
// wait for later values. For a listener that is removed while Flush waits, it waits only for the call under way. It does not wait for
// listeners removed earlier: [Registration.Done] does.
//
// If ctx ends first, Flush returns an error that matches ctx.Err() and context.Cause(ctx), and delivery goes on. If there is nothing to wait
// for, it returns nil even when ctx has ended. A listener must not call Flush on its own set: it would wait for itself until ctx ends.
func (s *Set[T]) Flush(ctx context.Context) error {
	if ctx == nil {
		return errors.New("listen: flush: context nil, expected one such as context.Background()")
	}
	for _, delivered := range s.pending() {
		select {
		case <-delivered:
		case <-ctx.Done():
			err := context.Cause(ctx)
			if !errors.Is(err, ctx.Err()) {
				err = fmt.Errorf("%w: %w", ctx.Err(), err)
			}
			return fmt.Errorf("listen: flush: %w", err)
		}
	}
	return nil
}

// pending returns a channel for each listener with undelivered values. It is closed when what is queued now has been delivered.
func (s *Set[T]) pending() []<-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []<-chan struct{}
	for _, l := range s.listeners {
		if delivered := l.delivered(); delivered != nil {
			all = append(all, delivered)
		}
	}
	return all
}

// remove takes l out of the set, by moving the last listener to its place, and discards its queue. Repeating it changes nothing.
func (s *Set[T]) remove(l *listener[T]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.index < 0 {
		return
	}
	last := len(s.listeners) - 1
	moved := s.listeners[last]
	s.listeners[l.index], moved.index = moved, l.index
	s.listeners[last] = nil
	s.listeners = s.listeners[:last]
	l.index = -1 // after moved.index, as l may be the last itself
	l.discard()
}
