// SPDX-License-Identifier: Apache-2.0

package locks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/locks/internal/heldnode"
	"github.com/gocurator/curator/recipes/locks/internal/telemetry"
)

// hold is a lock that is held: one node, with one lease or more.
//
// Its context is a child of the session's, and the watch on the node ends it on the
// goroutine that receives from the server. So the contexts of all its leases end in the
// call in which the client learns of the reason. The context is made when a caller needs it. A hold has a goroutine
// only while there is something to find out or to clean up, as a client may hold thousands of locks.
type hold struct {
	l       *lock
	session *framework.Session
	parent  context.Context // of the session, which ends the hold
	endUse  func()          // ends the use of the session by this hold
	node    heldnode.Node
	token   int64
	self    *place // what the others of this client see
	since   time.Time
	row     int32       // the number of holds that the node has served, with this one
	lost    atomic.Bool // lost, and its node left to the background; for reportLeak, which must ask no context

	limit time.Duration // ends the hold when it is over; 0 for none
	keep  func() bool   // keeps abandon from running; true for one caller, unless it has begun

	mu     sync.Mutex              // guards what follows
	leases int                     // not released yet; at 0 the hold is being released
	over   error                   // how the hold has ended, by its release or loss; nil before, or when parent says it
	ctx    context.Context         // ends with the hold; nil before it is needed
	end    context.CancelCauseFunc // of ctx
}

// start begins the hold of an acquisition with this context.
func (h *hold) start(ctx context.Context) {
	h.l.tell(func(o observer) { o.granted(ctx, h) })
	h.begin()
	h.node.Start(time.Until(h.self.granted.Add(holdDelay)))
}

// begin makes the hold end with the session. From here on it may be lost at any time.
func (h *hold) begin() {
	h.since, h.leases = time.Now(), 1
	h.node.Hold = h
	h.keep = context.AfterFunc(h.parent, h.abandon)
	if h.limit > 0 {
		limit := time.AfterFunc(h.limit, h.exceed)
		context.AfterFunc(h.context(), func() { limit.Stop() })
	}
}

// exceed ends a hold that has lasted for as long as it may.
func (h *hold) exceed() { h.Lose(&LostError{Reason: framework.ReasonMaxHold}) }

// context returns a context that ends with the hold.
func (h *hold) context() context.Context {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.ctx != nil:
	case h.over == nil:
		h.ctx, h.end = context.WithCancelCause(h.parent)
	default: // the session may have ended since, but is not the cause
		h.ctx, h.end = context.WithCancelCause(context.WithoutCancel(h.parent))
		h.end(h.over)
	}
	return h.ctx
}

// endBy ends the hold, unless it has ended. It returns how it has ended.
func (h *hold) endBy(cause error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over != nil {
		return h.over
	}
	if h.over = context.Cause(h.parent); h.over == nil {
		h.over = cause
	}
	if h.ctx != nil {
		h.end(h.over)
		h.over = context.Cause(h.ctx) // the session may have ended it meanwhile
	}
	return h.over
}

// Ended returns how the hold has ended, or nil.
func (h *hold) Ended() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over != nil {
		return h.over
	}
	return context.Cause(h.parent)
}

// Lose ends the hold, unless it has ended. The rest follows on another goroutine, as this one
// may be the receiving one, which must not wait.
func (h *hold) Lose(cause error) {
	if !isReleased(h.endBy(cause)) && h.keep() {
		go h.abandon()
	}
}

// release ends the hold by its release. It reports false if the hold is lost: then abandon has begun, or is about to.
func (h *hold) release() bool {
	if !isReleased(h.endBy(ErrReleased)) {
		return false
	}
	h.keep()
	return true
}

func isReleased(cause error) bool { return cause == ErrReleased } //nolint:errorlint // the cause is this very error

