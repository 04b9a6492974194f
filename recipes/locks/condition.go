// SPDX-License-Identifier: Apache-2.0

package locks

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/gocurator/curator/recipes/internal/attempt"
	"github.com/gocurator/curator/recipes/locks/internal/waiters"
)

// ErrNotHeld reports that a condition was used without its lock: the lease is of another
// lock, or it has ended. In the second case the error also matches the lease's error.
var ErrNotHeld = errors.New("this needs the condition's lock, which the lease does not hold")

// Condition lets the holder of a lock wait for an action of another holder.
// [Condition.Await] gives the lock back, waits for a signal, and takes the lock again. It
// is java.util.concurrent's Condition across processes and machines, as menagerie's
// ZkCondition was; Curator has none.
//
// A signal is for the waiter that has waited longest. Without a waiter it has no effect. It
// does not go with its waiter: if that gives up, dies or loses its session before it has the
// lock again, the signal passes to the next waiter. It may be lost only when the context of
// the waiter ends while the signal is being taken; see [Condition.Await]. Each waiter woken by
// [Condition.SignalAll] joins the lock's queue when it learns of the signal, behind the
// contenders that are there already.
//
// Await may return without a signal, for example after the end of a session, when a signal
// may have been missed. So it belongs in a loop around the condition itself:
//
//	lease, err := mutex.Acquire(ctx)
//	for err == nil && !ready() {
//		lease, err = condition.Await(ctx, lease)
//	}
//	if err != nil {
//		return err // the lock is not held
//	}
//	defer lease.Release(ctx)
//
// Layout: <path>/_c_<uuid>-wait-<10 digits>, ephemeral, below a container node. The data of
// that node is the number of signals that waiters have not taken yet, in decimal digits; no
// data means 0. That many waiters, from the first in the order of the digits, are signalled.
// Each waiter watches its own node and the one before it. The number changes only in
// transactions that check that the lock is held.
//
// [InterProcessMutex.NewCondition] makes one. It is safe for concurrent use. Two Conditions on one path and lock are
// the same.
type Condition struct {
	lock    *lock
	queue   *lock // of the waiters
	waiters waiters.Folder
}

// NewCondition returns the condition at path, for holders of this mutex. The path must not
// be the mutex's or below it, because Java takes all children of that folder for
// contenders. All users of the condition must name the same mutex. It checks its arguments
// and sends nothing.
func (m *InterProcessMutex) NewCondition(path string) (*Condition, error) {
	return newCondition(m.lock, path)
}

// NewCondition returns the condition at path, for holders of the write lock; see
// [InterProcessMutex.NewCondition]. A writer that was downgraded must release its read
// lease before it waits: no other writer could enter until then.
func (w *WriteLock) NewCondition(path string) (*Condition, error) {
	return newCondition(w.lock, path)
}

func newCondition(of *lock, path string) (*Condition, error) {
	driver := StandardLockInternalsDriver{StandardLockInternalsSorter{LockName: waiters.Name}}
	folder := waiters.Folder{Client: of.client, Path: path, Order: driver, Data: of.cfg.data}
	queue, err := newLock(spec{
		client: of.client, driver: driver, path: path, lockName: waiters.Name, maxLeases: signalCount{folder},
		recipe: "condition", features: []feature{measured},
	}, nil)
	if err != nil {
		return nil, err
	}
	if path == of.path || strings.HasPrefix(path, of.path+"/") {
		return nil, fmt.Errorf("locks: condition %s: expected a path that is not in the folder of its lock, %s", path, of.path)
	}
	return &Condition{of, queue, folder}, nil
}

// Path returns the path of the condition, the folder of its waiters.
func (c *Condition) Path() string { return c.queue.path }

// Waiters returns the waiters, in the order in which they began to wait. Holds says that a
// waiter has been signalled and does not have the lock back yet; the signal has then
// replaced its Identity. Like [LockInternals.Participants], it takes no lock.
func (c *Condition) Waiters(ctx context.Context) ([]Participant, error) {
	return c.queue.Participants(ctx)
}

// Signal wakes the waiter that has waited longest, if there is one. The lease must hold the
// condition's lock, or the error matches [ErrNotHeld]. The waiter goes on when it has the
// lock again.
//
// Signal blocks until the server confirms it, or ctx ends. After a lost reply it is repeated
// and may wake one waiter more. When it fails, [framework.OutcomeUnknown] reports whether a
// waiter may have been woken nevertheless.
func (c *Condition) Signal(ctx context.Context, lease *Lease) error { return c.signal(ctx, lease, 1) }

// SignalAll wakes all waiters; see [Condition.Signal]. It takes a round trip for each
// hundred of them. When it fails, some may have been woken.
func (c *Condition) SignalAll(ctx context.Context, lease *Lease) error {
	return c.signal(ctx, lease, math.MaxInt)
}

