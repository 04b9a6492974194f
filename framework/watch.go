// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework/internal/conduit"
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
// However many watches a client has on one path, its server has at most one for
// the data and one for the children, and none once the last of them is
// cancelled.
type Watch struct {
	one watching.Watch
	log *slog.Logger
}

// Fired is closed when the watch has ended by an event or the loss of the
// connection.
func (w *Watch) Fired() <-chan struct{} { return w.one.Fired() }

// Event returns what ended the watch. It is valid once Fired is closed.
func (w *Watch) Event() Event { return Event(w.one.Event()) }

// Wait blocks until the watch has ended as for Fired and returns its event, whose Err may
// be set. If the context ends first, Wait cancels the watch and returns an
// [*InterruptedError]. A cancelled watch never ends.
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
// before any other goroutine learns of the event. So a context that represents the znode
// has ended by the time other clients can know of the deletion. end must be the function
// returned by context.WithCancelCause: it runs on the goroutine that receives from the
// server. It is called at once if the znode was deleted before, and never after Cancel.
func (w *Watch) EndOnDeletion(end context.CancelCauseFunc, cause error) {
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

type watchedOption struct{ into **Watch }

// Watched sets a watch together with the read: on the data of the znode for Get and
// Exists, on the list of its children for Children. Exists also watches a path without a
// znode; Get and Children then fail and leave no watch. When the read succeeds the watch is
// stored in *into, and the caller must Cancel it when it is no longer needed; when the read
// fails, *into is not changed.
func Watched(into **Watch) ReadOption { return watchedOption{into} }

func (o watchedOption) applyRead(c *readConfig) error {
	if o.into == nil {
		return errNilWatch
	}
	c.given |= watched
	c.watch = o.into
	return nil
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

// watchRequest is a read that asks for a watch.
type watchRequest struct {
	f       *Framework
	setting watching.Setting
	into    **Watch
	flag    *byte  // in the request: asks the server for a watch; nil if it always does
	current *Watch // of the last try
}

// begin registers a try of the request and returns the function that receives its outcome.
func (r *watchRequest) begin() func(conduit.Reply, error) {
	r.current.Cancel() // of a try that failed after this read had succeeded
	r.current = &Watch{log: r.f.cfg.log}
	ask, done := r.f.watches.Begin(&r.current.one, r.setting)
	if r.flag != nil {
		// Each try decides again: the watch that served the last one may be gone.
		*r.flag = 0
		if ask {
			*r.flag = 1
		}
	}
	return done
}

// deliver hands the watch over, or cancels it if the read failed.
func (r *watchRequest) deliver(ok bool) {
	if !ok || !r.current.one.IsSet() {
		r.current.Cancel()
		return
	}
	*r.into = r.current
}

// WatchData sets watches on the data of several znodes in one request, as part of a
// [Framework.Pipeline], and reads nothing. It stores the watches in into, which must be as
// long as paths; the caller must Cancel them. The watch of a missing znode has ended with
// EventNodeDeleted by the time Pipeline returns, and leaves nothing at the server.
//
// Use it for names that are never reused: if a znode is deleted and recreated while the
// request is under way, the watch may report the deletion and leave an unused watch on the
// server. For a missing znode, persistent watches above it receive EventNodeDeleted again; a
// persistent watch on one of the paths receives [EventResync]. The server never refuses the request for
// missing permissions, but ZooKeeper 3.8.4, 3.9.2 and later send no events about a znode
// that the client may not read. ZooKeeper's own clients use the request to set their
// watches again after a reconnect.
func WatchData(paths []string, into []*Watch) Read {
	first := ""
	if len(paths) > 0 {
		first = paths[0]
	}
	return Read{operation: opSetWatches, path: first, build: func(f *Framework) (*call, error) { return f.watchDataCall(paths, into) }}
}

func (f *Framework) watchDataCall(paths []string, into []*Watch) (*call, error) {
	if len(paths) == 0 || len(paths) != len(into) {
		return nil, fmt.Errorf("%w: WatchData of %d paths into %d places, expected as many, and one at least",
			ErrInvalidOption, len(paths), len(into))
	}
	requests := make(watchRequests, len(paths))
	fulls := make([]string, len(paths))
	for i, path := range paths {
		if err := ValidatePath(path); err != nil {
			return nil, err
		}
		fulls[i] = f.root.full(path)
		setting := watching.Setting{Key: watching.Key{Full: fulls[i], Kind: watching.Data}, Path: path, Always: true}
		requests[i] = watchRequest{f: f, setting: setting, into: &into[i]}
	}
	return &call{
		operation: opSetWatches, path: paths[0], body: watching.SetWatchesBody(fulls),
		follower: requests,
	}, nil
}

// watchRequests are requests that are sent as one.
type watchRequests []watchRequest

func (requests watchRequests) begin() func(conduit.Reply, error) {
	done := make([]func(conduit.Reply, error), len(requests))
	for i := range requests {
		done[i] = requests[i].begin()
	}
	return func(reply conduit.Reply, err error) {
		for _, fn := range done {
			fn(reply, err)
		}
	}
}

func (requests watchRequests) deliver(ok bool) {
	for i := range requests {
		requests[i].deliver(ok)
	}
}
