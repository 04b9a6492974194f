// SPDX-License-Identifier: Apache-2.0

package locks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/internal/attempt"
	"github.com/gocurator/curator/recipes/locks/internal/telemetry"
)

// hold is a lock that is held: one node, with one lease or more.
//
// Its context is a child of the session's, and the watch on the node ends it on the
// goroutine that receives from the server. So the contexts of all its leases end in the
// call in which the client learns of the reason. A hold has a goroutine only while there is
// something to find out or to clean up, as a client may hold thousands of locks.
type hold struct {
	l       *lock
	session *framework.Session
	parent  context.Context // of the session, which ends the hold
	endUse  func()          // ends the use of the session by this hold
	node    heldNode
	self    *member   // what the contenders behind it see
	row     int       // the number of holds that the node has served, with this one
	ownDue  time.Time // when to watch the node
	since   time.Time

	ctx  context.Context // ends with the hold, by its release or loss
	end  context.CancelCauseFunc
	keep func() bool // keeps abandon from running; true for one caller, unless it has begun

	mu        sync.Mutex
	leases    int                // not released yet; at 0 the hold is being released
	own       *framework.Watch   // on node; nil before the first
	due       *time.Timer        // starts the first examine; nil before and after
	examining context.CancelFunc // ends the requests of examine; may be nil
	over      bool               // released or lost: no examine may begin
	work      sync.WaitGroup     // of examine

	asking  sync.Mutex         // guards what follows
	revoked context.Context    // ends when a client asks for the lock; nil before it is needed
	revoke  context.CancelFunc // of revoked
}

// holdDelay is how long a hold lasts before it watches its node, as in ownDelay.
const holdDelay = time.Millisecond

// heldNode is what a hold needs of its LockNode.
type heldNode struct {
	path  string
	czxid int64
	token int64
}

// grantedTo records the hold in the span of its acquisition. The turn at a semaphore has no
// telemetry: it is waited for, but not counted as held.
func (h *hold) grantedTo(span *telemetry.Span) {
	if h.l.telemetry != nil {
		span.Granted(h.node.token, h.session)
	}
}

// successor returns the next hold of a row. It takes over the node, the session and the
// watch of h, which has been released.
func (h *hold) successor() *hold {
	// Let a watch that is being set arrive, within limits: otherwise a row of holds that are
	// each shorter than a round trip would never have one.
	limit := time.AfterFunc(examinePause, h.endWork())
	h.work.Wait()
	limit.Stop()
	s := &hold{
		l: h.l, session: h.session, parent: h.parent, endUse: h.endUse, node: h.node, self: h.self, row: h.row + 1,
		own: h.own, ownDue: h.ownDue,
	}
	s.begin()
	if h.isRevoked() { // the request is for the holder of the node
		s.setRevoked()
	}
	s.watchOrExamine()
	return s
}

// begin makes the hold end with the session. From here on it may be lost at any time.
func (h *hold) begin() {
	h.since, h.leases = time.Now(), 1
	h.ctx, h.end = context.WithCancelCause(h.parent)
	h.keep = context.AfterFunc(h.parent, h.abandon)
}

// cause returns how the hold has ended, or nil.
func (h *hold) cause() error { return context.Cause(h.ctx) }

// lose ends the hold, unless it has ended. The rest follows on another goroutine, as this one
// may be the receiving one, which must not wait.
func (h *hold) lose(cause error) {
	if h.keep() {
		h.end(cause)
		go h.abandon()
	}
}

// release ends the hold by its release. It reports false if the hold is lost.
func (h *hold) release() bool {
	if !h.keep() {
		<-h.ctx.Done() // it is about to end with its loss
		return false
	}
	h.end(ErrReleased)
	if h.cause() == ErrReleased { //nolint:errorlint // the cause is this very error
		return true
	}
	go h.abandon() // the session's context has ended between the two calls
	return false
}

// watchOrExamine heeds the watch on the node that a new hold has taken over, or sets one
// when it is due.
func (h *hold) watchOrExamine() {
	delay := time.Until(h.ownDue)
	switch {
	case h.own != nil:
		h.heedWatch(h.own)
	case delay <= 0:
		h.examineLater()
	default:
		h.mu.Lock()
		defer h.mu.Unlock()
		if !h.over {
			h.due = time.AfterFunc(delay, h.examineLater)
		}
	}
}

// examineLater starts examine on its own goroutine, unless the hold is over.
func (h *hold) examineLater() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.due = nil
	if h.over {
		return
	}
	ctx, cancel := context.WithCancel(context.Background()) // it may outlive the hold, see successor
	h.examining = cancel
	h.work.Go(func() {
		defer cancel()
		h.examine(ctx)
	})
}

// errNodeDeleted is the loss of all holds whose nodes are deleted by others.
var errNodeDeleted = &LostError{Reason: framework.ReasonNodeDeleted}

// heedWatch has the watch on the node end the hold.
func (h *hold) heedWatch(own *framework.Watch) {
	// On the receiving goroutine, so that the hold ends before any waiter of this client
	// can learn of the same deletion.
	own.EndOnDeletion(h.lose, errNodeDeleted)
	own.OnFired(h.onEvent)
}