// signal wakes the next n waiters.
func (c *Condition) signal(ctx context.Context, lease *Lease, n int) error {
	lock, err := c.node(lease)
	if err == nil {
		err = c.waiters.Signal(ctx, lock, n)
	}
	return attempt.Wrapf(err, "locks: signal %s", c.Path())
}

// Await releases the lock, waits for a signal, acquires the lock again and returns the new
// lease. Other owners may have held the lock in between, so the new token is greater than
// the old one. Under [WithLocalHandoff] the tokens may be equal, if all holds in between
// were of this process.
//
// The context bounds the whole call. It must not be derived from the lease, because it would
// end with the lease. Inside [Do], use the context that Do was called with, give Await the
// lease from [LeaseFrom], and release the lease that Await returns.
//
// When Await returns, the given lease has been released, unless ctx is nil: then nothing has
// been done. Any other error means that the caller does not hold the lock, unless other leases
// of its owner do. It matches
//
//   - [ErrNotAcquired] and the context's cause, when the context has ended;
//   - [ErrNotHeld] when the lease did not hold the lock;
//   - [ErrReentered] when it was not the only lease of its owner, which still holds the lock
//     with the others;
//   - [*LostError] when the lock was lost before the wait began.
//
// On failure Await leaves no node behind, and a signal for this waiter passes to the next. The
// exception is an error with [framework.OutcomeUnknown]: the context ended while the signal
// was being taken, and the signal may be lost.
func (c *Condition) Await(ctx context.Context, lease *Lease) (*Lease, error) {
	if ctx == nil {
		return nil, fmt.Errorf("locks: await %s: %w", c.Path(), attempt.ErrNilContext)
	}
	again, failure := (*Lease)(nil), error(nil)
	_ = c.queue.observed(ctx, c.Path(), func(ctx context.Context) error {
		if again, failure = c.await(ctx, lease); failure != nil {
			failure = fmt.Errorf("locks: await %s: %w", c.Path(), joined(failure, unsettled(lease.release(ctx))))
		}
		return failure
	})
	return again, failure
}

// await is Await without telemetry. On failure the lease may not have been released yet.
func (c *Condition) await(ctx context.Context, lease *Lease) (*Lease, error) {
	lock, err := c.node(lease)
	switch {
	case err != nil:
		return nil, err
	case c.lock.owned(ctx) == lease.hold:
		return nil, errors.New("the context ends with the lease, expected the one that the lease's was derived from")
	case lease.hold.isShared():
		return nil, fmt.Errorf("%w: other leases of its owner would keep the lock while this one waits", ErrReentered)
	}
	// The node is created while the lock is held, so that no signal can come between the
	// caller's look at its condition and the wait.
	w, err := c.waiters.Join(ctx, lease.hold.session, lock)
	if err != nil {
		return nil, awaitError(ctx, err)
	}
	c.queue.tellQueued(ctx, "", -1)
	// The lock must be free before the wait, or no holder could signal.
	var again *Lease
	if err = lease.release(ctx); err == nil {
		err = w.Wait(ctx)
	}
	if err == nil {
		again, err = c.takeAgain(ctx, w)
	}
	if err != nil {
		return nil, w.Leave(ctx, awaitError(ctx, err))
	}
	return again, nil
}

// takeAgain acquires the lock, and then removes the waiter's node and its signal. If the lock
// is lost in between, the signal may have been taken, so takeAgain acquires the lock again.
func (c *Condition) takeAgain(ctx context.Context, w *waiters.Waiter) (*Lease, error) {
	for {
		lease, err := c.lock.Acquire(ctx)
		if err != nil {
			return nil, err
		}
		if err = w.Take(ctx, func() (string, error) { return c.node(lease) }); err == nil {
			return lease, nil
		}
		err = joined(err, lease.release(ctx))
		var lost *LostError
		if !errors.As(err, &lost) {
			return nil, err
		}
	}
}

// node returns the path of the lock's node. The lease must hold the lock.
func (c *Condition) node(lease *Lease) (string, error) {
	if lease == nil || lease.hold.l.owner != c.lock.owner {
		return "", fmt.Errorf("%w: expected a lease of %s", ErrNotHeld, c.lock.path)
	}
	if err := lease.Err(); err != nil {
		return "", fmt.Errorf("%w: %w", ErrNotHeld, err)
	}
	return lease.hold.pathIn(c.lock), nil
}

// isShared reports whether the hold has more than one lease.
func (h *hold) isShared() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.leases > 1
}

// awaitError returns the reason for a failed Await.
func awaitError(ctx context.Context, err error) error {
	if ctx.Err() == nil || errors.Is(err, ErrNotAcquired) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrNotAcquired, ended(ctx))
}

// signalCount is the number of signals as the maximum of the waiters' queue, so that
// Participants shows a signalled waiter as one that holds.
type signalCount struct{ waiters.Folder }

// MaxLeases reads the number.
func (s signalCount) MaxLeases(ctx context.Context) (int, <-chan struct{}, error) {
	n, err := s.Signals(ctx)
	return n, nil, err
}
