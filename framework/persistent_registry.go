package framework

import (
	"errors"
	"iter"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework/internal/conduit"
)

// watchAny is the type of removeWatches that takes all watches on a path away. Before
// ZooKeeper 3.9 it is the only one that knows persistent watches.
const watchAny watchKind = 3

// persistentEntry is everybody who has a persistent watch on one path.
//
// Before ZooKeeper 3.9 a server has one mode for each path and table, so that a
// one-shot watch, set or removed, ends a persistent one on the same path without a
// word, and of two modes the later one holds (ZOOKEEPER-4466). Therefore a path with
// persistent watches has only one at the server, which serves everybody:
//
//   - It is recursive as soon as one user wants that. The creation or deletion of a
//     direct child then stands for the change of the list of children, and is
//     passed on as such.
//   - A read that wants a one-shot watch is sent without it (serves). One that was on
//     its way when that was decided may come too late. Its reply then comes after
//     that of addWatch: the watch is set again, and its listeners are told to
//     resync (rearm).
//   - Nothing is removed while anybody watches the path in any way; then all is
//     (settle).
type persistentEntry struct {
	users     [watchModes]map[*PersistentWatch]struct{} // those whose request is under way included
	armed     bool                                      // the server has the watch
	recursive bool                                      // and it is recursive
	pending   int                                       // requests under way on this connection
}

func (e *persistentEntry) isUsed() bool {
	return len(e.users[WatchPersistent])+len(e.users[WatchPersistentRecursive]) > 0
}

func (e *persistentEntry) all() iter.Seq[*PersistentWatch] {
	return func(yield func(*PersistentWatch) bool) {
		for _, users := range e.users {
			for w := range users {
				if !yield(w) {
					return
				}
			}
		}
	}
}

// join makes w a user of a watch that the server has already, or returns false.
func (ws *watches) join(w *PersistentWatch) bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	e := ws.persistent[w.full]
	if e == nil || !e.armed || ws.closed || w.mode == WatchPersistentRecursive && !e.recursive {
		return false
	}
	e.users[w.mode][w] = struct{}{}
	return true
}

// beginPersistent registers a try of an addWatch and returns what is to be called with
// its outcome.
func (ws *watches) beginPersistent(w *PersistentWatch) func(conduit.Reply, error) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	e := ws.persistent[w.full]
	if e == nil {
		e = new(persistentEntry)
		for mode := range e.users {
			e.users[mode] = make(map[*PersistentWatch]struct{})
		}
		ws.persistent[w.full] = e
	}
	e.users[w.mode][w] = struct{}{}
	e.pending++
	connection := ws.connection
	return func(reply conduit.Reply, err error) { ws.added(w, connection, err == nil && reply.Code == 0) }
}

func (ws *watches) added(w *PersistentWatch, connection int, set bool) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	e := ws.persistent[w.full]
	if e == nil {
		return // cancelled, and the connection was lost
	}
	if connection == ws.connection {
		e.pending--
	}
	if !set {
		delete(e.users[w.mode], w)
		ws.settle(w.full)
		return
	}
	if w.mode == WatchPersistent && e.recursive {
		ws.rearm(w.full) // this one was sent before the recursive one was known to be there
	}
	e.armed, e.recursive = true, e.recursive || w.mode == WatchPersistentRecursive
	ws.settle(w.full)
}

func (ws *watches) cancelPersistent(w *PersistentWatch) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.finish(w, nil)
	if e := ws.persistent[w.full]; e != nil {
		delete(e.users[w.mode], w)
		ws.settle(w.full)
	}
}

// finish ends a watch for its owner; callers hold mu.
func (ws *watches) finish(w *PersistentWatch, err error) {
	if !w.ended {
		w.ended, w.err = true, err
		close(w.done)
	}
}

// settle removes what the server has on a path once nobody watches it any more;
// callers hold mu.
func (ws *watches) settle(full string) {
	e := ws.persistent[full]
	switch {
	case e == nil, e.isUsed(), e.pending > 0,
		ws.entries[watchKey{full, watchData}] != nil, ws.entries[watchKey{full, watchChildren}] != nil:
		return
	}
	delete(ws.persistent, full)
	if e.armed {
		ws.removeAtServer(watchKey{full, watchAny})
	}
}

