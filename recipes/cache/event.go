// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"fmt"
	"slices"

	"github.com/gocurator/curator/framework"
)

// ChildData is a znode of the picture. Its data is shared by all users, so it must not be changed.
type ChildData struct {
	Path string

	// Stat is the Stat that the server sent with the data. ZooKeeper sends no event of the
	// znode itself for a new child or a new access control list. So NumChildren, Cversion,
	// Pzxid and Aversion may be older than the rest.
	Stat framework.Stat

	Data []byte
}

// EventType is the kind of an [Event], with Curator's names.
type EventType int

// The types of events.
const (
	// NodeCreated: the picture has a path that it did not have.
	NodeCreated EventType = iota + 1

	// NodeChanged: the data of a path was set, or the znode was deleted and created again
	// while the cache did not see it.
	NodeChanged

	// NodeDeleted: the picture no longer has a path.
	NodeDeleted

	// Initialized: the picture is full for the first time. It comes once, after the events of
	// all znodes that were found, and has no path.
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

// ListenOption selects the events that a listener gets.
type ListenOption func(*filter)

type filter struct {
	types            []EventType
	path             func(string) bool
	afterInitialized bool
}

// For selects events of these types. Several For options add up. It replaces the methods
// forCreates, forChanges, forDeletes and forInitialized of Curator's builder.
func For(types ...EventType) ListenOption {
	return func(f *filter) { f.types = append(f.types, types...) }
}

// WithPathFilter selects events of paths for which accept returns true. [Initialized] has no
// path and always passes.
func WithPathFilter(accept func(path string) bool) ListenOption {
	return func(f *filter) { f.path = accept }
}

// AfterInitialized drops all events before [Initialized]. It is Curator's afterInitialized.
func AfterInitialized() ListenOption {
	return func(f *filter) { f.afterInitialized = true }
}

// accepts reports whether an event passes the types and the paths of the filter.
func (f *filter) accepts(e Event) bool {
	if len(f.types) > 0 && !slices.Contains(f.types, e.Type) {
		return false
	}
	return f.path == nil || e.Type == Initialized || f.path(e.Path)
}
