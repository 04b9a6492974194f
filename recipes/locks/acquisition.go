// SPDX-License-Identifier: Apache-2.0

package locks

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/internal/attempt"
	"github.com/gocurator/curator/recipes/locks/internal/line"
	"github.com/gocurator/curator/retry"
)

// acquisition is one call to acquire whose node stands in the queue. What it knows about
// the queue it shares with the other acquisitions of the client; see package line.
type acquisition struct {
	entry

	l         *LockInternals
	shrinking ShrinkingQueue // the driver, or nil if it makes no such promise
	session   *framework.Session
	node      LockNode
	name      string
	self      *member
	place     *line.Place
	max       maximum

	outdated bool            // what is known must not be used: list first
	listed   []string        // the contenders by the last list, if the queue does not shrink; nil before
	grants   uint64          // of this process, before the last list was sent
	link     context.Context // the connection over which the place is known; see linkOf

	began time.Time // when the first wait began; zero before

	suspended bool // the span has recorded an interruption
	behind    bool // the driver's last answer was to wait

	awaited map[string]*predecessor // nil before the first wait, as is wake
	asked   uint64                  // how often awaited was brought up to date
	wake    chan struct{}
	own     *framework.Watch // on node; nil until it is set
	ownDue  time.Time        // when to set own
	data    []byte           // of node, read together with setting own
	changes *framework.Watch // on the folder, for drivers that wait for any change; may be nil
}

// enter joins the queue and returns when it has the lock. When its node or its session is
// gone it joins again: within the retry policy, and without limit once a node of it has
// waited, so that only the context ends a wait.
func (l *LockInternals) enter(ctx context.Context, e entry) (*hold, error) {
	var rejoins rejoining
	for {
		if ctx.Err() != nil {
			return nil, l.overtaken(ctx, e, withCause(ctx, rejoins.after))
		}
		h, a, err := l.enterByPolicy(ctx, e)
		switch {
		case err == nil:
			return h, nil
		case ctx.Err() != nil:
			return nil, l.overtaken(ctx, e, err)
		case !rejoins.allow(a.waitedSince(), err):
			return nil, err
		}
		attempt.Sleep(ctx, rejoins.pause(a.waitedSince()))
	}
}

// rejoining is what a caller that waits remembers of its attempts.
type rejoining struct {
	queued   bool  // an attempt has stood in the queue
	after    error // of the last attempt; nil before the first
	failures attempt.Pause
}

// allow reports whether another attempt follows one that has failed with this error, and has
// waited in the queue since then, or not at all if that is zero.
func (r *rejoining) allow(since time.Time, err error) bool {
	r.queued = r.queued || !since.IsZero()
	r.after = err
	return r.queued && outlasted(err)
}

// maxRejoinPause bounds the pause after an attempt that could not queue, as at a server without
// a quorum. It is how much later than the others a waiter may queue again.
const maxRejoinPause = time.Second

// pause returns the pause before the next attempt.
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
	return startsAgain(err) || errors.Is(err, errTurnLost) || framework.Retryable(err) || errors.Is(err, framework.ErrNotReadOnly)
}

// withCause returns why the context has ended, with the last error, if there was one.
func withCause(ctx context.Context, last error) error {
	if last == nil {
		return context.Cause(ctx)
	}
	return fmt.Errorf("%w; last error: %w", context.Cause(ctx), last)
}

// enterByPolicy makes attempts within the retry policy, until one gets a hold, has waited, or
// fails for another reason than the loss of its node. It does what retry.Do would do, and
// allocates nothing: nearly every acquisition needs one attempt.
func (l *LockInternals) enterByPolicy(ctx context.Context, e entry) (h *hold, a *acquisition, err error) {
	run := retry.Begin(l.client.RetryPolicy())
	for {
		h, a, err = l.enterOnce(ctx, e)
		// The requests of an attempt that fails otherwise have been repeated already.
		if !startsAgain(err) || a.hasWaited() || !pauseAgain(ctx, &run, err) {
			break
		}
	}
	if startsAgain(err) && ctx.Err() != nil {
		err = withCause(ctx, err)
	}
	run.Done(err)
	return h, a, err
}

