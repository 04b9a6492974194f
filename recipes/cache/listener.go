// SPDX-License-Identifier: Apache-2.0

package cache

import "slices"

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
