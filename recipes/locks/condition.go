package locks

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/gocurator/curator/framework"
)

// ErrNotHeld says that a condition was used without its lock: the lease is of another
// lock, or it has ended. The error then matches the reason too.
var ErrNotHeld = errors.New("this needs the condition's lock, which the lease does not hold")

// waiterName is what the nodes of a condition's waiters are named for.
const waiterName = "wait-"

// Condition lets the holder of a lock wait for what another holder will do.
// [Condition.Await] gives the lock back, waits for a signal, and takes the lock again. It
// is java.util.concurrent's Condition across processes and machines, as menagerie's
// ZkCondition was; Curator has none.
//
// A signal is for the waiter that has waited longest, and is not remembered when there is
// none. It is never lost on the way: if its waiter gives up, dies or loses its session
// before it has the lock again, the signal passes to the next waiter. The waiters woken by
// one [Condition.SignalAll] each join the lock's queue as soon as they hear of it, behind
// the contenders that are there already.
//
// Await may return without a signal, for example after the end of a session, in which a
// signal may have been missed. So it belongs in a loop around the condition itself:
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
// Layout: <path>/_c_<uuid>-wait-<10 digits>, ephemeral, below a container node whose data
// is the number of signals that their waiters have not taken yet, in decimal digits; no
// data is 0. As many waiters, from the first in the order of the digits, are signalled.
// Each waiter watches its own node and the one before it. The number changes only in
// transactions that check that the lock is held.
//
// It is safe for concurrent use. Two Conditions on one path and lock are the same.
type Condition struct {
	lock   InterProcessLock
	of     *LockInternals // lock's
	queue  *LockInternals // of the waiters
	client *framework.Framework
	path   string
}

// NewCondition returns the condition at path, for holders of this mutex. The path must
// not be the mutex's, nor below it: all children of that folder are contenders to Java.
// All users of the condition must name the same mutex. It checks its arguments and sends
// nothing.
func (m *InterProcessMutex) NewCondition(path string) (*Condition, error) {
	return newCondition(m, m.internals, path)
}

// NewCondition returns the condition at path, for holders of the write lock; see
// [InterProcessMutex.NewCondition]. A writer that was downgraded must release its read
// lease before it waits: no other writer could enter until then.
func (w *WriteLock) NewCondition(path string) (*Condition, error) {
	return newCondition(w, w.internals, path)
}

func newCondition(lock InterProcessLock, of *LockInternals, path string) (*Condition, error) {
	c := &Condition{lock: lock, of: of, client: of.client, path: path}
	driver := StandardLockInternalsDriver{StandardLockInternalsSorter{LockName: waiterName}}
	var err error
	c.queue, err = newInternals(spec{
		client: of.client, driver: driver, path: path, lockName: waiterName, maxLeases: signalCount{c},
		opts: named("condition", []Option{WithLockData(of.cfg.data)}),
	})
	if err != nil {
		return nil, err
	}
	if path == of.path || strings.HasPrefix(path, of.path+"/") {
		return nil, fmt.Errorf("locks: condition %s: expected a path that is not in the folder of its lock, %s", path, of.path)
	}
	return c, nil
}

// Path returns the path of the condition, the folder of its waiters.
func (c *Condition) Path() string { return c.path }

// Waiters returns the waiters, in the order in which they began to wait. Holds says that a
// waiter has been signalled and has not got the lock back yet; the signal has then replaced
// its Identity. Like [LockInternals.Participants], it needs no lock.
func (c *Condition) Waiters(ctx context.Context) ([]Participant, error) {
	return c.queue.Participants(ctx)
}

// Signal wakes the waiter that has waited longest, if there is one. The lease must hold the
// condition's lock, or the error matches [ErrNotHeld]. The waiter goes on when the lock has
// been released and its turn has come.
//
// Signal blocks until the server has confirmed it, or ctx ends. After a lost reply it is
// repeated and may wake one more. When it fails, [framework.OutcomeUnknown] reports whether
// a waiter may have been woken nevertheless.
func (c *Condition) Signal(ctx context.Context, lease *Lease) error { return c.signal(ctx, lease, 1) }

// SignalAll wakes all waiters; see [Condition.Signal]. It takes a round trip for each
// hundred of them. When it fails, some may have been woken.
func (c *Condition) SignalAll(ctx context.Context, lease *Lease) error {
	return c.signal(ctx, lease, math.MaxInt)
}

// Await releases the lock, waits for a signal, acquires the lock again and returns its
// new lease. Others may have held the lock in between, so the new token is greater than
// that of the given lease. Under [WithLocalHandoff] it may be the same, if all holds in
// between were of this process.
//
// The context bounds all of it together. It must not be derived from the lease, with
// which it would end. Inside [Do], use the context that Do was called with, give Await
// the lease from [LeaseFrom], and release the lease that it returns.
//
// Whatever happens, the given lease has been released when Await returns, and an error
// means that the caller does not hold the lock. It matches
//
//   - [ErrNotAcquired] and the context's cause, when that has ended;
//   - [ErrNotHeld] when the lease did not hold the lock in the first place, and
//     [ErrReentered] when it was not the only one;
//   - [LostError] when the lock was lost before the wait had begun.
//
// Nothing is left in the queue then, and a signal for this waiter passes to the next. For
// an error with [framework.OutcomeUnknown] that is not certain: the context has ended just
// when the signal was taken and the reply was lost.
func (c *Condition) Await(ctx context.Context, lease *Lease) (*Lease, error) {
	ctx, span := c.queue.telemetry.begin(ctx)
	again, err := c.await(ctx, lease, span)
	span.end(ctx, err)
	if err != nil {
		return nil, fmt.Errorf("locks: await %s: %w", c.path, joined(err, unsettled(lease.release(ctx))))
	}
	return again, nil
}

func (c *Condition) await(ctx context.Context, lease *Lease, span *acquireSpan) (*Lease, error) {
	lock, err := c.node(lease)
	switch {
	case err != nil:
		return nil, err
	case c.of.owned(ctx) == lease.hold:
		return nil, errors.New("the context ends with the lease, expected the one that the lease's was derived from")
	case lease.hold.isShared():
		return nil, fmt.Errorf("%w: other leases of its owner would keep the lock while this one waits", ErrReentered)
	}
	// While the lock is held, so that no signal can come between what the caller has
	// span and the wait.
	w, err := c.join(ctx, lease.hold.session, lock)
	if err != nil {
		return nil, awaitError(ctx, err)
	}
	span.waits(ctx)
	var again *Lease
	if err = lease.release(ctx); err == nil {
		err = w.wait(ctx)
	}
	if err == nil {
		again, err = w.takeAgain(ctx)
	}
	if err != nil {
		return nil, joined(awaitError(ctx, w.leave(ctx, err)), w.doubt)
	}
	return again, nil
}

// node returns the lock's node under this lease, which must hold it.
func (c *Condition) node(lease *Lease) (string, error) {
	if lease == nil || lease.hold.l.owner != c.of.owner {
		return "", fmt.Errorf("%w: expected a lease of %s", ErrNotHeld, c.of.path)
	}
	if err := lease.Err(); err != nil {
		return "", fmt.Errorf("%w: %w", ErrNotHeld, err)
	}
	_, name := framework.SplitPath(lease.hold.node.Path)
	return framework.JoinPath(c.of.path, name), nil
}

// isShared reports whether the hold has more than one lease.
func (h *hold) isShared() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.leases > 1
}