// pauseAgain waits as the policy says. It reports whether another attempt may follow.
func pauseAgain(ctx context.Context, run *retry.Run, err error) bool {
	if ctx.Err() != nil || !run.AllowRetry(err, true) {
		return false
	}
	wait, allowed := run.Next(err)
	if allowed {
		attempt.Sleep(ctx, wait)
	}
	return allowed && ctx.Err() == nil
}

func startsAgain(err error) bool {
	return errors.Is(err, errOwnNodeGone) || errors.Is(err, ErrSequenceExhausted)
}

// waitedSince returns when the acquisition began to wait behind others, zero if it has not.
func (a *acquisition) waitedSince() time.Time {
	if a == nil {
		return time.Time{}
	}
	return a.began
}

func (a *acquisition) hasWaited() bool { return !a.waitedSince().IsZero() }

// enterOnce creates one node and takes it through the queue. If it fails in any way, it
// deletes the node. It returns the acquisition that had the node, if any.
func (l *LockInternals) enterOnce(ctx context.Context, e entry) (*hold, *acquisition, error) {
	var t *line.Try
	defer func() { l.line.Withdraw(t) }() // if it has not become an acquisition
	var err error
	if e.wait {
		err = l.client.BlockUntilConnected(ctx)
	} else {
		t, err = l.lookFirst(ctx, e.driver)
	}
	if err != nil {
		return nil, nil, err
	}
	session := l.client.Session()
	before, place := l.instant(), l.line.NewPlace()
	joined := false
	defer func() {
		if !joined { // even if the driver has panicked
			place.Leave(false)
		}
	}()
	node, err := l.create(ctx, session, e, place)
	if err != nil {
		// The session has ended between the look at it and the create.
		if errors.Is(err, framework.ErrSessionEnded) {
			err = nodeGone(err)
		}
		return nil, nil, err
	}
	a := l.newAcquisition(session, node, e, before, place)
	joined = true
	returned := false
	defer func() {
		if !returned { // the driver has panicked: the node must not stand in the way of others
			_ = a.leave(ctx, nil) // the panic is the error
		}
	}()
	a.join(before)
	l.line.Withdraw(t)
	h, err := a.internalLockLoop(ctx)
	returned = true
	if !e.wait {
		l.noteTry(err)
	}
	if err != nil {
		return nil, a, a.leave(ctx, err)
	}
	return h, a, nil
}

// crowd is the number of acquisitions of this client in one queue from which on a newcomer
// does not list the folder with its create: it will wait for one of them in any case.
const crowd = 16

// create has the driver create the node. The driver may list the folder in the same round trip.
func (l *LockInternals) create(ctx context.Context, session *framework.Session, e entry, place *line.Place) (LockNode, error) {
	driver, ok := e.driver.(newcomerDriver)
	if ok && driver.standsLast() && (place.Alone() || e.wait && l.line.Crowd() >= crowd) {
		return driver.createsWithoutList(ctx, l.client, session, l.basePath, l.cfg.data)
	}
	return e.driver.CreatesTheLock(ctx, l.client, session, l.basePath, l.cfg.data)
}

// newAcquisition returns the acquisition of a new node.
func (l *LockInternals) newAcquisition(session *framework.Session, node LockNode, e entry, before instant, place *line.Place) *acquisition {
	_, name := framework.SplitPath(node.Path)
	self := &member{place: place, session: session, proves: l.localReleaseProves(l.driver, name)}
	place.Owner, place.Data = self, string(l.cfg.data)
	a := &acquisition{
		l: l, session: session, node: node, self: self, name: name, entry: e, ownDue: time.Now().Add(ownDelay),
		grants: before.grants, link: before.link, place: place,
	}
	a.shrinking, _ = e.driver.(ShrinkingQueue)
	return a
}

// join takes a place in the line.
func (a *acquisition) join(before instant) {
	_, numbered := a.driver.(newcomerDriver)
	a.place.Join(line.Node{
		Name: a.name, Czxid: a.node.Stat.Czxid, History: a.l.unchanged(before), Moved: numbered && !standsLast(a.driver),
		List: a.node.Children, Link: before.link,
	})
	if a.shrinking == nil && a.node.Children != nil {
		a.listed = a.l.sorted(a.node.Children)
	}
	a.node.Children = nil // or each waiter would keep a list of all names in memory
}

