// SPDX-License-Identifier: Apache-2.0

package watching

import (
	"errors"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework/internal/conduit"
	"github.com/gocurator/curator/framework/internal/wire"
)

// Kind is one of the two tables in which a server keeps watches. The values are defined by
// removeWatches.
type Kind int32

// The kinds of watches.
const (
	Children Kind = 1
	Data     Kind = 2 // set by getData and exists

	// anyKind removes all watches on a path. Before ZooKeeper 3.9 it is the only kind that
	// removes persistent watches.
	anyKind Kind = 3
)

// Key names one watch at the server.
type Key struct {
	Full string // the path at the server
	Kind Kind
}

// entry holds the watches that wait for one watch at the server.
type entry struct {
	armed bool
	first *Watch // of a list; each is armed, or its request is under way
}

func (e *entry) addLocked(w *Watch) {
	if w.next = e.first; w.next != nil {
		w.next.prev = w
	}
	e.first = w
}

// removeLocked removes a watch, if it is in the list.
func (e *entry) removeLocked(w *Watch) {
	switch {
	case w.prev != nil:
		w.prev.next = w.next
	case e.first == w:
		e.first = w.next
	default:
		return
	}
	if w.next != nil {
		w.next.prev = w.prev
	}
	w.prev, w.next = nil, nil
}

// Watch is a one-shot watch. It is made by [Registry.Begin].
type Watch struct {
	registry *Registry
	key      Key
	path     string
	set      bool // by its request; valid once the request has been answered

	// Guarded by registry.mu.
	armed     bool // the server has it
	asked     bool // the request has asked the server for it
	doubtful  bool // the watch that serves it may be replaced before its request arrives
	ended     bool
	cancelled bool
	reported  bool // its end has been reported, in full
	kind      zk.EventType
	err       error
	fired     chan struct{} // nil until it is asked for: few callers wait for it
	hook      func(Event)   // all hooks, as one; nil without any
	end       func(Event)   // for the end by a deletion; as hook
	prev      *Watch        // in the list of the entry, as is next
	next      *Watch
}

// Setting is how a request sets a watch.
type Setting struct {
	Key
	Path string // as the owner names it

	// OnAbsent means that the server sets the watch although there is no znode.
	OnAbsent bool
}

// Begin registers w for a request that is about to be sent. It reports whether the request
// must ask the server for a watch, which it need not if a persistent watch serves it. done
// must be called with the outcome of the request, in stream order.
func (r *Registry) Begin(w *Watch, s Setting) (ask bool, done func(conduit.Reply, error)) {
	w.registry, w.key, w.path = r, s.Key, s.Path
	r.mu.Lock()
	defer r.mu.Unlock()
	w.asked = !r.servesLocked(s.Full)
	e := r.entries[s.Key]
	if e == nil {
		e = new(entry)
		r.entries[s.Key] = e
	}
	w.doubtful = !w.asked && e.asksLocked()
	// Before the request is sent: an event may come right behind the reply.
	e.addLocked(w)
	return w.asked, func(reply conduit.Reply, err error) {
		absent := err == nil && s.OnAbsent && reply.Code == wire.CodeNoNode
		// A reply that is too long is thrown away, but the server has set the watch.
		w.set = err == nil && reply.Code == 0 || absent || errors.Is(err, conduit.ErrReplyTooLarge)
		r.answered(w)
	}
}

// asksLocked reports whether a request that asks for the watch is under way.
func (e *entry) asksLocked() bool {
	for w := e.first; w != nil; w = w.next {
		if w.asked && !w.armed {
			return true
		}
	}
	return false
}

// answered arms or forgets a watch with the outcome of its request.
func (r *Registry) answered(w *Watch) {
	r.mu.Lock()
	var ended []*Watch
	if !r.armLocked(w) {
		ended = r.endLocked(ended, w.key, Event{Type: zk.EventNotWatching, Err: r.cfg.Lost})
	}
	r.mu.Unlock()
	r.report(ended)
}

// armLocked returns false if a persistent watch was expected to serve w, but has gone. It may
// have gone with an earlier connection, or a one-shot watch that has fired since may have
// replaced it.
func (r *Registry) armLocked(w *Watch) bool {
	if w.set && w.asked && r.servesLocked(w.key.Full) {
		// The request was under way when the persistent watch was set, and has replaced it.
		r.rearmLocked(w.key.Full)
	}
	if w.set {
		w.armed, r.entries[w.key].armed = true, true
	}
	if !w.set || w.cancelled {
		r.dropLocked(w)
		return true
	}
	return w.asked || !w.doubtful && r.servesLocked(w.key.Full)
}

// Path returns the path of the watch, as its owner names it.
func (w *Watch) Path() string { return w.path }

