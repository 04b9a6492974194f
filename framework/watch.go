// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework/internal/watching"
)

// EventType is the type of an event. It is go-zookeeper's type.
type EventType = zk.EventType

// The types of events. [EventResync] is another one, of persistent watches.
const (
	EventNodeCreated         = zk.EventNodeCreated
	EventNodeDeleted         = zk.EventNodeDeleted
	EventNodeDataChanged     = zk.EventNodeDataChanged
	EventNodeChildrenChanged = zk.EventNodeChildrenChanged
	EventNotWatching         = zk.EventNotWatching // the connection was lost
)

// Event ends a [Watch], or is reported by a [PersistentWatch].
type Event struct {
	Type EventType
	Path string

	// Err is not nil when the watch ended with its connection, without having seen a
	// change: read again to find out what happened.
	Err error
}

// Watch is a one-shot watch that was set by a read with [Watched]. It ends with
// the first event, with the loss of the connection, or when it is cancelled.
//
// A client may have any number of watches on one path. Its server has at most one for the
// data and one for the children, and none once the last watch is cancelled.
type Watch struct {
	one watching.Watch
	log *slog.Logger
}

// Fired is closed when the watch has ended by an event or the loss of the
// connection. It is not closed by Cancel.
func (w *Watch) Fired() <-chan struct{} { return w.one.Fired() }

// Event returns what ended the watch. It is valid once Fired is closed.
func (w *Watch) Event() Event { return Event(w.one.Event()) }

// Wait blocks until the watch has ended as for Fired and returns its event, whose Err may
// be set. If the context ends first, Wait cancels the watch and returns an
// [*InterruptedError]. On a watch that was cancelled before, Wait blocks until the context ends.
func (w *Watch) Wait(ctx context.Context) (Event, error) {
	if ctx == nil {
		return Event{}, fmt.Errorf("framework: watch %s: %w", w.one.Path(), errNilContext)
	}
	select {
	case <-w.Fired():
		return w.Event(), nil
	default: // an event counts even when the context has ended as well
	}
	select {
	case <-w.Fired():
		return w.Event(), nil
	case <-ctx.Done():
		w.Cancel()
		return Event{}, fmt.Errorf("framework: watch %s: %w", w.one.Path(), interrupted(ctx))
	}
}

// OnFired calls fn when the watch ends as for Fired, or at once if it has ended already.
// The call runs on a goroutine of its own, so fn may block and use the client, and later
// events may overtake it. A panic of fn is logged. fn is not called if the watch is
// cancelled first. OnFired panics if fn is nil, because the event would be too late to
// notice.
func (w *Watch) OnFired(fn func(Event)) {
	if fn == nil {
		panic("framework: OnFired of a nil function, expected a func(Event)")
	}
	// The hook runs in the stream, where fn must not block what follows.
	if !w.one.AddHook(func(e watching.Event) { go w.call(fn, Event(e)) }) {
		go w.call(fn, w.Event())
	}
}

// EndOnDeletion ends a context with the cause when the watch ends because its znode was
// deleted. It does so before anything that follows the event in the server's stream, and
// before any other goroutine learns of the event. So a context that represents the znode has
// ended by the time another waiter of this client learns of the deletion. end must be the
// function returned by context.WithCancelCause, because it runs on the goroutine that
// receives from the server. It is called at once if the znode was deleted before, and never
// after Cancel.
// EndOnDeletion panics if end is nil.
func (w *Watch) EndOnDeletion(end context.CancelCauseFunc, cause error) {
	if end == nil {
		panic("framework: EndOnDeletion of a nil function, expected one of context.WithCancelCause")
	}
	if !w.one.AddEnd(func(watching.Event) { end(cause) }) && w.Event().Type == zk.EventNodeDeleted {
		end(cause)
	}
}

// Cancel ends the watch without an event. It does not block, may be called at any time and
// more than once, and is safe on a nil watch.
func (w *Watch) Cancel() {
	if w != nil {
		w.one.Cancel()
	}
}

// call calls a function of the program.
func (w *Watch) call(fn func(Event), e Event) {
	defer func() {
		if recovered := recover(); recovered != nil {
			w.log.Error("watch hook panicked", logPath, e.Path, "panic", recovered, "stack", string(debug.Stack()))
		}
	}()
	fn(e)
}

// WatchQueue collects watches as they end, for a program with many watches and one goroutine
// that handles them. A watch is in the queue before the client handles anything that follows
// its event in the server's stream. So once a [Framework.Sync] has returned, the queue has
// every watch that was ended by a change committed before the Sync. The zero value is ready
// for use. A WatchQueue must not be copied.
type WatchQueue struct {
	mu    sync.Mutex
	ended []*Watch
	wake  chan struct{} // has room for one
}

// Add puts the watch into the queue when it ends, or at once if it has ended already. A watch
// that is cancelled first never enters the queue.
func (q *WatchQueue) Add(w *Watch) {
	if !w.one.AddHook(func(watching.Event) { q.push(w) }) {
		q.push(w)
	}
}

// Take returns the watches that have ended since the last call, in order. Their events have
// their paths.
func (q *WatchQueue) Take() []*Watch {
	q.mu.Lock()
	defer q.mu.Unlock()
	ended := q.ended
	q.ended = nil
	return ended
}

// Wake returns a channel that receives a value after watches have entered the queue. The value
// may still be there after Take.
func (q *WatchQueue) Wake() <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.wakingLocked()
}

func (q *WatchQueue) wakingLocked() chan struct{} {
	if q.wake == nil {
		q.wake = make(chan struct{}, 1)
	}
	return q.wake
}

func (q *WatchQueue) push(w *Watch) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ended = append(q.ended, w)
	select {
	case q.wakingLocked() <- struct{}{}:
	default:
	}
}