// onEvent handles the end of the watch on the node.
func (h *hold) onEvent(event framework.Event) {
	// After anything but a deletion the node may still be there: look, and watch again.
	if event.Type != zk.EventNodeDeleted {
		h.examineLater()
	}
}

// examine reads the node and watches it. It ends the hold if the node is gone, and notes
// whether a client has asked for the lock. It repeats the read until it succeeds, even when the
// retry policy panics.
func (h *hold) examine(ctx context.Context) {
	pause, told := examinePause, false
	for first := true; first || h.cause() == nil; first = false {
		var own *framework.Watch
		var stat framework.Stat
		var data []byte
		err := attempt.Guard(h.l.client, func() (err error) {
			data, err = h.l.client.Get(ctx, h.node.path, framework.Watched(&own), framework.StoringStatIn(&stat))
			return err
		})
		if _, panicked := errors.AsType[*attempt.PanicError](err); panicked {
			own.Cancel() // it may have panicked after the read
		}
		switch {
		case errors.Is(err, framework.ErrNoNode), err == nil && stat.Czxid != h.node.czxid:
			// Gone, or another node of the same name.
			own.Cancel()
			h.lose(errNodeDeleted)
			return
		case err == nil:
			h.noteRequest(data)
			// If the hold has ended meanwhile, abandon, leave or successor waits for examine, and
			// then cancels the watch or hands it on.
			h.mu.Lock()
			h.own, h.examining = own, nil
			h.mu.Unlock()
			h.heedWatch(own)
			return
		}
		// Without a connection, or without the right to read the node, the hold goes on as
		// long as its session is confirmed.
		if errors.Is(err, framework.ErrNoAuth) && !told {
			told = true
			h.l.client.Logger().Warn("lock node cannot be read: its deletion and requests for the lock go unnoticed until it can",
				string(keyPath), h.node.path, "error", err)
		}
		attempt.Sleep(ctx, pause)
		// A missing right may be missing for as long as the lock is held: ask less often.
		if !framework.Retryable(err) {
			pause = min(2*pause, maxExaminePause)
		}
	}
}

// The pause between two tries to read a node, and its limit.
const (
	examinePause    = 100 * time.Millisecond
	maxExaminePause = 30 * time.Second
)

// abandon cleans up after a lost hold. The node is deleted in the background, unless the client
// has ended: then it goes with the session, or is one of [LockNode.Persistent] and stays.
func (h *hold) abandon() {
	<-h.ctx.Done() // the session's context ends the hold's and starts this in any order
	cause := h.cause()
	h.l.telemetry.Ended(context.Background(), h.since, cause)
	h.endUse()
	h.self.leave()
	h.l.handoff.pass()
	h.stopWork()
	h.own.Cancel()
	if !errors.Is(cause, framework.ErrClosed) && !errors.Is(cause, framework.ErrAuthFailed) {
		// It is refused when the client ends now.
		_ = h.l.client.Delete(context.Background(), h.node.path, framework.InBackground())
	}
	telemetry.ReportLoss(h.l.client, h.session, h.node.path, h.node.token, cause)
}

// stopWork cancels a running examine and waits for its end.
func (h *hold) stopWork() {
	h.endWork()()
	h.work.Wait()
}

// endWork lets no examine begin any more. It returns a function that cancels a running one.
func (h *hold) endWork() (cancel func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.over = true
	if h.due != nil {
		h.due.Stop()
	}
	if h.examining == nil {
		return func() {}
	}
	return h.examining
}

// err returns nil while the lock is held, and otherwise how the hold ended. If the timer of the
// session is late, in a process that was paused, err itself ends the hold: a late reply could
// move the deadline on, and no caller may hear of a loss that is taken back.
func (h *hold) err() error {
	if h.cause() == nil && h.session.Err() == nil && !time.Now().Before(h.session.HoldDeadline(h.l.cfg.policy)) {
		h.lose(&LostError{Reason: framework.ReasonLeaseEnd})
		<-h.ctx.Done() // another goroutine may be about to end it
	}
	return h.cause()
}

// reenter adds a lease, acquired with the lock via.
func (h *hold) reenter(via *lock) (*Lease, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.err(); err != nil {
		return nil, err
	}
	if h.leases == 0 { // the last lease is being released, and ctx about to end
		return nil, ErrReleased
	}
	h.leases++
	return h.newLease(via), nil
}

// leave gives one lease back. With the last one it releases the lock: first the contexts
// end, then the node is deleted.
func (h *hold) leave(ctx context.Context) error {
	h.mu.Lock()
	h.leases--
	last := h.leases == 0
	lost := h.err() // before another lease of this hold can be the last one, and end it
	h.mu.Unlock()
	if !last {
		return lost
	}
	if !h.release() {
		return h.cause() // lost: abandon does the rest
	}
	if h.l.handoff != nil && h.l.handoff.next(h) {
		h.l.telemetry.Ended(ctx, h.since, nil)
		return nil
	}
	h.endUse()
	h.self.leave()
	h.l.handoff.pass()
	h.stopWork()
	err := h.l.client.Delete(ctx, h.node.path, framework.Guaranteed())
	// After the deletion, which has ended the watch for the price of a notification: to remove
	// it before would be a request more.
	h.own.Cancel()
	lost = h.lostBefore(err)
	h.l.telemetry.Ended(ctx, h.since, lost)
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
