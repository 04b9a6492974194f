package locks

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/retry"
)

// LockInternals is the one implementation of all locks: a queue of ephemeral
// sequential nodes below a path, in which each waits for one before it. It ports
// the attemptLock and internalLockLoop of Curator's class of that name, and differs
// where ARCHITECTURE.md says so.
//
// What a recipe adds is its [LockInternalsDriver]. A LockInternals is safe for
// concurrent use. It holds no state of any acquisition, but for what goroutines that
// share it wait for under [WithLocalHandoff].
type LockInternals struct {
	client    *framework.Framework
	driver    LockInternalsDriver
	path      string // the folder
	fullPath  string // of the folder, at the server
	basePath  string // what a node's name begins with, before the protection
	owner     any    // the ownerKey of its holds
	maxLeases MaxLeases
	wants     int  // leases that one owner is out for together; fewer than that may not be the maximum
	reenters  bool // whether ownership in a context counts
	cfg       config
	orderKey  any     // of those who share what is known of the queue
	failed    *moment // when a try has failed last, unset if it has succeeded since
	telemetry *telemetry
	handoff   *handoff // nil if every hold has a node of its own
}

// NewLockInternals returns a lock at path whose nodes are named for lockName, and
// which up to maxLeases acquisitions may hold at once. A context that carries
// ownership re-enters, whatever maxLeases. It checks its arguments and sends
// nothing.
func NewLockInternals(
	client *framework.Framework, driver LockInternalsDriver, path, lockName string, maxLeases int, opts ...Option,
) (*LockInternals, error) {
	l, err := newInternals(client, driver, path, lockName, FixedLeases(maxLeases), opts)
	if err != nil {
		return nil, err
	}
	l.reenters = true
	if l.cfg.handoff > 1 {
		if maxLeases != 1 {
			return nil, fmt.Errorf("locks: %s: %w", path, errHandoffOfMany)
		}
		l.handoff = &handoff{most: l.cfg.handoff}
	}
	return l, nil
}

// newInternals returns a lock that does not re-enter.
func newInternals(
	client *framework.Framework, driver LockInternalsDriver, path, lockName string, maxLeases MaxLeases, opts []Option,
) (*LockInternals, error) {
	fixed, isFixed := maxLeases.(FixedLeases)
	switch {
	case client == nil:
		return nil, errors.New("locks: client nil, expected a started framework client")
	case driver == nil:
		return nil, errors.New("locks: driver nil, expected one such as StandardLockInternalsDriver")
	case maxLeases == nil:
		return nil, errors.New("locks: maxLeases nil, expected FixedLeases or another source")
	case isFixed && fixed < 1:
		return nil, fmt.Errorf("locks: maxLeases %d, expected 1 or more", fixed)
	}
	if err := framework.ValidatePath(path); err != nil {
		return nil, fmt.Errorf("locks: %w", err)
	}
	if lockName == "" || strings.Contains(lockName, "/") {
		return nil, fmt.Errorf("locks: lock name %q, expected one without a slash, such as \"lock-\"", lockName)
	}
	basePath := framework.JoinPath(path, lockName)
	if err := framework.ValidatePath(basePath + "0"); err != nil {
		return nil, fmt.Errorf("locks: lock name %q: %w", lockName, err)
	}
	cfg, err := newConfig(client, opts)
	if err != nil {
		return nil, fmt.Errorf("locks: %s: %w", path, err)
	}
	var seen *telemetry
	if !cfg.unobserved {
		if seen, err = newTelemetry(client, cfg.recipe, path); err != nil {
			return nil, err
		}
	}
	l := &LockInternals{
		client: client, driver: driver, path: path, fullPath: client.FullPath(path), basePath: basePath, maxLeases: maxLeases, wants: 1, cfg: cfg,
		owner: ownerKey{client.WithoutNamespace(), client.FullPath(basePath)}, failed: new(moment), telemetry: seen,
	}
	l.orderKey = orderKey{driver, isFixed}
	if !reflect.ValueOf(driver).Comparable() {
		l.orderKey = l // it shares with no other
	}
	return l, nil
}

// orderKey tells those apart who sort the names in a folder, and draw conclusions from
// the end of one, in different ways.
type orderKey struct {
	driver LockInternalsDriver
	fixed  bool
}

// Path returns the lock's folder.
func (l *LockInternals) Path() string { return l.path }

// Acquire blocks until the lock is held or the context ends; see
// [InterProcessMutex.Acquire] for the contract.
func (l *LockInternals) Acquire(ctx context.Context) (*Lease, error) { return l.attemptLock(ctx, true) }

// TryAcquire acquires the lock if it is free and does not wait for it; see
// [InterProcessMutex.TryAcquire] for the contract.
func (l *LockInternals) TryAcquire(ctx context.Context) (*Lease, error) {
	return l.attemptLock(ctx, false)
}

