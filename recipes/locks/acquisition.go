package locks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/retry"
)

// acquisition is one acquisition that has its node in the queue. What it knows of the queue
// it shares with the other acquisitions of the client, see [folder].
type acquisition struct {
	entry

	l         *LockInternals
	shrinking ShrinkingQueue // the driver, nil if it is none
	session   *framework.Session
	node      LockNode
	name      string
	self      *member
	folder    *folder
	max       maximum

	number uint64    // what is known counts if it is from this list or a newer one
	began  time.Time // to wait; zero before the first wait

	suspended bool // an interruption was told to the telemetry
	behind    bool // others, when the driver was last asked

	awaited map[string]*predecessor // nil before the first wait, as is wake
	wake    chan struct{}
	own     *framework.Watch // on node: tells of its deletion; nil while there is none
	ownDue  time.Time        // when there is to be one
	data    []byte           // of node, as read with own
	changes *framework.Watch // on the list of names, if the driver waits for that; may be nil
}

// enter joins the queue, and starts again from the beginning when its node or its
// session is gone: as the retry policy allows, and without end once it has stood in
// the queue, so that nothing but its context ends a wait.
func (l *LockInternals) enter(ctx context.Context, e entry) (*hold, error) {
	for {
		var a *acquisition
		var h *hold
		err := retry.Do(ctx, l.client.RetryPolicy(), func(ctx context.Context) (err error) {
			h, a, err = l.attempt(ctx, e)
			if startsAgain(err) && !a.hasWaited() {
				return err
			}
			return permanent(err)
		})
		switch {
		case err == nil:
			return h, nil
		case ctx.Err() != nil:
			return nil, l.overtaken(ctx, e, err)
		case !startsAgain(err) || !a.hasWaited():
			return nil, err
		}
		sleep(ctx, time.Until(a.began.Add(ownDelay))) // a node that goes at once is not made again at once
	}
}

func startsAgain(err error) bool {
	return errors.Is(err, errOwnNodeGone) || errors.Is(err, ErrSequenceExhausted)
}

// hasWaited reports whether the acquisition has stood in the queue behind others.
func (a *acquisition) hasWaited() bool { return a != nil && !a.began.IsZero() }

// attempt makes one node and takes it through the queue. Whichever way it fails,
// the node is deleted. It returns the acquisition that had the node, if any.
func (l *LockInternals) attempt(ctx context.Context, e entry) (*hold, *acquisition, error) {
	folder := l.openFolder()
	defer folder.close()
	var t *trial
	var err error
	if e.wait {
		err = l.client.BlockUntilConnected(ctx)
	} else {
		t, err = l.lookFirst(ctx, folder, e.driver)
	}
	if err != nil {
		return nil, nil, err
	}
	session := l.client.Session()
	node, list, err := l.create(ctx, folder, session, e)
	if err != nil {
		folder.withdraw(t)
		if errors.Is(err, framework.ErrSessionEnded) {
			err = nodeGone(err)
		}
		return nil, nil, err
	}
	a := l.newAcquisition(session, node, e, l.join(session, node.Path, t), list)
	h, err := a.internalLockLoop(ctx)
	if !e.wait {
		l.noteTry(err)
	}
	if err != nil {
		return nil, a, a.leave(ctx, err)
	}
	return h, a, nil
}

// create makes the node. The list is the one that the driver makes with it, if it does.
func (l *LockInternals) create(ctx context.Context, f *folder, session *framework.Session, e entry) (LockNode, *listing, error) {
	list, creates := f.begin(l.client), e.driver.CreatesTheLock
	if driver, ok := e.driver.(newcomerDriver); ok && driver.standsLast() && e.wait && f.isCrowded() {
		creates = driver.createsWithoutList // it will wait: a list that all newcomers share is enough
	}
	node, err := creates(ctx, l.client, session, l.basePath, l.cfg.data)
	return node, list, err
}