// gone removes a contender whose node has been deleted.
func (a *acquisition) gone(name string) {
	a.forget(a.awaited[name])
	delete(a.awaited, name)
	// Another contender may have taken its place: only a new list shows that.
	if a.shrinking == nil || !a.shrinking.Shrinks(name) {
		a.requireNewList()
		return
	}
	a.l.line.Left(name)
}

// refusal returns the error of an acquisition that stands behind others. The cause is the
// end of its context, nil for a try.
func (a *acquisition) refusal(cause error) error {
	ahead := a.listed
	if a.shrinking != nil {
		ahead = a.place.Known()
	} else if i := slices.Index(ahead, a.name); i >= 0 {
		ahead = ahead[:i]
	}
	if len(ahead) == 0 {
		ahead = slices.Collect(maps.Keys(a.awaited))
	}
	return a.l.notAcquired(ahead, cause)
}

// internalLockLoop looks and waits until the node has the lock.
func (a *acquisition) internalLockLoop(ctx context.Context) (*hold, error) {
	// A node of another session would outlive ours, or vanish before it (CURATOR-604).
	if owner := a.node.Stat.EphemeralOwner; owner != a.session.ID() && !a.node.Persistent {
		return nil, fmt.Errorf("%w: %s belongs to session 0x%x, ours is %v",
			errOwnNodeGone, a.node.Path, uint64(owner), a.session)
	}
	if _, fixed := a.l.maxLeases.(FixedLeases); !fixed {
		var done context.CancelFunc
		ctx, done = context.WithCancel(ctx) // of the watch on the maximum
		defer done()
	}
	defer a.close()
	for {
		h, err := a.step(ctx)
		switch {
		case h != nil:
			return h, nil
		case err == nil:
		case ctx.Err() != nil && a.behind:
			return nil, a.refusal(ended(ctx))
		case a.hasWaited() && !startsAgain(err) && framework.Retryable(err):
			// The node keeps its place. Look again when there is a connection.
			a.requireNewList()
			attempt.Sleep(ctx, ownDelay)
			if err := a.l.client.BlockUntilConnected(ctx); err != nil && ctx.Err() == nil {
				return nil, err
			}
		default:
			return nil, err
		}
	}
}

// step looks once, and then takes the lock or waits for a reason to look again. It returns
// no hold and no error when it has waited.
func (a *acquisition) step(ctx context.Context) (*hold, error) {
	result, contenders, err := a.look(ctx)
	switch {
	case err != nil:
		return nil, err
	case result.GetsTheLock:
		h, err := a.grant(ctx)
		if h == nil && err == nil {
			// The connection was lost after the look. Look again over the next one.
			a.interrupted()
			a.requireNewList()
		}
		return h, err
	case !a.wait:
		return nil, a.refusal(nil)
	default:
		return nil, a.await(ctx, contenders, result.PathsToWatch)
	}
}

// grant makes the hold. It returns nil when the error policy would have ended the hold
// already. Under QuorumErrorPolicy the first hold of a session takes a round trip.
func (a *acquisition) grant(ctx context.Context) (*hold, error) {
	held, release, err := a.session.Hold(ctx, a.l.cfg.policy)
	if err != nil {
		return nil, err
	}
	// In a process that was paused the clock knows before the context does.
	over := !time.Now().Before(a.session.HoldDeadline(a.l.cfg.policy))
	select {
	case <-held.Done():
		over = true
	default:
	}
	if over {
		release()
		return nil, nil
	}
	a.self.grant.Store(grants.Add(1))
	a.self.granted.set()
	a.place.Granted()
	return newHold(held, release, a), nil
}

// leave deletes the node after a failure, and returns the failure.
func (a *acquisition) leave(ctx context.Context, cause error) error {
	a.self.leave() // first, as waiters of this process need not wait for the deletion
	defer a.own.Cancel()
	ctx, done := a.leaving(ctx)
	defer done()
	return attempt.TakeBack(ctx, a.l.client, a.node.Path, cause)
}

// leaving returns a context for the deletion of the node: ctx or, with a leave timeout, one
// that ends with the session.
func (a *acquisition) leaving(ctx context.Context) (context.Context, context.CancelFunc) {
	limit := a.l.cfg.leaveTimeout
	if limit == 0 {
		return ctx, func() {}
	}
	timed, done := context.WithTimeout(a.session.LossContext(), limit)
	return withValues(timed, ctx), done
}
