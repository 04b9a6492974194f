// SPDX-License-Identifier: Apache-2.0

package listen

import (
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"sync"
)

// listener is one listener of a Set, with its queue. While busy it has one goroutine, in deliver, which ends with the queue.
//
// Values are counted so that a Flush knows when they are delivered. Value number n, from 1, has been delivered when the
// goroutine comes back for the next one and taken is n or more.
type listener[T any] struct {
	fn      func(T)
	handler PanicHandler
	latest  bool
	done    chan struct{} // closed when removed and no longer busy
	index   int           // place in Set.listeners, below zero when removed; guarded by Set.mu

	mu      sync.Mutex // guards what follows; taken after Set.mu; never held during a call of fn
	queue   []T
	pushed  uint64 // values ever queued
	taken   uint64 // values ever handed to fn, or replaced
	flushes []flush
	busy    bool // a goroutine is in deliver
	removed bool
}

// flush is what one or more calls of Set.Flush wait for.
type flush struct {
	after     uint64        // the last value to be delivered before
	delivered chan struct{} // closed then
}

// push queues v, and starts a goroutine to deliver it if there is none.
func (l *listener[T]) push(v T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.latest {
		l.queue = l.queue[:0]
	}
	l.queue = append(l.queue, v)
	l.pushed++
	if !l.busy {
		l.busy = true
		go l.deliver()
	}
}

// deliver calls fn with one value after the other until none is left. A Goexit within fn ends the goroutine, not the delivery.
func (l *listener[T]) deliver() {
	exited := true
	defer func() {
		if exited {
			go l.deliver()
		}
	}()
	for {
		v, ok := l.take()
		if !ok {
			exited = false
			return
		}
		l.call(v)
	}
}

// call calls fn with v and reports its panic. The stack is taken before unwinding, so it shows where the panic began.
func (l *listener[T]) call(v T) {
	defer func() {
		if recovered := recover(); recovered != nil {
			report(l.handler, recovered, debug.Stack())
		}
	}()
	l.fn(v)
}

// take ends the call before, if there was one, and returns the value for the next. Without a value the listener is no longer busy,
// and the goroutine must end.
func (l *listener[T]) take() (v T, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.releaseFlushes()
	if len(l.queue) == 0 {
		l.busy = false
		if l.removed {
			close(l.done)
		}
		return v, false
	}
	var zero T
	v, l.queue[0] = l.queue[0], zero // the array may live on for long
	l.queue = l.queue[1:]
	if len(l.queue) == 0 {
		l.queue = nil
	}
	l.taken = l.pushed - uint64(len(l.queue)) // with Latest, replaced values count too
	return v, true
}

// discard ends the listener: what is queued is dropped, and done is closed now or when the call under way has returned.
func (l *listener[T]) discard() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.removed = true
	l.queue = nil
	if !l.busy {
		close(l.done)
	}
}

// delivered returns the channel that is closed when all that has been pushed so far is delivered, or nil if it is already. The calls of
// Set.Flush between two values share one channel, so that no more of them gather than values.
func (l *listener[T]) delivered() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.busy {
		return nil
	}
	if n := len(l.flushes); n > 0 && l.flushes[n-1].after == l.pushed {
		return l.flushes[n-1].delivered
	}
	f := flush{after: l.pushed, delivered: make(chan struct{})}
	l.flushes = append(l.flushes, f)
	return f.delivered
}

// releaseFlushes ends the waits for values that have been delivered or discarded. It is called under mu, between two calls of fn.
func (l *listener[T]) releaseFlushes() {
	for len(l.flushes) > 0 && (len(l.queue) == 0 || l.flushes[0].after <= l.taken) {
		close(l.flushes[0].delivered)
		l.flushes = l.flushes[1:]
	}
	if len(l.flushes) == 0 {
		l.flushes = nil
	}
}

// PanicHandler receives the panic of a listener: the value given to panic, and the stack of the goroutine as debug.Stack
// returns it. It runs on the goroutine of the listener, which receives no further value until it returns. It may be called for
// several listeners at once. If it panics itself, both panics go to slog.Default and the listener lives on.
type PanicHandler func(recovered any, stack []byte)

// Option sets up a [Set] made by [New].
type Option interface{ apply(*settings) }

type settings struct {
	handler PanicHandler
	latest  bool
}

type optionFunc func(*settings)

func (f optionFunc) apply(s *settings) { f(s) }

// OnPanic sets the handler that receives panics of listeners. By default, and with nil, each panic is logged through
// slog.Default, as it is at that moment, at level Error. The record has the attributes "of", which is "listener",
// "panic" and "stack".
func OnPanic(handler PanicHandler) Option {
	return optionFunc(func(s *settings) { s.handler = handler })
}

// Latest makes a value replace the value that still waits in a listener's queue. A listener that is slower than the
// Notify calls gets the newest value after each call, and misses older ones. It suits values that are whole states,
// such as a list of all members. For [Set.Flush] a replaced value is delivered when its replacement is.
func Latest() Option {
	return optionFunc(func(s *settings) { s.latest = true })
}

// report passes the panic of a listener to handler, to slog when there is no handler or it panics, and to standard error
// when slog panics too. It does not panic.
func report(handler PanicHandler, recovered any, stack []byte) {
	if handler == nil {
		logPanic("listener", recovered, stack)
		return
	}
	defer func() {
		if again := recover(); again != nil {
			logPanic("listener", recovered, stack)
			logPanic("panic handler", again, debug.Stack())
		}
	}()
	handler(recovered, stack)
}

func logPanic(of string, recovered any, stack []byte) {
	defer func() {
		if again := recover(); again != nil {
			fmt.Fprintf(os.Stderr, "listen: panic of a %s: %v\n%s\nlisten: panic of the log handler: %v\n", of, recovered, stack, again)
		}
	}()
	slog.Default().Error("listen: recovered from a panic",
		slog.String("of", of), slog.Any("panic", recovered), slog.String("stack", string(stack)))
}

// Registration is a listener's place in a [Set]. [Set.Add] makes it; its zero value is not usable. All methods may be called by any
// number of goroutines at once. It need not be kept: a listener that is never removed stays as long as its Set.
type Registration struct {
	remove func()
	done   <-chan struct{}
}

// Remove takes the listener out of its set. After it has returned no further call of the listener begins, and the
// values still queued for it are discarded. A call that is under way goes on, and [Registration.Done] is closed when
// the call has returned. The package documentation says what exactly "under way" means.
//
// Remove does not wait for the listener, so the listener itself may call it. Further calls do nothing.
func (r *Registration) Remove() { r.remove() }

// Done returns a channel that is closed when the listener has been removed and its last call has returned. The last
// call happens before the close. Without a Remove it is never closed. The listener itself must not wait for it.
func (r *Registration) Done() <-chan struct{} { return r.done }
