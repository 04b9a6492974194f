// SPDX-License-Identifier: Apache-2.0

package listen

import (
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