// newAcquisition returns the acquisition of a node that was created, maybe with a list.
func (l *LockInternals) newAcquisition(
	session *framework.Session, node LockNode, e entry, self *member, list *listing,
) *acquisition {
	a := &acquisition{
		l: l, session: session, node: node, self: self, folder: self.folder, name: self.name, entry: e,
		ownDue: time.Now().Add(ownDelay),
	}
	a.shrinking, _ = e.driver.(ShrinkingQueue)
	if node.Children != nil {
		a.folder.learn(list, node.Children)
		a.number = list.number
		a.node.Children = nil // or each waiter would keep a list of all names
		// A list that was begun later may have been sent before the node was created.
		if contenders, known := a.known(); known && !slices.Contains(contenders, a.name) {
			a.demand()
		}
	} else {
		a.demand()
	}
	return a
}

// close ends all waiting. The watch on our own node is left to the hold.
func (a *acquisition) close() {
	a.settle(nil)
	a.changes.Cancel()
}

// demand has what is known replaced by a list that is newer than this moment.
func (a *acquisition) demand() { a.number = a.folder.question() }

// known returns the contenders that the driver is asked about, or false if they have to
// be listed: those up to ours where the queue shrinks, and all of them otherwise.
func (a *acquisition) known() ([]string, bool) {
	contenders, known := a.folder.queue(a.l, a.number)
	if known && a.shrinking != nil {
		i, found := slices.BinarySearchFunc(contenders, a.name, a.driver.Compare)
		if found {
			i++
		}
		contenders = contenders[:i:i]
	}
	return contenders, known
}

// look asks the driver about what is known, and about a new list if there is none or
// if a new one may know better.
func (a *acquisition) look(ctx context.Context) (PredicateResults, []string, error) {
	for listed := false; ; listed = true {
		if contenders, known := a.known(); known {
			result, err := a.decide(ctx, contenders)
			if err != nil || result.GetsTheLock || listed || !a.isOutdated(result) {
				return result, contenders, err
			}
			a.demand()
		}
		if err := a.folder.list(ctx, a.l, a.number); err != nil {
			return PredicateResults{}, nil, err
		}
	}
}

// isOutdated reports whether those to wait for may have gone unnoticed. An acquisition of
// this process would have said so.
func (a *acquisition) isOutdated(result PredicateResults) bool {
	if a.shrinking == nil || !a.folder.isStale(a.order()) {
		return false
	}
	for _, name := range result.PathsToWatch {
		if a.companion(name) == nil {
			return true
		}
	}
	return false
}

func (a *acquisition) order() *order { return a.folder.orderOf(a.l) }

// companion returns the acquisition of this process with that name if its word that it
// has let go is enough.
func (a *acquisition) companion(name string) *member {
	if a.shrinking == nil {
		return nil
	}
	m := a.folder.member(name)
	if m == nil || m == a.self || m.unproven.Load() || !a.order().hears(name) {
		return nil
	}
	return m
}

// decide asks the driver, and does not believe everything.
func (a *acquisition) decide(ctx context.Context, contenders []string) (PredicateResults, error) {
	// After the list, in which others leave but nobody gets before ours: it is an
	// answer as of this moment. A change of either is a reason to look again.
	if err := a.max.read(ctx, a.l, a.wants); err != nil {
		return PredicateResults{}, err
	}
	if err := a.session.Err(); err != nil {
		return PredicateResults{}, nodeGone(err)
	}
	// After the contenders: whoever took one out of them knew of the end of ours before.
	if err := a.heedOwn(); err != nil {
		return PredicateResults{}, err
	}
	result, err := a.driver.GetsTheLock(contenders, a.name, a.max.n)
	if errors.Is(err, framework.ErrNoNode) {
		return PredicateResults{}, nodeGone(err)
	}
	if err != nil {
		return PredicateResults{}, err
	}
	if err := a.check(result, contenders); err != nil {
		return PredicateResults{}, fmt.Errorf("driver %T: %w", a.driver, err)
	}
	if a.behind = !result.GetsTheLock; a.behind {
		a.span.queued(ctx, contenders, a.name)
	}
	return result, nil
}

