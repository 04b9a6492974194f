package locks

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
)

// hold is a lock that is held: one node, however many leases.
//
// Its context is a child of the session's, and is ended by the watch on its node
// in the goroutine that receives from the server. So it and the contexts of all its
// leases end in the very call in which the client learns what ends them. A hold has
// a goroutine only while there is something to find out or to clean up.
type hold struct {
	l       *LockInternals
	session *framework.Session
	parent  context.Context // of the session, while that is held
	letGo   func()          // of the session
	node    LockNode
	self    *member   // as those behind it see it
	row     int       // how many holds the node has served, with this one
	ownDue  time.Time // when the node is to be watched
	since   time.Time
	lost    atomic.Bool // and abandoned: a lease that is dropped now keeps nothing

	ctx      context.Context
	end      context.CancelCauseFunc
	keepNode func() bool // keeps a hold that is being released from being abandoned

	// watching ends when the node is gone or given up. It outlives ctx.
	watching    context.Context
	endWatching context.CancelFunc

	revoked context.Context // ends when somebody has asked for the lock
	revoke  context.CancelFunc

	mu     sync.Mutex
	leases int              // not released yet; 0 means that the hold is being released
	own    *framework.Watch // on node; nil before the first
	due    *time.Timer      // for the first; nil if it came with the hold or was due
	over   bool             // released or lost: work does not grow any more
	work   sync.WaitGroup   // of examine
}

func newHold(parent context.Context, letGo func(), a *acquisition) *hold {
	h := &hold{l: a.l, session: a.session, parent: parent, letGo: letGo, node: a.node, self: a.self, row: 1}
	h.ownDue = time.Now().Add(holdDelay)
	a.span.granted(h)
	h.begin()
	if a.own != nil {
		h.heed(a.data)
	}
	h.watchOrExamine(a.own)
	h.abandonLater()
	return h
}

// successor returns the hold that takes the place of one which has been released, and
// takes over its node, session and watch. A watch that is being set is waited for, if it
// does not take long: or a row of holds that are shorter than a round trip would have none.
func (h *hold) successor() *hold {
	limit := time.AfterFunc(examinePause, h.endWatching)
	h.finishWork()
	limit.Stop()
	h.endWatching()
	s := &hold{
		l: h.l, session: h.session, parent: h.parent, letGo: h.letGo, node: h.node, self: h.self, row: h.row + 1, ownDue: h.ownDue,
	}
	s.begin()
	if h.revoked.Err() != nil {
		s.revoke() // the request is for whoever has the node
	}
	s.watchOrExamine(h.own)
	s.abandonLater()
	return s
}

// begin sets up what ends with the hold.
func (h *hold) begin() {
	h.since, h.leases = time.Now(), 1
	h.ctx, h.end = context.WithCancelCause(h.parent)
	h.watching, h.endWatching = context.WithCancel(context.Background())
	h.revoked, h.revoke = context.WithCancel(context.Background())
}

// abandonLater has the hold abandoned when it is lost. It comes last, as abandon takes back
// the watch that the hold begins with.
func (h *hold) abandonLater() { h.keepNode = context.AfterFunc(h.ctx, h.abandon) }

// watchOrExamine goes on with the watch on the node, or sets one when it is due.
func (h *hold) watchOrExamine(own *framework.Watch) {
	delay := time.Until(h.ownDue)
	switch {
	case own != nil:
		h.watch(own)
	case delay <= 0:
		h.examineLater()
	default:
		h.mu.Lock()
		defer h.mu.Unlock()
		h.due = time.AfterFunc(delay, h.examineLater)
	}
}

// examineLater has the node examined, unless the hold is over.
func (h *hold) examineLater() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.over {
		h.work.Go(h.examine)
	}
}

// watch makes own the watch on the node.
func (h *hold) watch(own *framework.Watch) {
	h.mu.Lock()
	h.own = own
	h.mu.Unlock()
	// In the stream of events, so that no waiter of this client can be let in first.
	own.EndOnDeletion(h.end, &LostError{Reason: framework.ReasonNodeDeleted})
	own.OnFired(h.onEvent)
}

// onEvent finds out what an event means that leaves the node's fate open.
func (h *hold) onEvent(event framework.Event) {
	if event.Type != zk.EventNodeDeleted {
		h.examineLater()
	}
}

