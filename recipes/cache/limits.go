// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"log/slog"
	"math"
	"strings"

	"github.com/gocurator/curator/internal/usercode"
)

// The keys of what is logged.
const (
	logPath  = "curator.path"
	logError = "error"
)

// TreeCacheSelector limits a cache to a part of its tree, for [WithSelector]. It is Curator's
// class of that name. A nil function returns true for all paths.
//
// A function must return the same for a path each time. Both run on the goroutine that follows
// the server, so they must not block, nor call methods of the cache that block. A panic counts
// as false, and the client's logger gets it.
type TreeCacheSelector struct {
	// TraverseChildren reports whether the cache lists the children of a znode, and keeps the
	// children that AcceptChild accepts. It is asked about the cache's own path and about znodes
	// that the cache keeps.
	TraverseChildren func(path string) bool

	// AcceptChild reports whether the cache keeps a znode below its own path. The cache keeps
	// nothing below a znode that it does not keep.
	AcceptChild func(path string) bool
}

func (s *TreeCacheSelector) isSet() bool { return s.TraverseChildren != nil || s.AcceptChild != nil }

// limits say which znodes a cache keeps and which of them it lists.
type limits struct {
	path, parent string // of the cache, and of its children as cut returns it
	depth        int    // of what is kept; 0 is the path of the cache
	childrenOnly bool   // the path of the cache is listed and not kept
	selector     TreeCacheSelector
	log          *slog.Logger
}

func newLimits(path string, log *slog.Logger) limits {
	return limits{path: path, parent: asParent(path), depth: math.MaxInt, log: log}
}

// keeps reports whether the cache keeps a path. It asks about all folders above the path, which
// need not be in the picture.
func (l *limits) keeps(path string) bool {
	depth := l.depthOf(path)
	switch {
	case depth == 0:
		return !l.childrenOnly
	case depth < 0 || depth > l.depth:
		return false
	case !l.selector.isSet():
		return true
	}
	// From the top down: most of what is not kept ends here first.
	for folder, end := l.path, len(l.parent); ; end++ {
		if !l.selects(l.selector.TraverseChildren, folder) {
			return false
		}
		next := strings.IndexByte(path[end:], '/')
		if next < 0 {
			return l.keepsChild(path)
		}
		end += next
		if folder = path[:end]; !l.keepsChild(folder) {
			return false
		}
	}
}

// keepsChild reports whether the cache keeps a child of a folder that it lists.
func (l *limits) keepsChild(path string) bool { return l.selects(l.selector.AcceptChild, path) }

// lists reports whether the cache lists the children of a path that it visits.
func (l *limits) lists(path string) bool {
	return l.depthOf(path) < l.depth && l.selects(l.selector.TraverseChildren, path)
}

// depthOf returns the number of levels from the path of the cache down to a path, -1 for a path
// that is not below it.
func (l *limits) depthOf(path string) int {
	switch {
	case path == l.path:
		return 0
	case !strings.HasPrefix(path, l.parent):
		return -1
	default:
		return 1 + strings.Count(path[len(l.parent):], "/")
	}
}

// selects calls a function of the selector.
func (l *limits) selects(selected func(string) bool, path string) (yes bool) {
	if selected == nil {
		return true
	}
	if panicked := usercode.Apart(func() { yes = selected(path) }); panicked != nil {
		l.log.Error("cache selector panicked", logPath, path, "panic", panicked.Value, "stack", panicked.Stack)
		return false
	}
	return yes
}