// attemptLock re-enters, or joins the queue until it gets through.
func (l *LockInternals) attemptLock(ctx context.Context, wait bool) (*Lease, error) {
	if ctx == nil {
		return nil, fmt.Errorf("locks: acquire %s: %w", l.path, errNilContext)
	}
	if err := l.refuseReentry(ctx); err != nil {
		return nil, fmt.Errorf("locks: acquire %s: %w", l.path, err)
	}
	if h := l.owned(ctx); h != nil && l.reenters {
		lease, err := h.reenter()
		if err != nil {
			return nil, fmt.Errorf("locks: acquire %s again: %w", l.path, err)
		}
		lease.via = l
		return lease, nil
	}
	ctx, seen := l.telemetry.begin(ctx)
	h, err := l.take(ctx, wait, seen)
	seen.end(ctx, err)
	if err != nil {
		return nil, l.acquireError(ctx, l.path, err)
	}
	return h.newLease(), nil
}

// take gets a hold from another goroutine or from the queue.
func (l *LockInternals) take(ctx context.Context, wait bool, seen *acquisition) (*hold, error) {
	if l.handoff != nil {
		return l.handoff.take(ctx, l, wait, seen)
	}
	return l.enter(ctx, wait, seen)
}

// enter joins the queue, and starts again from the beginning when its node or its
// session is gone: as the retry policy allows, and without end once it has stood in
// the queue, so that nothing but its context ends a wait.
func (l *LockInternals) enter(ctx context.Context, wait bool, seen *acquisition) (*hold, error) {
	for {
		var q *queued
		var h *hold
		err := retry.Do(ctx, l.client.RetryPolicy(), func(ctx context.Context) (err error) {
			h, q, err = l.attempt(ctx, wait, seen)
			if startsAgain(err) && !q.hasWaited() {
				return err
			}
			return permanent(err)
		})
		switch {
		case err == nil:
			return h, nil
		case ctx.Err() != nil:
			return nil, l.overtaken(ctx, err)
		case !startsAgain(err) || !q.hasWaited():
			return nil, err
		}
		sleep(ctx, time.Until(q.began.Add(ownDelay))) // a node that goes at once is not made again at once
	}
}

// overtaken returns the error of an acquisition whose context has ended. One that has not
// come to look may know all the same that a contender of this process is in the way.
func (l *LockInternals) overtaken(ctx context.Context, err error) error {
	maxLeases, fixed := l.maxLeases.(FixedLeases)
	if errors.Is(err, ErrNotAcquired) || !fixed || !l.standsLast() {
		return err
	}
	folder := l.openFolder()
	defer folder.close()
	contenders := slices.DeleteFunc(folder.alive(), func(name string) bool { return !l.driver.Contends(name) })
	slices.SortFunc(contenders, l.driver.Compare)
	if l.admits(folder, contenders, nil, int(maxLeases)) {
		return err
	}
	return l.notAcquired(folder, contenders, ended(ctx))
}

// standsLast reports whether a newcomer stands behind all contenders.
func (l *LockInternals) standsLast() bool {
	_, shrinking := l.driver.(ShrinkingQueue)
	driver, ok := l.driver.(newcomerDriver)
	return shrinking && (!ok || driver.standsLast())
}

func startsAgain(err error) bool {
	return errors.Is(err, errOwnNodeGone) || errors.Is(err, ErrSequenceExhausted)
}

// hasWaited reports whether the acquisition has stood in the queue behind others.
func (q *queued) hasWaited() bool { return q != nil && !q.began.IsZero() }

// attempt makes one node and takes it through the queue. Whichever way it fails,
// the node is deleted. It returns the acquisition that had the node, if any.
func (l *LockInternals) attempt(ctx context.Context, wait bool, seen *acquisition) (*hold, *queued, error) {
	folder := l.openFolder()
	defer folder.close()
	var t *trial
	var err error
	if wait {
		err = l.client.BlockUntilConnected(ctx)
	} else {
		t, err = l.lookFirst(ctx, folder)
	}
	if err != nil {
		return nil, nil, err
	}
	session := l.client.Session()
	node, list, err := l.create(ctx, folder, session, wait)
	if err != nil {
		folder.withdraw(t)
		if errors.Is(err, framework.ErrSessionEnded) {
			err = nodeGone(err)
		}
		return nil, nil, err
	}
	q := l.newQueued(session, node, seen, l.join(session, node.Path, t), list)
	h, err := q.internalLockLoop(ctx, wait)
	if !wait {
		l.noteTry(err)
	}
	if err != nil {
		return nil, q, q.leave(ctx, err)
	}
	return h, q, nil
}

// create makes the node. The list is the one that the driver makes with it, if it does.
func (l *LockInternals) create(ctx context.Context, f *folder, session *framework.Session, wait bool) (LockNode, *listing, error) {
	list, creates := f.begin(l.client), l.driver.CreatesTheLock
	if driver, ok := l.driver.(newcomerDriver); ok && driver.standsLast() && wait && f.isCrowded() {
		creates = driver.createsWithoutList // it will wait: a list that all newcomers share is enough
	}
	node, err := creates(ctx, l.client, session, l.basePath, l.cfg.data)
	return node, list, err
}

// tryMemory is for how long a try that has failed makes the next one look before it
// creates a node.
const tryMemory = 10 * time.Second