// examine finds out whether the node is there and whether it has been asked for,
// and watches it: a while after the grant if nobody has yet, and after an event that
// leaves it open.
func (h *hold) examine() {
	pause, told := examinePause, false
	for first := true; first || h.ctx.Err() == nil; first = false {
		var own *framework.Watch
		var stat framework.Stat
		data, err := h.l.client.Get(h.watching, h.node.Path, framework.Watched(&own), framework.StoringStatIn(&stat))
		switch {
		case errors.Is(err, framework.ErrNoNode), err == nil && stat.Czxid != h.node.Stat.Czxid:
			own.Cancel()
			h.end(&LostError{Reason: framework.ReasonNodeDeleted})
			return
		case err == nil:
			h.heed(data)
			h.watch(own)
			return
		}
		// As long as the session is confirmed the hold goes on, although its node cannot be
		// read: there is no connection, or no right to.
		if errors.Is(err, framework.ErrNoAuth) && !told {
			told = true
			h.l.client.Logger().Warn("lock node cannot be read: its deletion and requests for the lock go unnoticed until it can",
				string(keyPath), h.node.Path, "error", err)
		}
		sleep(h.ctx, pause)
		if !framework.Retryable(err) {
			pause = min(2*pause, maxExaminePause)
		}
	}
}

// A right that is missing may be missing for as long as the lock is held.
const (
	examinePause    = 100 * time.Millisecond
	maxExaminePause = 30 * time.Second
)

// abandon leaves the node of a lost hold to the background.
func (h *hold) abandon() {
	cause := context.Cause(h.ctx)
	h.lost.Store(true)
	h.l.telemetry.lost(h, cause)
	h.letGo()
	h.self.letGo()
	defer h.self.part()
	h.l.handoff.pass()
	h.unwatch()
	// Refused when the client is closed: then the node goes with the session.
	_ = h.l.client.Delete(h.ctx, h.node.Path, framework.InBackground())
	losses.report(h, lossReason(cause))
}

// unwatch takes the watch on the node back, also one that is being set.
func (h *hold) unwatch() {
	h.stopWork()
	h.own.Cancel()
}

// stopWork ends what is going on to find out about the node.
func (h *hold) stopWork() {
	h.endWatching()
	h.finishWork()
}

// finishWork waits for what is going on to find out about the node, and lets nothing more
// begin.
func (h *hold) finishWork() {
	h.mu.Lock()
	h.over = true
	if h.due != nil {
		h.due.Stop()
	}
	h.mu.Unlock()
	h.work.Wait()
}

// err returns nil while the lock is held. It asks the clock itself, so that a
// process that was paused need not wait for a timer to learn the truth.
func (h *hold) err() error {
	if err := context.Cause(h.ctx); err != nil {
		return err
	}
	if h.session.Err() == nil && !time.Now().Before(h.session.HoldDeadline(h.l.cfg.policy)) {
		return &LostError{Reason: framework.ReasonLeaseEnd}
	}
	return nil
}

// reenter adds a lease.
func (h *hold) reenter() (*Lease, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.err(); err != nil {
		return nil, err
	}
	if h.leases == 0 {
		return nil, ErrReleased
	}
	h.leases++
	return h.newLease(), nil
}

// leave takes a lease away and, with the last one, releases the lock: first the
// contexts end, then the node goes, and the watch with it.
func (h *hold) leave(ctx context.Context) error {
	h.mu.Lock()
	h.leases--
	last := h.leases == 0
	lost := h.err() // before another lease of this hold can be the last one, and end it
	h.mu.Unlock()
	if !last {
		return lost
	}
	if !h.keepNode() {
		return context.Cause(h.ctx) // abandon sees to the rest
	}
	if lost != nil {
		h.end(lost)
		h.abandon()
		return lost
	}
	h.end(ErrReleased)
	if h.l.handoff != nil && h.l.handoff.next(h) {
		h.l.telemetry.released(ctx, h)
		return nil
	}
	h.letGo()
	h.self.letGo()
	defer h.self.part()
	h.l.handoff.pass()
	h.unwatch() // or the deletion would be told to us too
	err := h.l.client.Delete(ctx, h.node.Path, framework.Guaranteed())
	if lost := h.lostBefore(err); lost != nil {
		h.l.telemetry.lost(h, lost)
		return lost
	}
	h.l.telemetry.released(ctx, h)
	return err
}

// lostBefore returns how the hold may have been lost before its node was deleted, with
// the given outcome, or nil. When the session has ended meanwhile, nobody can tell whether
// it went before the release did, and with it the node: unless the end is our own doing,
// as Close comes after the release.
func (h *hold) lostBefore(outcome error) error {
	ended := h.session.Err()
	lived := ended == nil || errors.Is(ended, framework.ErrClosed)
	gone := errors.Is(outcome, framework.ErrNoNode)
	switch {
	case lived && gone:
		return &LostError{Reason: framework.ReasonNodeDeleted}
	case lived:
		return nil
	case outcome == nil || gone:
		return ended
	case errors.Is(outcome, framework.ErrCleanupPending):
		// The node may outlive the session's end for this client.
		return fmt.Errorf("%w: %w", ended, framework.ErrCleanupPending)
	default:
		return fmt.Errorf("%w: %w", ended, outcome)
	}
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
