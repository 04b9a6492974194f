package cache

import (
	"fmt"
	"slices"

	"github.com/gocurator/curator/listen"
)

// EventType says what has happened, with Curator's names.
type EventType int

// The types of events.
const (
	// NodeCreated: the picture has a path that it did not have.
	NodeCreated EventType = iota + 1

	// NodeChanged: the data of a path has been set, or the znode was deleted and created
	// again while the cache did not see it.
	NodeChanged

	// NodeDeleted: the picture does not have a path any more.
	NodeDeleted

	// Initialized: the picture is full for the first time. It comes once, after the events of
	// all that was found, and has no path.
	Initialized
)

// String returns Curator's name of the type.
func (t EventType) String() string {
	switch t {
	case NodeCreated:
		return "NODE_CREATED"
	case NodeChanged:
		return "NODE_CHANGED"
	case NodeDeleted:
		return "NODE_DELETED"
	case Initialized:
		return "INITIALIZED"
	default:
		return fmt.Sprintf("EventType(%d)", int(t))
	}
}

// Event is a change of the picture.
type Event struct {
	Type EventType
	Path string
	Old  *ChildData // nil for NodeCreated and Initialized
	New  *ChildData // nil for NodeDeleted and Initialized
}

// ListenOption chooses what a listener is told.
type ListenOption func(*filter)

type filter struct {
	types            []EventType
	path             func(string) bool
	afterInitialized bool
}

// For tells the listener events of these types only. Given more than once, all of them count.
// It stands for the methods forCreates, forChanges, forDeletes and forInitialized of Curator's
// builder.
func For(types ...EventType) ListenOption {
	return func(f *filter) { f.types = append(f.types, types...) }
}

// WithPathFilter tells the listener events of paths only for which accept returns true, and
// Initialized.
func WithPathFilter(accept func(path string) bool) ListenOption {
	return func(f *filter) { f.path = accept }
}

// AfterInitialized tells the listener nothing before [Initialized]. It is Curator's
// afterInitialized.
func AfterInitialized() ListenOption {
	return func(f *filter) { f.afterInitialized = true }
}

// Listen has fn called with every event from now on; package listen has the contract. A
// listener that wants to know what is in the picture already is added before
// [CuratorCache.Start]. Listen panics if fn is nil.
func (c *CuratorCache) Listen(fn func(Event), opts ...ListenOption) *listen.Registration {
	var f filter
	for _, opt := range opts {
		opt(&f)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if fn == nil || len(opts) == 0 {
		return c.listeners.Add(fn)
	}
	quiet := f.afterInitialized && !c.initialized // used by the listener's calls alone, one at a time
	return c.listeners.Add(func(e Event) {
		if e.Type == Initialized {
			quiet = false
		}
		if !quiet && f.accepts(e) {
			fn(e)
		}
	})
}

func (f *filter) accepts(e Event) bool {
	if len(f.types) > 0 && !slices.Contains(f.types, e.Type) {
		return false
	}
	return f.path == nil || e.Type == Initialized || f.path(e.Path)
}

// tell notifies the listeners; what they are told has been stored before.
func (c *CuratorCache) tell(e Event) {
	c.telemetry.told(e.Type)
	c.mu.Lock()
	defer c.mu.Unlock()
	if e.Type == Initialized {
		c.initialized = true
	}
	c.listeners.Notify(e)
	if c.changed != nil {
		close(c.changed)
		c.changed = nil
	}
}
