// SPDX-License-Identifier: Apache-2.0

package framework

import "sync"

// foresight expects the parent of a new contender to be missing if the parents of the last new
// contenders were, and stood in the same folder. That is so with thousands of locks, whose
// folders are siblings. A parent that is expected to be missing is created in the same write as
// the znode.
type foresight struct {
	mu     sync.Mutex
	folder string // of the last missing parent, at the server
	row    int    // of missing parents, without one that was there
}

// foreseeAfter is how many missing parents make foresight expect another one. A few are no
// reason: most clients use their new folders again.
const foreseeAfter = 8

// expects reports whether a parent in this folder is expected to be missing.
func (f *foresight) expects(folder string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.row >= foreseeAfter && f.folder == folder
}

// learn notes whether a parent in this folder was missing.
func (f *foresight) learn(folder string, missing bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch same := f.folder == folder; {
	case missing && same:
		f.row++
	case missing:
		f.folder, f.row = folder, 1
	case same:
		f.row = 0
	}
}
