// SPDX-License-Identifier: Apache-2.0

package watching

import (
	"sync"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework/internal/conduit"
)

// Resync is the type of an event that says that a persistent watch may have missed events.
const Resync zk.EventType = -100

// Event is what a watch reports.
type Event struct {
	Type zk.EventType
	Path string // as the owner of the watch names it
	Err  error  // why a one-shot watch has ended without having seen a change
}

// Config has what a registry needs of its client.
type Config struct {
	// Send sends requests without waiting for their replies. It may call OnDone of a
	// request that it refuses before it returns. The registry calls it under its lock, so
	// that requests leave in the order of the decisions.
	Send func(calls ...*conduit.Call) error

	// Refusal translates the error code with which the server has refused to set a
	// persistent watch again.
	Refusal func(call *conduit.Call, code int32) error

	// MayPass reports whether the server may set a watch later that it has refused with this
	// error.
	MayPass func(error) bool

	MaxRequest int // bytes, without the header

	Lost error // of watches that end with their connection
}

// Registry holds the watches of a client. All of its methods, and the methods of the
// watches, are safe for concurrent use.
type Registry struct {
	cfg Config

	mu         sync.Mutex
	entries    map[Key]*entry
	persistent map[string]*persistentEntry // by the path at the server
	connection int                         // counts them
	stale      []string                    // paths of persistent watches that the newest has yet to set again
	resting    bool                        // until the server has less to do
	closed     error                       // why the client has ended, nil while it lives
}

// New returns a registry without watches.
func New(cfg Config) *Registry {
	return &Registry{cfg: cfg, entries: make(map[Key]*entry), persistent: make(map[string]*persistentEntry)}
}

// OnConnected begins to set the persistent watches of earlier connections again.
func (r *Registry) OnConnected() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stale = r.stale[:0]
	for full, e := range r.persistent {
		e.beginRepair()
		r.stale = append(r.stale, full)
	}
	r.rearmNextLocked()
}

// OnDisconnected ends all one-shot watches: the server's are gone with the connection.
func (r *Registry) OnDisconnected() {
	r.mu.Lock()
	r.disconnectPersistentLocked()
	var ended []*Watch
	for key := range r.entries {
		ended = r.endLocked(ended, key, Event{Type: zk.EventNotWatching, Err: r.cfg.Lost})
	}
	r.mu.Unlock()
	r.report(ended)
}

// OnNotified passes an event on to the persistent watches, and ends the one-shot watches
// that it concerns.
func (r *Registry) OnNotified(n conduit.Notification) {
	r.mu.Lock()
	// Both are decided first: an ended watch may take the persistent entry with it.
	parent, listChanged := r.listChangedLocked(n)
	derived := n.Type == zk.EventNodeChildrenChanged && r.seesRecursivelyLocked(n.Path)
	// The list of a recursively watched path changes with its children's own events.
	ended := r.dispatchLocked(nil, n, !derived)
	if listChanged {
		ended = r.dispatchLocked(ended, conduit.Notification{Type: zk.EventNodeChildrenChanged, Path: parent}, true)
	}
	r.mu.Unlock()
	r.report(ended)
}

// dispatchLocked appends the one-shot watches that the event ends.
func (r *Registry) dispatchLocked(ended []*Watch, n conduit.Notification, persistently bool) []*Watch {
	event := Event{Type: n.Type}
	if persistently {
		r.notifyPersistentLocked(event, n.Path)
	}
	switch n.Type {
	case zk.EventNodeChildrenChanged:
		return r.endLocked(ended, Key{n.Path, Children}, event)
	case zk.EventNodeDeleted:
		// The server fires both of its watches with one event.
		ended = r.endLocked(ended, Key{n.Path, Data}, event)
		return r.endLocked(ended, Key{n.Path, Children}, event)
	default:
		return r.endLocked(ended, Key{n.Path, Data}, event)
	}
}

// Close ends all persistent watches, and later ones as they are set, with an error that says
// why the client has ended. The error of the first Close counts. One-shot watches end with
// the connection.
func (r *Registry) Close(why error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed == nil {
		r.closed = why
	}
	for _, e := range r.persistent {
		for w := range e.users {
			w.finishLocked(r.closed)
		}
	}
}

// Active returns the number of watches that the server has.
func (r *Registry) Active() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, e := range r.entries {
		if e.armed {
			n++
		}
	}
	for _, e := range r.persistent {
		if e.armed {
			n++
		}
	}
	return n
}

// Known returns the number of watches that the registry keeps account of: the server has
// them, or requests for them are under way.
func (r *Registry) Known() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.entries) + len(r.persistent)
}
