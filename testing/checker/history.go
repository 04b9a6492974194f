// SPDX-License-Identifier: Apache-2.0

package checker

import (
	"slices"
	"sync"
	"time"
)

// History collects the operations of one process. It is safe for concurrent use.
type History struct {
	start time.Time

	mu  sync.Mutex
	ops []Op
}

// NewHistory returns an empty history, whose clock begins now.
func NewHistory() *History { return &History{start: time.Now()} }

// Now is the time since the history began, in nanoseconds of the monotonic clock.
func (h *History) Now() int64 { return int64(time.Since(h.start)) }

// Add records an operation.
func (h *History) Add(op Op) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, op)
}

// Ops returns what has been recorded, in the order of the calls.
func (h *History) Ops() []Op {
	h.mu.Lock()
	defer h.mu.Unlock()
	ops := slices.Clone(h.ops)
	slices.SortStableFunc(ops, byCall)
	return ops
}