// gone takes a contender out whose node is not there any more.
func (a *acquisition) gone(name string) {
	a.awaited[name].cancel()
	delete(a.awaited, name)
	if a.shrinking == nil || !a.shrinking.Shrinks(name) {
		a.demand()
		return
	}
	a.folder.remove(a.order(), name)
}

// refusal is the error of an acquisition that others are before, nil for a context that
// has not ended.
func (a *acquisition) refusal(cause error) error {
	contenders := a.folder.lastKnown(a.l)
	if i := slices.Index(contenders, a.name); i >= 0 {
		contenders = contenders[:i]
	}
	return a.l.notAcquired(a.folder, contenders, cause)
}

func nodeGone(err error) error { return fmt.Errorf("%w: %w", errOwnNodeGone, err) }

// internalLockLoop waits for the turn of the node.
func (a *acquisition) internalLockLoop(ctx context.Context) (*hold, error) {
	if owner := a.node.Stat.EphemeralOwner; owner != a.session.ID() && !a.node.Persistent { // CURATOR-604
		return nil, fmt.Errorf("%w: %s belongs to session 0x%x, ours is %v",
			errOwnNodeGone, a.node.Path, uint64(owner), a.session)
	}
	ctx, done := context.WithCancel(ctx) // of the watch on the maximum
	defer done()
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
			// It goes on standing in the queue, and looks again when there is a connection.
			a.demand()
			sleep(ctx, ownDelay)
			if err := a.l.client.BlockUntilConnected(ctx); err != nil && ctx.Err() == nil {
				return nil, err
			}
		default:
			return nil, err
		}
	}
}

// step looks, and takes the lock or waits for a reason to look again. It returns nil
// when it has waited.
func (a *acquisition) step(ctx context.Context) (*hold, error) {
	result, contenders, err := a.look(ctx)
	switch {
	case err != nil:
		return nil, err
	case result.GetsTheLock:
		h, err := a.grant(ctx)
		if h == nil && err == nil {
			// The connection was lost since the look. Look again over the next one.
			a.interrupted()
			a.demand()
		}
		return h, err
	case !a.wait:
		return nil, a.refusal(nil)
	default:
		return nil, a.await(ctx, contenders, result.PathsToWatch)
	}
}

// grant makes the hold, or returns nil when the policy says that it would have
// ended already; it asks the clock too, as the timer of a process that was paused
// may be late. Under QuorumErrorPolicy the first hold of a session takes a round trip.
func (a *acquisition) grant(ctx context.Context) (*hold, error) {
	held, release, err := a.session.Hold(ctx, a.l.cfg.policy)
	if err != nil {
		return nil, err
	}
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
	a.self.granted.set()
	return newHold(held, release, a), nil
}

// leave takes the node out of the queue after a failure, and returns the failure.
func (a *acquisition) leave(ctx context.Context, cause error) error {
	a.self.letGo()
	defer a.self.part()
	defer a.own.Cancel()
	return giveUp(ctx, a.l.client, a.node.Path, cause)
}

// giveUp deletes a node after a failure, and returns the failure.
func giveUp(ctx context.Context, client *framework.Framework, path string, cause error) error {
	err := client.Delete(ctx, path, framework.Guaranteed())
	switch {
	case err == nil, errors.Is(err, framework.ErrNoNode),
		errors.Is(err, framework.ErrCleanupPending), errors.Is(err, framework.ErrClosed):
		return cause
	default:
		return fmt.Errorf("%w (and its node stays: %w)", cause, err)
	}
}

func permanent(err error) error {
	if err == nil {
		return nil
	}
	return backoff.Permanent(err)
}
