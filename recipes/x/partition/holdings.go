// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"context"
	"slices"
	"sync"

	"github.com/gocurator/curator/recipes/internal/attempt"
)

// holdings are the partitions of one [Member.Run]: those that it has, waits for, stands by for, or has not released yet.
type holdings struct {
	*group

	fn         func(context.Context, Partition) error
	ctx        context.Context // of all functions
	cancel     context.CancelCauseFunc
	goroutines sync.WaitGroup // all of the run but its own

	reported chan struct{} // has room for one: a load was reported
	prepared chan struct{} // has room for one: what this member is prepared for has changed, or it drains

	mu        sync.Mutex
	pieces    map[string]*piece
	planned   int           // how many the plan gives to this member
	drained   chan struct{} // of Member.Drain, closed when this member has no partition; nil without it
	announced bool          // the znode says that the member is drained
}

func newHoldings(ctx context.Context, g *group, fn func(context.Context, Partition) error) *holdings {
	h := &holdings{
		group: g, fn: fn, pieces: make(map[string]*piece), reported: make(chan struct{}, 1), prepared: make(chan struct{}, 1),
	}
	h.ctx, h.cancel = context.WithCancelCause(ctx)
	return h
}

// assign hands a share to the pieces. While this member is not present, it stands by for its partitions: it may get them
// again, and they stay warm. assign reports whether it holds a partition that is to move.
func (h *holdings) assign(s share, present bool) (moves bool) {
	wanted, standby := s.Partitions, s.Standbys
	if !present {
		wanted, standby = nil, slices.Concat(s.Partitions, s.Standbys)
	}
	if h.cfg.prepare == nil {
		standby = nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.planned = len(s.Partitions)
	isWanted, standsBy := make(map[string]bool), make(map[string]bool)
	for _, name := range wanted {
		isWanted[name] = true
		h.pieceLocked(name).wantLocked()
	}
	for _, name := range standby {
		standsBy[name] = true
		h.pieceLocked(name)
	}
	for name, p := range h.pieces {
		p.standByLocked(standsBy[name])
		if !isWanted[name] && p.unwantLocked() {
			moves = true
		}
	}
	h.notifyDrainedLocked()
	return moves
}

// pieceLocked returns the piece of a partition, which it starts if there is none.
func (h *holdings) pieceLocked(name string) *piece {
	p, found := h.pieces[name]
	if !found {
		p = &piece{of: h, name: name, wake: make(chan struct{}, 1)}
		h.pieces[name] = p
		h.goroutines.Go(p.live)
	}
	return p
}

// endRemoved ends the pieces that are held and not wanted, and that were removed. It reports whether others stay.
func (h *holdings) endRemoved(isRemoved func(name string) bool) (others bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for name, p := range h.pieces {
		switch {
		case p.wanted || !p.holds || p.removed:
		case isRemoved(name):
			p.removeLocked()
		default:
			others = true
		}
	}
	return others
}

// drain has the znode of this member say that it is drained. The channel is closed when it has no partition any more.
func (h *holdings) drain() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.drained == nil {
		h.drained = make(chan struct{})
	}
	attempt.Signal(h.prepared) // what this member says of itself has one writer
	return h.drained
}

func (h *holdings) isDraining() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.drained != nil
}

// notifyDrainedLocked ends a Drain when this member has no partition any more.
func (h *holdings) notifyDrainedLocked() {
	if h.announced && len(h.pieces) == 0 && h.planned == 0 && !attempt.IsClosed(h.drained) {
		close(h.drained)
	}
}
