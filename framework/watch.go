package framework

import (
	"context"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework/internal/conduit"
	"github.com/gocurator/curator/framework/internal/wire"
)

// EventType is the type of an event. It is go-zookeeper's type, with zk.EventNodeCreated,
// EventNodeDeleted, EventNodeDataChanged, EventNodeChildrenChanged, and EventNotWatching
// when the connection was lost.
type EventType = zk.EventType

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
	watches *watches
	key     watchKey
	path    string
	fired   chan struct{}
	set     bool // by its request; valid once the request has succeeded
	absent  bool // there was no znode

	// Guarded by watches.mu.
	armed     bool // the server has it
	asked     bool // the request has asked the server for it
	early     bool // its end may come in front of the reply, see WatchData
	ended     bool
	cancelled bool
	event     Event
	onFired   []func(Event)
	ends      []func() // of contexts, when the znode is deleted
}

// Fired is closed when the watch has ended by an event or the loss of the
// connection.
func (w *Watch) Fired() <-chan struct{} { return w.fired }

// Event returns what ended the watch. It is valid once Fired is closed.
func (w *Watch) Event() Event { return w.event }

// Wait blocks until the watch has ended as for Fired and returns its event, whose Err may
// be set. If the context ends first, Wait cancels the watch and returns an
// [*InterruptedError]. A cancelled watch never ends.
func (w *Watch) Wait(ctx context.Context) (Event, error) {
	if ctx == nil {
		return Event{}, fmt.Errorf("framework: watch %s: %w", w.path, errNilContext)
	}
	select {
	case <-w.fired:
		return w.event, nil
	default: // an event counts even when the context has ended as well
	}
	select {
	case <-w.fired:
		return w.event, nil
	case <-ctx.Done():
		w.Cancel()
		return Event{}, fmt.Errorf("framework: watch %s: %w", w.path, interrupted(ctx))
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
	if !w.watches.addHook(w, func(e Event) { go w.watches.call(fn, e) }) {
		go w.watches.call(fn, w.event)
	}
}

// EndOnDeletion ends a context with the cause when the watch ends because its znode was
// deleted. It does so before anything that follows the event in the server's stream, and
// before any other goroutine learns of the event. So a context that represents the znode
// has ended by the time other clients can know of the deletion. end must be the function
// returned by context.WithCancelCause: it runs on the goroutine that receives from the
// server. It is called at once if the znode was deleted before, and never after Cancel.
func (w *Watch) EndOnDeletion(end context.CancelCauseFunc, cause error) {
	if !w.watches.addEnd(w, func() { end(cause) }) && w.event.Type == zk.EventNodeDeleted {
		end(cause)
	}
}

// Cancel ends the watch without an event. It does not block, may be called at any time and
// more than once, and is safe on a nil watch.
func (w *Watch) Cancel() {
	if w != nil {
		w.watches.cancel(w)
	}
}

// WatchedOption is returned by [Watched].
type WatchedOption struct{ into **Watch }

// Watched sets a watch together with the read: on the data of the znode for Get and
// Exists, on the list of its children for Children. Exists also watches a path without a
// znode; Get and Children then fail and leave no watch. When the read succeeds the watch is
// stored in *into, and the caller must Cancel it when it is no longer needed; when the read
// fails, *into is not changed.
func Watched(into **Watch) WatchedOption { return WatchedOption{into} }

func (o WatchedOption) applyGet(c *readConfig) error      { return o.set(c) }
func (o WatchedOption) applyExists(c *readConfig) error   { return o.set(c) }
func (o WatchedOption) applyChildren(c *readConfig) error { return o.set(c) }

func (o WatchedOption) set(c *readConfig) error {
	if o.into == nil {
		return errNilWatch
	}
	c.watch = o.into
	return nil
}

// watchKind is one of the two tables in which a server keeps watches. The values are
// defined by removeWatches.
type watchKind int32

const (
	watchChildren watchKind = 1
	watchData     watchKind = 2 // set by getData and exists
)

type watchKey struct {
	full string // at the server
	kind watchKind
}

// watchEntry holds the watches that wait for one watch at the server.
type watchEntry struct {
	armed   bool
	waiting map[*Watch]struct{} // armed, or their request is under way
}

// watches is the registry of a client's watches.
//
// A watch joins its entry before its request is sent and is armed, in stream order, by the
// reply. An event ends only armed watches: a request that was answered after the event has
// set the server's watch again. Watches of [WatchData] are the exception: the server
// reports a missing znode in front of the reply.
type watches struct {
	f *Framework

	mu         sync.Mutex
	entries    map[watchKey]*watchEntry
	persistent map[string]*persistentEntry // by the path at the server
	server     string                      // of the newest connection
	connection int                         // counts them
	stale      []string                    // paths of persistent watches that the newest has yet to set again
	closed     bool
}

func newWatches(f *Framework) *watches {
	return &watches{
		f: f, entries: make(map[watchKey]*watchEntry),
		persistent: make(map[string]*persistentEntry),
	}
}

// watchRequest is a read that asks for a watch.
type watchRequest struct {
	key      watchKey
	path     string
	onAbsent bool // the server sets the watch although there is no znode
	into     **Watch
	flag     *byte  // in the request: asks the server for a watch; nil if it always does
	current  *Watch // of the last try
}

// deliver hands the watch over, or gives it up if the read failed.
func (r *watchRequest) deliver(ok bool) {
	if !ok || !r.current.set {
		r.current.Cancel()
		return
	}
	*r.into = r.current
}

// begin registers a try of the request and returns the function that receives its outcome.
func (ws *watches) begin(r *watchRequest) func(conduit.Reply, error) {
	w := &Watch{watches: ws, key: r.key, path: r.path, fired: make(chan struct{})}
	r.current.Cancel() // of a try that failed after this read had succeeded
	r.current = w
	ws.mu.Lock()
	defer ws.mu.Unlock()
	switch {
	case r.flag == nil:
		w.asked, w.early = true, true
	case ws.serves(r.key.full):
		*r.flag = 0
	default:
		w.asked, *r.flag = true, 1
	}
	entry := ws.entries[r.key]
	if entry == nil {
		entry = &watchEntry{waiting: make(map[*Watch]struct{})}
		ws.entries[r.key] = entry
	}
	entry.waiting[w] = struct{}{}
	return func(reply conduit.Reply, err error) {
		w.absent = err == nil && r.onAbsent && reply.Code == wire.CodeNoNode
		w.set = err == nil && reply.Code == 0 || w.absent
		if !ws.answered(w, w.set) {
			ws.fire(Event{Type: zk.EventNotWatching, Err: ErrConnectionLost}, w.key)
		}
	}
}

// answered returns false when the watch was to be served by a persistent one that has
// gone with an earlier connection.
func (ws *watches) answered(w *Watch, set bool) bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if set && w.asked && ws.serves(w.key.full) {
		ws.rearm(w.key.full)
	}
	if w.ended {
		return true
	}
	entry := ws.entries[w.key]
	if set {
		w.armed, entry.armed = true, true
	}
	if !set || w.cancelled {
		ws.drop(w)
		return true
	}
	return w.asked || ws.serves(w.key.full)
}