// abandon cleans up after a lost hold. The node is deleted in the background, unless the client
// has ended: then it goes with the session.
func (h *hold) abandon() {
	cause := h.endBy(nil) // by the session, if it has not ended yet
	if isReleased(cause) {
		return // the session ended after the release, which does the rest
	}
	h.lost.Store(true)
	h.l.tell(func(o observer) { o.ended(context.Background(), h, cause) })
	h.endUse()
	h.self.leave()
	h.l.gate.leave()
	h.node.Stop()
	h.node.Own.Cancel()
	if !errors.Is(cause, framework.ErrClosed) && !errors.Is(cause, framework.ErrAuthFailed) {
		// It is refused when the client ends now.
		_ = h.l.client.Delete(context.Background(), h.node.Path, framework.InBackground())
	}
	telemetry.ReportLoss(h.l.client, h.session, h.node.Path, h.token, cause)
}

// err returns nil while the lock is held, and otherwise how the hold ended. If the timer of the
// session is late, in a process that was paused, err itself ends the hold: a late reply could
// move the deadline on, and no caller may hear of a loss that is taken back.
func (h *hold) err() error {
	if h.Ended() == nil && h.session.Err() == nil && !time.Now().Before(h.session.HoldDeadline(h.l.cfg.policy)) {
		h.Lose(&LostError{Reason: framework.ReasonLeaseEnd})
	}
	if h.limit > 0 && h.Ended() == nil && time.Since(h.since) >= h.limit {
		h.exceed()
	}
	return h.Ended()
}

// reenter adds a lease, acquired with the lock via.
func (h *hold) reenter(via *lock) (*Lease, error) {
	if err := h.err(); err != nil {
		return nil, err
	}
	h.mu.Lock()
	released := h.leases == 0 // the last lease is being released, and ctx about to end
	if !released {
		h.leases++
	}
	h.mu.Unlock()
	if released {
		return nil, ErrReleased
	}
	return h.newLease(via), nil
}

// leave gives one lease back. With the last one it releases the lock: first the contexts
// end, then the node is deleted.
func (h *hold) leave(ctx context.Context) error {
	lost := h.err() // before another lease of this hold can be the last one, and end it
	h.mu.Lock()
	h.leases--
	last := h.leases == 0
	h.mu.Unlock()
	if !last {
		return lost
	}
	if !h.release() {
		return h.Ended() // lost: abandon does the rest
	}
	if h.l.handOver != nil && h.l.handOver(h) {
		h.l.tell(func(o observer) { o.ended(ctx, h, nil) })
		return nil
	}
	h.endUse()
	h.self.leave()
	h.l.gate.leave()
	h.node.Stop()
	err := h.remove(ctx)
	// After the deletion, which has ended the watch for the price of a notification: to remove
	// it before would be a request more.
	h.node.Own.Cancel()
	lost = h.lostBefore(err)
	h.l.tell(func(o observer) { o.ended(ctx, h, lost) })
	return cmp.Or(lost, err)
}

// lostBefore returns how the hold was, or may have been, lost before its node was deleted.
// The outcome is the error of the deletion. When the session has ended since the release
// began, the server may have deleted the node with the session, before the release.
func (h *hold) lostBefore(outcome error) error {
	ended := h.session.Err()
	lived := ended == nil || errors.Is(ended, framework.ErrClosed) // Close comes after the release
	gone := errors.Is(outcome, framework.ErrNoNode)
	switch {
	case lived && gone:
		return &LostError{Reason: framework.ReasonNodeDeleted}
	case lived:
		return nil
	case outcome == nil || gone:
		return ended
	case errors.Is(outcome, framework.ErrCleanupPending):
		// For this client the session is over, but the server may keep the node for longer.
		return fmt.Errorf("%w: %w", ended, framework.ErrCleanupPending)
	default:
		return fmt.Errorf("%w: %w", ended, outcome)
	}
}

// remove deletes the node of a hold, and what goes with it in the same transaction.
func (h *hold) remove(ctx context.Context) error {
	var applied error // of the transaction
	if len(h.l.entrances) > 0 {
		ops := []framework.Op{framework.DeleteOp(h.node.Path)}
		for _, e := range h.l.entrances {
			ops = append(ops, e.left(h.l))
		}
		if _, applied = h.l.client.Transact(ctx, ops...); applied == nil {
			return nil
		}
	}
	// What goes with it stays: without an answer, nobody knows what the next holder would find.
	err := h.l.client.Delete(ctx, h.node.Path, framework.Guaranteed())
	if errors.Is(err, framework.ErrNoNode) && framework.OutcomeUnknown(applied) {
		return nil // by the transaction
	}
	return err
}