// Fired is closed when the watch has ended by an event or the loss of the connection.
func (w *Watch) Fired() <-chan struct{} {
	w.registry.mu.Lock()
	defer w.registry.mu.Unlock()
	if w.fired == nil {
		w.fired = make(chan struct{})
		if w.reported {
			close(w.fired)
		}
	}
	return w.fired
}

// Event returns the event that ended the watch. It is valid once Fired is closed, or when
// AddHook or AddEnd has returned false.
func (w *Watch) Event() Event { return Event{Type: w.kind, Path: w.path, Err: w.err} }

// IsSet reports whether the request has set the watch. It is valid once done has been called.
func (w *Watch) IsSet() bool { return w.set }

// AddHook adds a function that is called, in the stream, when the watch has ended and Fired is
// closed. It returns false if that is so already. A cancelled watch never calls it.
func (w *Watch) AddHook(fn func(Event)) bool {
	w.registry.mu.Lock()
	defer w.registry.mu.Unlock()
	if w.reported { // to have ended is not enough: an owner that is told looks at Fired, once
		return false
	}
	w.hook = both(w.hook, fn)
	return true
}

// AddEnd adds a function that is called when the watch ends by a deletion, before any waiter and any
// hook learns of the event. It returns false if the watch has ended already.
func (w *Watch) AddEnd(end func(Event)) bool {
	w.registry.mu.Lock()
	defer w.registry.mu.Unlock()
	if w.ended {
		return false
	}
	w.end = both(w.end, end)
	return true
}

// both returns a function that calls two, or the second if there is no first.
func both(first, second func(Event)) func(Event) {
	if first == nil {
		return second
	}
	return func(e Event) { first(e); second(e) }
}

// Cancel ends the watch without an event.
func (w *Watch) Cancel() {
	w.registry.mu.Lock()
	defer w.registry.mu.Unlock()
	w.cancelled = true
	if w.armed {
		w.registry.dropLocked(w)
	} // else the reply, or its absence, does it
}

// dropLocked removes a watch from its entry, and the entry with the last watch.
func (r *Registry) dropLocked(w *Watch) {
	e := r.entries[w.key]
	if e == nil {
		return
	}
	e.removeLocked(w)
	if e.first != nil {
		return
	}
	delete(r.entries, w.key)
	switch p := r.persistent[w.key.Full]; {
	case !e.armed:
	case p == nil:
		r.removeAtServerLocked(w.key)
	default:
		p.owes = true // a removal now could take the persistent watch along
	}
	r.settleLocked(w.key.Full)
}

func (r *Registry) removeAtServerLocked(key Key) {
	// Not sent means no connection, and so no watch.
	_ = r.cfg.Send(&conduit.Call{
		Op: wire.OpRemoveWatches, Body: removeWatchesBody(key),
		OnDone: func(reply conduit.Reply, err error) { r.removed(key, reply, err) },
	})
}

// askAgain is the pause before a request is repeated that the server has throttled.
const askAgain = 100 * time.Millisecond

// removed is called with the reply to a removal. Only a throttled removal leaves the watch;
// after any other reply the watch is gone, or has fired.
func (r *Registry) removed(key Key, reply conduit.Reply, err error) {
	if err != nil || reply.Code != wire.CodeThrottled {
		return
	}
	time.AfterFunc(askAgain, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		data, children := Key{key.Full, Data}, Key{key.Full, Children}
		switch {
		case r.persistent[key.Full] != nil, key.Kind != Children && r.entries[data] != nil,
			key.Kind != Data && r.entries[children] != nil:
			return // it is wanted again, and removed with the last that wants it
		}
		r.removeAtServerLocked(key)
	})
}

// endLocked ends the watches of one entry that the event concerns, and appends them to
// ended. The caller must report them.
func (r *Registry) endLocked(ended []*Watch, key Key, event Event) []*Watch {
	e := r.entries[key]
	if e == nil {
		return ended
	}
	e.armed = false
	var next *Watch
	for w := e.first; w != nil; w = next {
		next = w.next
		if !w.armed { // its request is under way
			continue
		}
		e.removeLocked(w)
		w.armed, w.ended = false, true
		w.kind, w.err = event.Type, event.Err
		ended = append(ended, w)
	}
	if e.first == nil {
		delete(r.entries, key)
		r.settleLocked(key.Full)
	}
	return ended
}

// report tells the owners of ended watches, outside of the lock because their functions may
// cancel other watches.
func (r *Registry) report(ended []*Watch) {
	if len(ended) == 0 {
		return
	}
	// First, so that no waiter acts on a deletion before what depends on the znode has ended.
	for _, w := range ended {
		if w.kind == zk.EventNodeDeleted && w.end != nil {
			w.end(w.Event())
		}
	}
	r.mu.Lock()
	for _, w := range ended {
		w.reported = true
		if w.fired != nil {
			close(w.fired)
		}
	}
	r.mu.Unlock()
	for _, w := range ended {
		if w.hook != nil {
			w.hook(w.Event())
		}
	}
}
