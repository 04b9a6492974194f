package framework

import (
	"errors"
	"iter"
	"maps"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework/internal/conduit"
	"github.com/gocurator/curator/framework/internal/wire"
)

// watchAny is the type of removeWatches that removes all watches on a path. Before
// ZooKeeper 3.9 it is the only type that removes persistent watches.
const watchAny watchKind = 3

// rearmFrame is the length in bytes of the paths in one request that sets watches again,
// as in ZooKeeper's own clients.
const rearmFrame = 128 << 10

// persistentEntry holds the persistent watches on one path.
//
// Before ZooKeeper 3.9 a server has one mode for each path and table. Setting or removing
// a one-shot watch silently ends a persistent watch on the same path, and the later of two
// modes replaces the earlier (ZOOKEEPER-4466). Therefore a path with persistent watches has
// only one watch at the server, which serves all its users:
//
//   - It is recursive as soon as one user wants that. The creation or deletion of a
//     direct child then means a change of the list of children, and is passed on as such.
//   - A read that wants a one-shot watch is sent without it (serves). Such a read may have
//     been under way when the persistent watch was set. Its reply then comes after the
//     reply to addWatch: the watch is set again, and its listeners get EventResync (rearm).
//   - Nothing is removed while any user watches the path in any way; then everything is
//     (settle).
type persistentEntry struct {
	users     [watchModes]map[*PersistentWatch]struct{} // those whose request is under way included
	armed     bool                                      // the server has the watch
	recursive bool                                      // and it is recursive
	pending   int                                       // requests under way on this connection
	owes      bool                                      // the server may have a one-shot watch that no caller wants
}

func (e *persistentEntry) isUsed() bool {
	return len(e.users[WatchPersistent])+len(e.users[WatchPersistentRecursive]) > 0
}

// mode returns the mode of the one watch that serves all users.
func (e *persistentEntry) mode() WatchMode {
	if len(e.users[WatchPersistentRecursive]) > 0 {
		return WatchPersistentRecursive
	}
	return WatchPersistent
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

// beginPersistent registers a try of an addWatch and returns the function that receives its
// outcome.
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

// settle removes the server's watch on a path once no user watches the path; callers hold
// mu.
func (ws *watches) settle(full string) {
	e := ws.persistent[full]
	switch {
	case e == nil, e.isUsed(), e.pending > 0,
		ws.entries[watchKey{full, watchData}] != nil, ws.entries[watchKey{full, watchChildren}] != nil:
		return
	}
	delete(ws.persistent, full)
	if e.armed || e.owes {
		ws.removeAtServer(watchKey{full, watchAny})
	}
}

// serves reports whether a persistent watch at the server sees all that a one-shot watch
// on the path would; callers hold mu.
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
	mode := e.mode()
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
	ws.rearmedOne(full, mode, ws.refusal(reply.Code))
}

// refusal returns what the code of a reply says, nil for success; callers hold mu.
func (ws *watches) refusal(code int32) error {
	if code == 0 {
		return nil
	}
	err := serverError(code)
	if isUnimplemented(err) {
		return unsupported(ws.f.conduit.NoteTooOld(ws.server))
	}
	return err
}

// rearmedOne notes the outcome of one rearm; callers hold mu.
func (ws *watches) rearmedOne(full string, mode WatchMode, refused error) {
	e := ws.persistent[full]
	e.pending--
	if refused == nil {
		e.armed, e.recursive = true, mode == WatchPersistentRecursive
	}
	for w := range e.all() {
		if refused == nil {
			w.listeners.Notify(Event{Type: EventResync, Path: w.path})
			continue
		}
		ws.finish(w, &OpError{opAddWatch.name, w.path, refused})
		delete(e.users[w.mode], w)
	}
	ws.settle(full)
}

// rearmNext sets the next of the watches again that were lost with a connection, as
// many as fit into one request; callers hold mu. The rest waits for the reply, so that
// other requests and pings get in between, however many there are.
func (ws *watches) rearmNext() {
	var paths [watchModes][]string
	size := 0
	for size < rearmFrame && len(ws.stale) > 0 {
		full := ws.stale[0]
		ws.stale = ws.stale[1:]
		if e := ws.persistent[full]; e != nil && e.isUsed() {
			paths[e.mode()] = append(paths[e.mode()], full)
			size += 4 + len(full)
			e.pending++
		}
	}
	if size == 0 {
		return
	}
	// Not sent means no connection: the next one begins with all of them.
	_ = ws.f.conduit.Send(&conduit.Call{
		Op: opSetWatches2.code, Body: setWatches2Body(size, paths),
		OnDone: func(reply conduit.Reply, err error) { ws.rearmedAll(paths, reply, err) },
	})
}

func setWatches2Body(size int, paths [watchModes][]string) []byte {
	e := wire.NewEncoder(32 + size)
	e.Int64(0) // the transaction up to which one-shot watches know what has happened
	for range 3 {
		e.Int32(0) // no one-shot watches: on data, absent znodes, lists of children
	}
	for _, mode := range []WatchMode{WatchPersistent, WatchPersistentRecursive} {
		e.Int32(int32(len(paths[mode])))
		for _, full := range paths[mode] {
			e.String(full)
		}
	}
	return e.Bytes()
}

func (ws *watches) rearmedAll(paths [watchModes][]string, reply conduit.Reply, err error) {
	if err != nil {
		return // disconnectPersistent sees to it; mu may be held here
	}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	refused := ws.refusal(reply.Code)
	for mode, all := range paths {
		for _, full := range all {
			if refused == nil || errors.Is(refused, ErrUnsupported) {
				ws.rearmedOne(full, WatchMode(mode), refused)
				continue
			}
			// One of them may be to blame: the server says for each by itself.
			ws.persistent[full].pending--
			ws.rearm(full)
			ws.settle(full)
		}
	}
	ws.rearmNext()
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

// seesRecursively reports whether the watch on the path itself is recursive. The server's
// own events about the list of children are then not needed, and some servers send both;
// callers hold mu.
func (ws *watches) seesRecursively(full string) bool {
	e := ws.persistent[full]
	return e != nil && e.recursive
}

// onConnected begins to set all persistent watches again that were set on an earlier
// connection.
func (ws *watches) onConnected(server string) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.server = server
	ws.stale = slices.Collect(maps.Keys(ws.persistent))
	ws.rearmNext()
}

// disconnectPersistent notes that the server's watches are gone; callers hold mu.
func (ws *watches) disconnectPersistent() {
	ws.connection++
	ws.stale = nil
	for full, e := range ws.persistent {
		e.armed, e.recursive, e.pending, e.owes = false, false, 0, false
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

const errUnimplemented = ServerError(wire.CodeUnimplemented)