// serves tells whether a persistent watch at the server sees all that a one-shot
// watch on the path would; callers hold mu.
func (ws *watches) serves(full string) bool {
	e := ws.persistent[full]
	return e != nil && e.armed
}

// rearm sets the watch of a path again; callers hold mu. Its users are told to resync
// when the server has done so.
func (ws *watches) rearm(full string) {
	e := ws.persistent[full]
	if !e.isUsed() {
		return
	}
	mode := WatchPersistent
	if len(e.users[WatchPersistentRecursive]) > 0 {
		mode = WatchPersistentRecursive
	}
	// Not sent means no connection: the next one begins with it.
	if ws.f.conduit.Send(&conduit.Call{
		Op: opAddWatch.code, Body: addWatchBody(full, mode),
		OnDone: func(reply conduit.Reply, err error) { ws.rearmed(full, mode, reply, err) },
	}) == nil {
		e.pending++
	}
}

func (ws *watches) rearmed(full string, mode WatchMode, reply conduit.Reply, err error) {
	if err != nil {
		return // disconnectPersistent sees to it; mu may be held here
	}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	e := ws.persistent[full]
	e.pending--
	if reply.Code == 0 {
		e.armed, e.recursive = true, mode == WatchPersistentRecursive
		for w := range e.all() {
			w.listeners.Notify(Event{Type: EventResync, Path: w.path})
		}
		return
	}
	err = serverError(reply.Code)
	if isUnimplemented(err) {
		err = ws.tooOld(ws.server)
	}
	for w := range e.all() {
		ws.finish(w, &OpError{opAddWatch.name, w.path, err})
		delete(e.users[w.mode], w)
	}
	ws.settle(full)
}

// notifyPersistent passes an event on to the watches on its path and to recursive
// ones above it; callers hold mu.
func (ws *watches) notifyPersistent(event Event, full string) {
	changed := full
	if e := ws.persistent[full]; e != nil && e.armed {
		tell(e.users[WatchPersistent], event, changed)
	}
	if event.Type == zk.EventNodeChildrenChanged {
		return
	}
	for {
		if e := ws.persistent[full]; e != nil && e.recursive {
			tell(e.users[WatchPersistentRecursive], event, changed)
		}
		if full == "/" {
			return
		}
		full, _ = SplitPath(full)
	}
}

// tell names the path as each watch's view of the client does.
func tell(users map[*PersistentWatch]struct{}, event Event, full string) {
	for w := range users {
		event.Path = w.root.own(full)
		w.listeners.Notify(event)
	}
}

// listChanged returns the path whose list of children changes with an event that a
// recursive watch on that path has seen; callers hold mu.
func (ws *watches) listChanged(n conduit.Notification) (full string, yes bool) {
	if n.Type != zk.EventNodeCreated && n.Type != zk.EventNodeDeleted || n.Path == "/" {
		return "", false
	}
	full, _ = SplitPath(n.Path)
	return full, ws.seesRecursively(full)
}

// seesRecursively tells whether the watch on the path itself is a recursive one, so that
// the server's own events about the list of children are not needed, and on some
// servers would be told twice; callers hold mu.
func (ws *watches) seesRecursively(full string) bool {
	e := ws.persistent[full]
	return e != nil && e.recursive
}

// onConnected begins a connection with all persistent watches that were set on an
// earlier one, so that nothing else comes before them.
func (ws *watches) onConnected(server string) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.server, ws.version = server, ""
	for full := range ws.persistent {
		ws.rearm(full)
	}
}

// disconnectPersistent notes that the server's watches are gone; callers hold mu.
func (ws *watches) disconnectPersistent() {
	ws.connection++
	for full, e := range ws.persistent {
		e.armed, e.recursive, e.pending = false, false, 0
		if !e.isUsed() {
			delete(ws.persistent, full)
		}
	}
}

// close ends all persistent watches.
func (ws *watches) close() {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.closed = true
	for _, e := range ws.persistent {
		for w := range e.all() {
			ws.finish(w, ErrClosed)
		}
	}
}

func isUnimplemented(err error) bool {
	var code ServerError
	return errors.As(err, &code) && code == errUnimplemented
}

const errUnimplemented = ServerError(-6)
