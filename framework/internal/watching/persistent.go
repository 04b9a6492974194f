// SPDX-License-Identifier: Apache-2.0

package watching

import (
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework/internal/conduit"
)

// Mode is the kind of a persistent watch. The values are defined by the protocol.
type Mode int32

// The modes of persistent watches.
const (
	Plain     Mode = 0
	Recursive Mode = 1

	modes = 2
)

// Persistent is a watch that stays until it is cancelled. It is made by
// [Registry.NewPersistent].
type Persistent struct {
	registry *Registry
	full     string
	mode     Mode
	notify   func(Event)
	done     chan struct{}

	// Guarded by registry.mu.
	ended bool
	err   error
}

// NewPersistent returns a watch on a path at the server, for [Registry.Join] or
// [Registry.BeginPersistent]. notify receives its events in order, with their paths at the
// server. It is called under the registry's lock, so it must not block.
func (r *Registry) NewPersistent(full string, mode Mode, notify func(Event)) *Persistent {
	return &Persistent{registry: r, full: full, mode: mode, notify: notify, done: make(chan struct{})}
}

// persistentEntry holds the persistent watches on one path.
//
// The server has one watch for all of them. It is recursive as soon as one user wants that.
// The creation or deletion of a direct child then means a change of the list of children,
// and is passed on as such. The watch also serves the one-shot watches on the path.
type persistentEntry struct {
	users     map[*Persistent]struct{} // those whose request is under way included
	armed     bool                     // the server has the watch
	recursive bool                     // and it is recursive
	pending   int                      // requests under way on this connection, and repairs
	repairs   int                      // of the watch, until the users have Resync or a refusal
	owes      bool                     // the server may have a one-shot watch that no user wants
}

func (e *persistentEntry) beginRepair() { e.pending, e.repairs = e.pending+1, e.repairs+1 }
func (e *persistentEntry) endRepair()   { e.pending, e.repairs = e.pending-1, e.repairs-1 }

func (e *persistentEntry) isUsed() bool { return len(e.users) > 0 }

// mode returns the mode of the one watch that serves all users.
func (e *persistentEntry) mode() (most Mode) {
	for w := range e.users {
		most = max(most, w.mode)
	}
	return most
}

// tell passes an event on to the users of a mode.
func (e *persistentEntry) tell(mode Mode, event Event) {
	for w := range e.users {
		if w.mode == mode {
			w.notify(event)
		}
	}
}

// Join makes w a user of a watch that the server has already, or returns false.
func (r *Registry) Join(w *Persistent) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.persistent[w.full]
	if e == nil || !e.armed || r.closed != nil {
		return false
	}
	// A request under way may be about to replace the recursive watch by a plain one.
	if w.mode == Recursive && (!e.recursive || e.pending > 0) {
		return false
	}
	e.users[w] = struct{}{}
	return true
}

// BeginPersistent registers a try of an addWatch and returns the function that must be
// called with its outcome, in stream order.
func (r *Registry) BeginPersistent(w *Persistent) (done func(conduit.Reply, error)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.persistent[w.full]
	if e == nil {
		e = &persistentEntry{users: make(map[*Persistent]struct{})}
		r.persistent[w.full] = e
	}
	e.users[w] = struct{}{}
	e.pending++
	connection := r.connection
	return func(reply conduit.Reply, err error) { r.added(w, connection, err == nil && reply.Code == 0) }
}

func (r *Registry) added(w *Persistent, connection int, set bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.persistent[w.full]
	if e == nil {
		return // cancelled, and the connection was lost
	}
	// The loss of a connection has forgotten the requests on it.
	if connection == r.connection {
		e.pending--
	}
	if !set {
		delete(e.users, w)
		r.settleLocked(w.full)
		return
	}
	if w.mode == Plain && e.recursive {
		// Sent before the recursive watch was known to be there, it has replaced it.
		r.rearmLocked(w.full)
	}
	e.armed, e.recursive = true, e.recursive || w.mode == Recursive
	if r.closed != nil { // it has missed Close
		w.finishLocked(r.closed)
	}
	r.settleLocked(w.full)
}