func (ws *watches) cancel(w *Watch) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w.cancelled = true
	if w.armed {
		ws.drop(w)
	} // else the reply, or its absence, does it
}

// drop takes a watch out of its entry, and the entry with the last one. Callers
// hold mu, so that what is sent keeps the order of what is decided.
func (ws *watches) drop(w *Watch) {
	entry := ws.entries[w.key]
	if entry == nil {
		return
	}
	delete(entry.waiting, w)
	if len(entry.waiting) > 0 {
		return
	}
	delete(ws.entries, w.key)
	switch e := ws.persistent[w.key.full]; {
	case !entry.armed:
	case e == nil:
		ws.removeAtServer(w.key)
	default:
		e.owes = true // a removal now could take the persistent watch along
	}
	ws.settle(w.key.full)
}

func (ws *watches) removeAtServer(key watchKey) {
	e := wire.NewEncoder(len(key.full) + 8)
	e.String(key.full)
	e.Int32(int32(key.kind))
	// Not sent means no connection, and so no watch.
	_ = ws.f.conduit.Send(&conduit.Call{
		Op: opRemoveWatches.code, Body: e.Bytes(),
		OnDone: func(reply conduit.Reply, err error) { ws.removed(key, reply, err) },
	})
}

// removeAgain is the pause before a removal is repeated that the server has throttled.
const removeAgain = 100 * time.Millisecond

