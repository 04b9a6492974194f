package locks

import (
	"context"
	"errors"
	"fmt"
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
	return &LockInternals{
		client: client, driver: driver, path: path, fullPath: client.FullPath(path), basePath: basePath, maxLeases: maxLeases, wants: 1, cfg: cfg,
		owner: ownerKey{client.WithoutNamespace(), client.FullPath(basePath)}, telemetry: seen,
	}, nil
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
		return nil, acquireError(ctx, l.path, err)
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

// enter joins the queue, and starts again from the beginning, as the retry policy
// allows, when its node or its session is gone.
func (l *LockInternals) enter(ctx context.Context, wait bool, seen *acquisition) (h *hold, err error) {
	err = retry.Do(ctx, l.client.RetryPolicy(), func(ctx context.Context) (err error) {
		h, err = l.attempt(ctx, wait, seen)
		if errors.Is(err, errOwnNodeGone) || errors.Is(err, ErrSequenceExhausted) {
			return err
		}
		return permanent(err)
	})
	return h, err
}

// attempt makes one node and takes it through the queue. Whichever way it fails,
// the node is deleted.
func (l *LockInternals) attempt(ctx context.Context, wait bool, seen *acquisition) (*hold, error) {
	if err := l.client.BlockUntilConnected(ctx); err != nil {
		return nil, err
	}
	session := l.client.Session()
	node, err := l.driver.CreatesTheLock(ctx, l.client, session, l.basePath, l.cfg.data)
	if errors.Is(err, framework.ErrSessionEnded) {
		return nil, fmt.Errorf("%w: %w", errOwnNodeGone, err)
	}
	if err != nil {
		return nil, err
	}
	q := l.newQueued(session, node, seen)
	h, err := q.internalLockLoop(ctx, wait)
	if err != nil {
		return nil, q.leave(ctx, err)
	}
	return h, nil
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
		result, err := q.look(ctx)
		switch {
		case err != nil:
			return nil, err
		case result.GetsTheLock:
			if h, err := q.grant(ctx); h != nil || err != nil {
				return h, err
			}
			// The connection was lost since the look. Look again over the next one.
			q.interrupted()
		case !wait:
			return nil, fmt.Errorf("%w: it is held", ErrNotAcquired)
		default:
			if err := q.await(ctx, result.PathsToWatch); err != nil {
				return nil, err
			}
		}
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