// IsArmed reports whether the server has the watch, and that no repair is under way. During a
// repair, events may be missing until [Resync].
func (w *Persistent) IsArmed() bool {
	w.registry.mu.Lock()
	defer w.registry.mu.Unlock()
	e := w.registry.persistent[w.full]
	return e != nil && e.armed && e.repairs == 0
}

// Done is closed when the watch has ended.
func (w *Persistent) Done() <-chan struct{} { return w.done }

// Err returns why the watch has ended: the error of Close, or a refusal; nil while it
// lives and after Cancel.
func (w *Persistent) Err() error {
	w.registry.mu.Lock()
	defer w.registry.mu.Unlock()
	return w.err
}

// Cancel ends the watch; the last one on a path also ends the server's.
func (w *Persistent) Cancel() {
	r := w.registry
	r.mu.Lock()
	defer r.mu.Unlock()
	w.finishLocked(nil)
	if e := r.persistent[w.full]; e != nil {
		delete(e.users, w)
		r.settleLocked(w.full)
	}
}

// finishLocked ends a watch for its owner.
func (w *Persistent) finishLocked(err error) {
	if !w.ended {
		w.ended, w.err = true, err
		close(w.done)
	}
}

// settleLocked removes the server's watch on a path once no user watches the path.
func (r *Registry) settleLocked(full string) {
	e := r.persistent[full]
	switch {
	case e == nil, e.isUsed(), e.pending > 0, r.hasOneShotLocked(full):
		return // the last of them does it
	}
	delete(r.persistent, full)
	if e.armed || e.owes {
		r.removeAtServerLocked(Key{full, anyKind})
	}
}

// hasOneShotLocked reports whether a one-shot watch on the path is armed or under way.
func (r *Registry) hasOneShotLocked(full string) bool {
	return r.entries[Key{full, Data}] != nil || r.entries[Key{full, Children}] != nil
}

// servesLocked reports whether a persistent watch at the server sees all that a one-shot
// watch on the path would.
func (r *Registry) servesLocked(full string) bool {
	e := r.persistent[full]
	return e != nil && e.armed
}

// notifyPersistentLocked passes an event on to the watches on its path and to recursive ones
// above it.
func (r *Registry) notifyPersistentLocked(event Event, full string) {
	event.Path = full
	if e := r.persistent[full]; e != nil && e.armed {
		e.tell(Plain, event)
	}
	if event.Type == zk.EventNodeChildrenChanged {
		return // recursive watches have the children's own events instead
	}
	for {
		if e := r.persistent[full]; e != nil && e.recursive {
			e.tell(Recursive, event)
		}
		if full == "/" {
			return
		}
		full = parentOf(full)
	}
}

// listChangedLocked returns the path whose list of children changes with an event that a
// recursive watch on that path has seen.
func (r *Registry) listChangedLocked(n conduit.Notification) (full string, yes bool) {
	if n.Type != zk.EventNodeCreated && n.Type != zk.EventNodeDeleted || n.Path == "/" {
		return "", false
	}
	full = parentOf(n.Path)
	return full, r.seesRecursivelyLocked(full)
}

// seesRecursivelyLocked reports whether the watch on the path itself is recursive. The
// server's own events about the list of children are then not needed, and some servers send
// both.
func (r *Registry) seesRecursivelyLocked(full string) bool {
	e := r.persistent[full]
	return e != nil && e.recursive
}

// parentOf returns the path above another one. It is "/" for the root, and for what is not a
// path: the server may send anything.
func parentOf(full string) string {
	i := strings.LastIndexByte(full, '/')
	if i <= 0 {
		return "/"
	}
	return full[:i]
}