func (l *LockInternals) noteTry(err error) {
	switch {
	case err == nil:
		l.failed.clear()
	case errors.Is(err, ErrNotAcquired):
		l.failed.set()
	}
}

// lookFirst has a try fail before it creates a node if a contender is known to be in the
// way: a node that cannot get the lock would be in the way of others. If one may be there,
// it asks for a list, which costs a read and not two writes; so it does without a
// connection, as a read is bounded and says why there is none.
func (l *LockInternals) lookFirst(ctx context.Context, f *folder) (*trial, error) {
	connected := l.client.State().IsConnected() && l.client.Session() != nil
	if !l.standsLast() && connected {
		return nil, nil //nolint:nilnil // without an order a newcomer's place is not known
	}
	if !connected {
		if _, err := l.client.Children(ctx, l.path); err != nil && !errors.Is(err, framework.ErrNoNode) {
			return nil, err
		}
		if !l.standsLast() {
			return nil, nil //nolint:nilnil // as above
		}
	}
	maxLeases, err := l.currentMax(ctx)
	if err != nil {
		return nil, err
	}
	_, lockName := framework.SplitPath(l.basePath)
	t := &trial{lockName}
	if !l.failed.within(tryMemory) {
		if l.admits(f, nil, f.announce(t), maxLeases) {
			return t, nil
		}
		f.withdraw(t)
	}
	contenders, err := l.listed(ctx, f)
	if err != nil {
		return nil, err
	}
	if l.admits(f, contenders, f.announce(t), maxLeases) {
		return t, nil
	}
	f.withdraw(t)
	l.failed.set()
	return nil, l.notAcquired(f, contenders, nil)
}

// listed returns the contenders by a list that is newer than this moment.
func (l *LockInternals) listed(ctx context.Context, f *folder) ([]string, error) {
	for {
		number := f.question()
		err := f.list(ctx, l, number)
		if errors.Is(err, framework.ErrNoNode) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		if contenders, known := f.queue(l, number); known {
			return contenders, nil
		}
	}
}

// internalLockLoop waits for the turn of the node.
func (q *queued) internalLockLoop(ctx context.Context, wait bool) (*hold, error) {
	if owner := q.node.Stat.EphemeralOwner; owner != q.session.ID() && !q.node.Persistent { // CURATOR-604
		return nil, fmt.Errorf("%w: %s belongs to session 0x%x, ours is %v",
			errOwnNodeGone, q.node.Path, uint64(owner), q.session)
	}
	ctx, done := context.WithCancel(ctx) // of the watch on the maximum
	defer done()
	defer q.close()
	for {
		h, err := q.step(ctx, wait)
		switch {
		case h != nil:
			return h, nil
		case err == nil:
		case ctx.Err() != nil && q.behind:
			return nil, q.refusal(ended(ctx))
		case q.hasWaited() && !startsAgain(err) && framework.Retryable(err):
			// It goes on standing in the queue, and looks again when there is a connection.
			q.demand()
			sleep(ctx, ownDelay)
			if err := q.l.client.BlockUntilConnected(ctx); err != nil && ctx.Err() == nil {
				return nil, err
			}
		default:
			return nil, err
		}
	}
}

// step looks, and takes the lock or waits for a reason to look again. It returns nil
// when it has waited.
func (q *queued) step(ctx context.Context, wait bool) (*hold, error) {
	result, contenders, err := q.look(ctx)
	switch {
	case err != nil:
		return nil, err
	case result.GetsTheLock:
		h, err := q.grant(ctx)
		if h == nil && err == nil {
			// The connection was lost since the look. Look again over the next one.
			q.interrupted()
			q.demand()
		}
		return h, err
	case !wait:
		return nil, q.refusal(nil)
	default:
		return nil, q.await(ctx, contenders, result.PathsToWatch)
	}
}

// grant makes the hold, or returns nil when the policy says that it would have
// ended already; it asks the clock too, as the timer of a process that was paused
// may be late. Under QuorumErrorPolicy the first hold of a session takes a round trip.
func (q *queued) grant(ctx context.Context) (*hold, error) {
	held, release, err := q.session.Hold(ctx, q.l.cfg.policy)
	if err != nil {
		return nil, err
	}
	over := !time.Now().Before(q.session.HoldDeadline(q.l.cfg.policy))
	select {
	case <-held.Done():
		over = true
	default:
	}
	if over {
		release()
		return nil, nil
	}
	q.self.granted.set()
	return newHold(held, release, q), nil
}

// leave takes the node out of the queue after a failure, and returns the failure.
func (q *queued) leave(ctx context.Context, cause error) error {
	q.self.letGo()
	defer q.self.part()
	defer q.own.Cancel()
	return giveUp(ctx, q.l.client, q.node.Path, cause)
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

// sorted returns those of the children that contend in the order of the queue.
func (l *LockInternals) sorted(children []string, contends func(string) bool) []string {
	contenders := slices.DeleteFunc(children, func(name string) bool { return !contends(name) })
	slices.SortFunc(contenders, l.driver.Compare)
	return contenders
}

func permanent(err error) error {
	if err == nil {
		return nil
	}
	return backoff.Permanent(err)
}
