// SPDX-License-Identifier: Apache-2.0

package locks

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/internal/attempt"
	"github.com/gocurator/curator/recipes/locks/internal/contexts"
	"github.com/gocurator/curator/recipes/locks/internal/line"
	"github.com/gocurator/curator/recipes/locks/internal/telemetry"
	"github.com/gocurator/curator/retry"
)

// entry is what one acquisition asks of a lock.
type entry struct {
	driver LockInternalsDriver // the lock's, or one with the same order for this acquisition
	wants  int                 // leases that one owner acquires together; the maximum may not be less
	wait   bool
	span   *telemetry.Span
}

// attemptLock re-enters, or joins the queue until it gets through.
func (l *lock) attemptLock(ctx context.Context, wait bool) (*Lease, error) {
	if ctx == nil {
		return nil, fmt.Errorf("locks: acquire %s: %w", l.path, attempt.ErrNilContext)
	}
	e := entry{driver: l.driver, wants: 1, wait: wait}
	err := l.refuseReentry(ctx)
	if err == nil && l.driverFor != nil {
		e.driver, err = l.driverFor(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("locks: acquire %s: %w", l.path, err)
	}
	if h := l.owned(ctx); h != nil && l.reenters {
		// Even when the hold has ended: to queue instead would hide the loss from its owner.
		lease, err := h.reenter(l)
		if err != nil {
			return nil, fmt.Errorf("locks: acquire %s again: %w", l.path, err)
		}
		return lease, nil
	}
	var lease *Lease
	err = l.observed(ctx, l.path, e, func(ctx context.Context, e entry) error {
		h, err := l.take(ctx, e)
		if err == nil {
			lease = h.newLease(h.l)
		}
		return err
	})
	return lease, err
}

// observed makes an acquisition with its span and the prefix of its error.
func (l *lock) observed(ctx context.Context, path string, e entry, acquire func(context.Context, entry) error) error {
	ctx, e.span = l.telemetry.Begin(ctx)
	defer e.span.Abandon(ctx)
	err := acquire(ctx, e)
	endSpan(ctx, e.span, err)
	if err != nil {
		return fmt.Errorf("locks: acquire %s: %w", path, l.whyNot(ctx, err))
	}
	return nil
}

// whyNot returns the reason for a failed acquisition: err, the end of the context if it has
// ended, and the missing connection if there is none.
func (l *lock) whyNot(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	end := ended(ctx)
	// Without a connection it is unknown which contenders are in the way now.
	if health := l.client.Health().Err; errors.Is(health, framework.ErrNotConnected) {
		return fmt.Errorf("%w: %w", health, end)
	}
	if !errors.Is(err, ctx.Err()) || !errors.Is(err, context.Cause(ctx)) {
		return fmt.Errorf("%w: %w", end, err)
	}
	return err
}

// endSpan ends the span of an acquisition by its outcome and, for a failure, the type of its
// error.
func endSpan(ctx context.Context, span *telemetry.Span, err error) {
	switch {
	case err == nil:
		span.End(ctx, telemetry.Acquired, "")
	case ctx.Err() != nil: // before the others, which it may have caused
		span.End(ctx, telemetry.Canceled, framework.ErrorType(ctx.Err()))
	case errors.Is(err, ErrNotAcquired):
		span.End(ctx, telemetry.NotAcquired, "")
	case errors.Is(err, ErrSequenceExhausted):
		span.End(ctx, telemetry.Error, "sequence_exhausted")
	case errors.Is(err, errOwnNodeGone), errors.Is(err, framework.ErrSessionExpired):
		span.End(ctx, telemetry.Lost, framework.ErrorType(err))
	default:
		span.End(ctx, telemetry.Error, framework.ErrorType(err))
	}
}

// take takes a hold over from another goroutine, or gets one from the queue.
func (l *lock) take(ctx context.Context, e entry) (*hold, error) {
	if l.handoff != nil {
		return l.handoff.take(ctx, e.wait, e.span, func() (*hold, error) { return l.enter(ctx, e) })
	}
	return l.enter(ctx, e)
}

// acquisition is one call to acquire whose node stands in the queue. What it knows about
// the queue it shares with the other acquisitions of the client; see package line.
type acquisition struct {
	entry

	l         *lock
	shrinking ShrinkingQueue // the driver, or nil if it makes no such promise
	session   *framework.Session
	node      LockNode
	name      string
	self      *member
	place     *line.Place
	max       maximum

	outdated bool            // what is known must not be used: list first
	departed []string        // contenders that have left, and whose names the line keeps for others
	listed   []string        // the contenders by the last list, if the queue does not shrink; nil before
	grants   uint64          // of this process, before the last list was sent
	link     context.Context // the connection of listed; see linkOf

	began   time.Time // when the first wait began; zero before
	created time.Time // when the reply to the creation of the node came

	suspended bool // the span has recorded an interruption
	behind    bool // the driver's last answer was to wait
	marked    bool // the marker of WithLockDelay names our node
	told      int  // one more than the position that noteQueued has told; 0 before

	awaited map[string]*predecessor // nil before the first wait, as is wake
	asked   uint64                  // how often awaited was brought up to date
	wake    chan struct{}
	own     *framework.Watch // on node; nil until it is set
	shown   time.Time        // when a server has last shown node, by the creation or a fresh list
	far     bool             // the contender before ours waits for another one; see andMore
	data    []byte           // of node, read together with setting own
	changes *framework.Watch // on the folder, for drivers that wait for any change; may be nil
}

// enter joins the queue and returns when it has the lock. When its node or its session is
// gone it joins again, as rejoining allows.
func (l *lock) enter(ctx context.Context, e entry) (h *hold, err error) {
	again := rejoin(l.client.RetryPolicy())
	defer func() { again.run.Done(err) }()
	for err = context.Cause(ctx); err == nil; {
		var waited time.Time
		if h, waited, err = l.enterOnce(ctx, e); err == nil {
			return h, nil
		}
		err = again.after(ctx, waited, err)
	}
	return nil, l.overtaken(ctx, e, err)
}

// rejoining decides whether an acquisition that has failed makes another attempt: within the
// retry policy, and without limit once an attempt has stood in the queue, so that only the context
// ends a wait.
type rejoining struct {
	run      retry.Run
	queued   bool // an attempt has stood in the queue
	failures attempt.Pause
}

func rejoin(policy retry.Policy) rejoining { return rejoining{run: retry.Begin(policy)} }

// after pauses before the attempt that follows one that has failed with this error, and has
// waited in the queue since then, or not at all if that is zero. If none follows, it returns the
// error of the acquisition.
func (r *rejoining) after(ctx context.Context, since time.Time, err error) error {
	r.queued = r.queued || !since.IsZero()
	pause := time.Duration(0)
	switch {
	case r.queued && outlasted(err):
		pause = r.pause(since)
	case !startsAgain(err):
		return err
	case ctx.Err() == nil:
		allowed := r.run.AllowRetry(err, true)
		if allowed {
			pause, allowed = r.run.Next(err)
		}
		if !allowed {
			return err
		}
	}
	attempt.Sleep(ctx, pause)
	if ctx.Err() != nil {
		return fmt.Errorf("%w; last error: %w", context.Cause(ctx), err)
	}
	return nil
}

// pause returns the pause of an acquisition that nothing but its context ends.
func (r *rejoining) pause(since time.Time) time.Duration {
	if since.IsZero() {
		return min(r.failures.Next(), maxRejoinPause)
	}
	r.failures.Reset()
	// A node that was deleted right after its creation is not created again at once:
	// whatever deletes it would spin with us.
	return time.Until(since.Add(ownDelay))
}

// outlasted reports whether a wait outlasts the error: its place in the queue is gone, or there
// is an outage.
func outlasted(err error) bool {
	return startsAgain(err) || framework.Retryable(err) || errors.Is(err, framework.ErrNotReadOnly)
}

// startsAgain reports whether the error says that a place in the queue is gone.
func startsAgain(err error) bool {
	return errors.Is(err, errOwnNodeGone) || errors.Is(err, errTurnLost) || errors.Is(err, ErrSequenceExhausted)
}

// enterOnce creates one node and takes it through the queue. If it fails in any way, it
// deletes the node.
func (l *lock) enterOnce(ctx context.Context, e entry) (h *hold, waited time.Time, err error) {
	var t *line.Try
	defer func() { l.line.Withdraw(t) }() // if it has not become an acquisition
	if e.wait {
		err = l.client.BlockUntilConnected(ctx)
	}
	if !e.wait {
		t, err = l.lookFirst(ctx, e.driver)
	}
	if err != nil {
		return nil, time.Time{}, err
	}
	a := &acquisition{entry: e, l: l, session: l.client.Session(), place: l.line.NewPlace()}
	defer func() {
		if h == nil { // even if the driver has panicked: no node must stand in the way of others
			waited, err = a.began, a.leave(ctx, err)
		}
	}()
	if err := a.create(ctx); err != nil {
		return nil, time.Time{}, err
	}
	l.line.Withdraw(t)
	h, err = a.internalLockLoop(ctx)
	if !e.wait {
		l.noteTry(err)
	}
	return h, a.began, err
}

// create creates the node, and joins the line with it.
func (a *acquisition) create(ctx context.Context) error {
	before := a.l.instant()
	err := a.createNode(ctx, before.link)
	if errors.Is(err, framework.ErrSessionEnded) { // between the look at it and the create
		return nodeGone(err)
	}
	if err != nil {
		return err
	}
	_, a.name = framework.SplitPath(a.node.Path)
	a.self = &member{node: a.l.nodeKey(a.name), place: a.place, session: a.session, proves: a.l.localReleaseProves(a.l.driver, a.name)}
	a.place.Owner, a.place.Data = a.self, a.l.cfg.data
	a.grants, a.link, a.shown = before.grants, before.link, time.Now()
	a.created = a.shown
	a.shrinking, _ = a.driver.(ShrinkingQueue)
	_, numbered := a.driver.(numberingDriver)
	node := line.Node{
		Name: a.name, Czxid: a.node.Stat.Czxid, Moved: numbered && !standsLast(a.driver), List: a.node.Children,
	}
	node.History, node.Link = a.l.origin(before)
	a.place.Join(node)
	if a.shrinking == nil && a.node.Children != nil {
		a.listed = a.l.line.Sorted(a.node.Children)
	}
	a.node.Children = nil // or each waiter would keep a list of all names in memory
	return nil
}

// createNode has the driver create the node over this connection, or a later one. The driver may
// list the folder in the same round trip.
func (a *acquisition) createNode(ctx, link context.Context) (err error) {
	l := a.l
	driver, ok := a.driver.(numberingDriver)
	if ok && driver.standsLast() && (a.place.Alone(link) || a.wait && l.line.Crowd() >= crowd) {
		return createNode(ctx, l.client, a.session, l.basePath, l.cfg.data, &a.node)
	}
	a.node, err = a.driver.CreatesTheLock(ctx, l.client, a.session, l.basePath, l.cfg.data)
	return err
}

// leave deletes the node after a failure, and returns the failure.
func (a *acquisition) leave(ctx context.Context, cause error) error {
	if a.self == nil { // it has none
		a.place.Leave(false)
		return cause
	}
	a.self.leave() // first, as waiters of this process need not wait for the deletion
	defer a.own.Cancel()
	if limit := a.l.cfg.cleanup; limit > 0 {
		var done context.CancelFunc
		ctx, done = context.WithTimeout(contexts.WithValues(a.session.LossContext(), ctx), limit)
		defer done()
	}
	return attempt.TakeBack(ctx, a.l.client, a.node.Path, cause)
}