// removed is called with the reply to a removal. Only a throttled removal leaves the watch;
// after any other reply the watch is gone, or has fired.
func (ws *watches) removed(key watchKey, reply conduit.Reply, err error) {
	if err != nil || ServerError(reply.Code) != errThrottled {
		return
	}
	time.AfterFunc(removeAgain, func() {
		ws.mu.Lock()
		defer ws.mu.Unlock()
		data, children := watchKey{key.full, watchData}, watchKey{key.full, watchChildren}
		switch {
		case ws.persistent[key.full] != nil, key.kind != watchChildren && ws.entries[data] != nil,
			key.kind != watchData && ws.entries[children] != nil:
			return // it is wanted again, and removed with the last that wants it
		}
		ws.removeAtServer(key)
	})
}

// addHook returns false when the watch has ended.
func (ws *watches) addHook(w *Watch, fn func(Event)) bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if w.ended {
		return false
	}
	w.onFired = append(w.onFired, fn)
	return true
}

// addEnd is addHook for EndOnDeletion.
func (ws *watches) addEnd(w *Watch, end func()) bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if w.ended {
		return false
	}
	w.ends = append(w.ends, end)
	return true
}

// onNotified passes an event on to the persistent watches, and ends the one-shot
// ones that it concerns.
func (ws *watches) onNotified(n conduit.Notification) {
	ws.mu.Lock()
	parent, listChanged := ws.listChanged(n)
	told := n.Type == zk.EventNodeChildrenChanged && ws.seesRecursively(n.Path)
	ws.mu.Unlock()
	ws.dispatch(n, !told)
	if listChanged {
		ws.dispatch(conduit.Notification{Type: zk.EventNodeChildrenChanged, Path: parent}, true)
	}
}

func (ws *watches) dispatch(n conduit.Notification, persistently bool) {
	event := Event{Type: n.Type}
	if persistently {
		ws.mu.Lock()
		ws.notifyPersistent(event, n.Path)
		ws.mu.Unlock()
	}
	switch n.Type {
	case zk.EventNodeChildrenChanged:
		ws.fire(event, watchKey{n.Path, watchChildren})
	case zk.EventNodeDeleted:
		ws.fire(event, watchKey{n.Path, watchData}, watchKey{n.Path, watchChildren})
	default:
		ws.fire(event, watchKey{n.Path, watchData})
	}
}

// onDisconnected ends all watches: the server's are gone with the connection.
func (ws *watches) onDisconnected() {
	ws.mu.Lock()
	ws.disconnectPersistent()
	keys := slices.Collect(maps.Keys(ws.entries))
	ws.mu.Unlock()
	ws.fire(Event{Type: zk.EventNotWatching, Err: ErrConnectionLost}, keys...)
}

// call calls a function of the program's.
func (ws *watches) call(fn func(Event), e Event) {
	defer func() {
		if recovered := recover(); recovered != nil {
			ws.f.cfg.log.Error("watch hook panicked",
				logPath, e.Path, "panic", recovered, "stack", string(debug.Stack()))
		}
	}()
	fn(e)
}

// fire ends the armed watches of these entries, and then the contexts that end with them,
// before anything that waits for a watch hears of it.
func (ws *watches) fire(event Event, keys ...watchKey) {
	ws.mu.Lock()
	var ended []*Watch
	for _, key := range keys {
		ended = ws.end(ended, key, event)
	}
	ws.mu.Unlock()
	for _, w := range ended {
		if event.Type == zk.EventNodeDeleted {
			for _, end := range w.ends {
				end()
			}
		}
	}
	for _, w := range ended {
		close(w.fired)
		for _, fn := range w.onFired {
			fn(w.event)
		}
	}
}

// end ends the armed watches of one entry and appends them to ended; callers hold
// mu.
func (ws *watches) end(ended []*Watch, key watchKey, event Event) []*Watch {
	entry := ws.entries[key]
	if entry == nil {
		return ended
	}
	entry.armed = false
	for w := range entry.waiting {
		if !w.endsBy(event) {
			entry.armed = entry.armed || w.armed
			continue
		}
		delete(entry.waiting, w)
		w.armed, w.ended = false, true
		w.event = event
		w.event.Path = w.path // as its view of the client names it
		ended = append(ended, w)
	}
	if len(entry.waiting) == 0 {
		delete(ws.entries, key)
		ws.settle(key.full)
	}
	return ended
}

// endsBy reports whether an event ends this watch; callers hold mu.
func (w *Watch) endsBy(event Event) bool {
	switch {
	case event.Type != zk.EventNodeDeleted:
		return w.armed
	case w.armed:
		return !w.absent // or it is the answer to a WatchData
	default:
		return w.early
	}
}
