// SPDX-License-Identifier: Apache-2.0

package locks

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/internal/attempt"
	"github.com/gocurator/curator/retry"
)

// ErrNotHeld reports that a condition was used without its lock: the lease is of another
// lock, or it has ended. In the second case the error also matches the lease's error.
var ErrNotHeld = errors.New("this needs the condition's lock, which the lease does not hold")

// waiterName is the name of the nodes of a condition's waiters, before the number.
const waiterName = "wait-"

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
// It is safe for concurrent use. Two Conditions on one path and lock are the same.
type Condition struct {
	lock   *lock
	queue  *lock // of the waiters
	client *framework.Framework
	path   string
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
	c := &Condition{lock: of, client: of.client, path: path}
	driver := StandardLockInternalsDriver{StandardLockInternalsSorter{LockName: waiterName}}
	var err error
	c.queue, err = newLock(spec{
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
		return nil, fmt.Errorf("locks: await %s: %w", c.path, attempt.ErrNilContext)
	}
	ctx, span := c.queue.telemetry.begin(ctx)
	defer span.abandon(ctx)
	again, err := c.await(ctx, lease, span)
	span.end(ctx, err)
	if err != nil {
		return nil, fmt.Errorf("locks: await %s: %w", c.path, joined(err, unsettled(lease.release(ctx))))
	}
	return again, nil
}

// await is Await without telemetry. On failure the lease may not have been released yet.
func (c *Condition) await(ctx context.Context, lease *Lease, span *acquireSpan) (*Lease, error) {
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
	w, err := c.join(ctx, lease.hold.session, lock)
	if err != nil {
		return nil, awaitError(ctx, err)
	}
	span.waits()
	// The lock must be free before the wait, or no holder could signal.
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

// node returns the path of the lock's node. The lease must hold the lock.
func (c *Condition) node(lease *Lease) (string, error) {
	if lease == nil || lease.hold.l.owner != c.lock.owner {
		return "", fmt.Errorf("%w: expected a lease of %s", ErrNotHeld, c.lock.path)
	}
	if err := lease.Err(); err != nil {
		return "", fmt.Errorf("%w: %w", ErrNotHeld, err)
	}
	_, name := framework.SplitPath(lease.hold.node.path)
	return framework.JoinPath(c.lock.path, name), nil
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

const (
	// signalMessage is written to a waiter's node, to fire the watch on it.
	signalMessage = "__SIGNAL__"

	// signalBatch is the number of waiters that one transaction signals at most.
	signalBatch = 100
)

// waiting is the content of a condition's folder: the waiters, and how many of them, from
// the first on, have been signalled.
//
// A signal adds one to the number. A waiter that has the lock again subtracts one and
// deletes its node together. A waiter that vanishes in any other way does not change the
// number, and so leaves its signal to the next.
type waiting struct {
	waiters []string
	signals int
	version int32 // of the number
}

// read makes the reads that come first, and returns the content of the folder. The error
// matches [framework.ErrNoNode] when there is no folder, and so no waiter.
func (c *Condition) read(ctx context.Context, first ...framework.Read) (waiting, error) {
	var children []string
	var data []byte
	var stat framework.Stat
	err := c.client.Pipeline(ctx, append(first,
		framework.ReadChildren(c.path, &children),
		framework.ReadData(c.path, &data, framework.StoringStatIn(&stat)))...)
	if err != nil {
		return waiting{}, err
	}
	signals, err := c.parse(data)
	return waiting{c.queue.line.Sorted(children), signals, stat.Version}, err
}

// parse reads the number of signals.
func (c *Condition) parse(data []byte) (int, error) {
	if len(data) == 0 {
		return 0, nil
	}
	n, err := strconv.ParseUint(string(data), 10, 31)
	if err != nil {
		return 0, fmt.Errorf("condition %s: data %.20q, expected a number of signals", c.path, data)
	}
	return int(n), nil
}

// signalCount is the number of signals as the maximum of the waiters' queue, so that
// Participants shows a signalled waiter as one that holds.
type signalCount struct{ c *Condition }

// MaxLeases reads the number.
func (s signalCount) MaxLeases(ctx context.Context) (int, <-chan struct{}, error) {
	data, err := s.c.client.Get(ctx, s.c.path)
	if errors.Is(err, framework.ErrNoNode) {
		return 0, nil, nil
	}
	if err != nil {
		return 0, nil, err
	}
	n, err := s.c.parse(data)
	return n, nil, err
}

// change sets the number of signals, together with other operations, if the lock is still
// held and the number is unchanged since it was read.
func (c *Condition) change(ctx context.Context, lock string, was waiting, signals int, more ...framework.Op) error {
	_, err := c.client.Transact(ctx, append([]framework.Op{
		framework.CheckOp(lock, framework.AnyVersion),
		framework.SetDataOp(c.path, strconv.AppendInt(nil, int64(signals), 10), framework.WithVersion(was.version)),
	}, more...)...)
	var failed *framework.OpError
	// The check of the lock's node has failed.
	if errors.Is(err, framework.ErrNoNode) && errors.As(err, &failed) && failed.Path == lock {
		return &LostError{Reason: framework.ReasonNodeDeleted}
	}
	return err
}

// signal wakes the next n waiters.
func (c *Condition) signal(ctx context.Context, lease *Lease, n int) error {
	lock, err := c.node(lease)
	for err == nil && n > 0 {
		var told int
		err = c.untilKnown(ctx, func(ctx context.Context) (err error) {
			told, err = c.tell(ctx, lock, min(n, signalBatch))
			return err
		})
		if told == 0 {
			break
		}
		n -= told
	}
	if err != nil {
		return fmt.Errorf("locks: signal %s: %w", c.path, err)
	}
	return nil
}

// untilKnown repeats a change whose outcome is unknown, or that another lease of the same hold
// has forestalled.
func (c *Condition) untilKnown(ctx context.Context, change func(ctx context.Context) error) error {
	return retry.Do(ctx, c.client.RetryPolicy(), func(ctx context.Context) error {
		err := change(ctx)
		if framework.OutcomeUnknown(err) || errors.Is(err, framework.ErrBadVersion) {
			return err
		}
		return permanent(err)
	})
}

// tell signals the next n waiters in one transaction, and returns how many there were.
func (c *Condition) tell(ctx context.Context, lock string, n int) (told int, err error) {
	for {
		now, err := c.read(ctx)
		if err != nil {
			return 0, absent(err)
		}
		signalled := min(now.signals, len(now.waiters))
		next := now.waiters[signalled:min(signalled+n, len(now.waiters))]
		if len(next) == 0 { // no waiter without a signal
			return 0, nil
		}
		touch := make([]framework.Op, len(next)) // fires the watches of the waiters
		for i, name := range next {
			touch[i] = framework.SetDataOp(framework.JoinPath(c.path, name), []byte(signalMessage))
		}
		// A missing node means that one of the waiters has just left: look again.
		err = c.change(ctx, lock, now, signalled+len(next), touch...)
		if !errors.Is(err, framework.ErrNoNode) {
			return len(next), err
		}
	}
}

// waiter is one call to Await whose node stands in the condition's queue.
type waiter struct {
	c       *Condition
	session *framework.Session
	path    string // of its node
	name    string
	own     *framework.Watch // on its node; nil before the first look
	gone    bool             // its node is gone
	now     waiting          // as of the last look; empty while the waiter sleeps
	doubt   error            // of a try to take the signal whose outcome is unknown
}

// join creates the node of a waiter. If there are more signals than waiters before it, the
// rest was for waiters that have gone, and join removes it.
func (c *Condition) join(ctx context.Context, session *framework.Session, lock string) (*waiter, error) {
	base, data := c.queue.basePath, c.queue.cfg.data
	node, err := c.queue.driver.CreatesTheLock(ctx, c.client, session, base, data)
	if err != nil {
		return nil, err
	}
	w := &waiter{c: c, session: session, path: node.Path}
	_, w.name = framework.SplitPath(node.Path)
	err = w.settling(ctx, func(ctx context.Context, place int) error {
		if place < 0 || w.now.signals <= place {
			return nil
		}
		err := c.change(ctx, lock, w.now, place)
		if err == nil {
			w.now.signals = place
		}
		return err
	})
	if err != nil {
		return nil, w.leave(ctx, err)
	}
	return w, nil
}

// settling looks and then calls fn to change what it has seen. It repeats both until the
// outcome is known and no other change has come between. place is the waiter's place in the
// queue, negative when its node is gone.
func (w *waiter) settling(ctx context.Context, fn func(ctx context.Context, place int) error) error {
	return w.c.untilKnown(ctx, func(ctx context.Context) error {
		if err := w.look(ctx); err != nil {
			return err
		}
		return fn(ctx, slices.Index(w.now.waiters, w.name))
	})
}

// look watches the waiter's node unless it is watched, and then reads the folder. So it finds
// every earlier signal for this waiter, and every later one wakes it.
func (w *waiter) look(ctx context.Context) (err error) {
	var watch []framework.Read
	if w.own == nil || fired(w.own) {
		watch = []framework.Read{framework.ReadData(w.path, nil, framework.Watched(&w.own))}
	}
	w.now, err = w.c.read(ctx, watch...)
	if errors.Is(err, framework.ErrNoNode) {
		w.gone, err = true, nil
	}
	return err
}

// wait returns nil when the waiter has been signalled, or may have been because its node or
// its session is gone. An outage does not end it: the node keeps its place.
func (w *waiter) wait(ctx context.Context) error {
	for {
		place := slices.Index(w.now.waiters, w.name)
		if w.gone || place < w.now.signals || w.isOver() {
			w.now = waiting{}
			return nil
		}
		err := w.sleep(ctx, place)
		if err == nil {
			err = w.look(ctx)
		}
		for framework.Retryable(err) && w.session.Err() == nil {
			attempt.Sleep(ctx, ownDelay)
			if err = w.c.client.BlockUntilConnected(ctx); err == nil {
				err = w.look(ctx)
			}
		}
		if err != nil && w.session.Err() == nil {
			return err
		}
	}
}

// isOver reports whether the session has ended, and so the node.
func (w *waiter) isOver() bool { return w.session.Err() != nil }

// sleep waits until the waiter's node or the one before it changes. A waiter that leaves may
// pass on its own signal, or one that was passed to it.
func (w *waiter) sleep(ctx context.Context, place int) error {
	var before <-chan struct{}
	if place > 0 {
		var watch *framework.Watch
		_, err := w.c.client.Get(ctx, framework.JoinPath(w.c.path, w.now.waiters[place-1]), framework.Watched(&watch))
		if err != nil {
			return absent(err)
		}
		defer watch.Cancel()
		before = watch.Fired()
	}
	w.now = waiting{} // or each of many waiters would keep the names of all
	select {
	case <-w.own.Fired():
	case <-before:
	case <-w.session.Done():
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrNotAcquired, ended(ctx))
	}
	return nil
}

// takeAgain acquires the lock, and then removes the waiter's node and its signal. If the lock
// is lost in between, the signal may have been taken, so takeAgain acquires the lock again.
func (w *waiter) takeAgain(ctx context.Context) (*Lease, error) {
	for {
		lease, err := w.c.lock.Acquire(ctx)
		if err != nil {
			return nil, err
		}
		if err = w.take(ctx, lease); err == nil {
			w.own.Cancel()
			return lease, nil
		}
		err = joined(err, lease.release(ctx))
		var lost *LostError
		if !errors.As(err, &lost) {
			return nil, err
		}
	}
}

// take takes the signal, if there is one.
func (w *waiter) take(ctx context.Context, lease *Lease) error {
	return w.settling(ctx, func(ctx context.Context, place int) error {
		lock, err := w.c.node(lease)
		switch {
		case err != nil:
			return err
		case place < 0: // the node went with its session, or by a try whose reply was lost
			w.doubt = nil
			return nil
		case place >= w.now.signals: // a wake-up without a signal: there is none to take
			return absent(w.c.client.Delete(ctx, w.path, framework.Guaranteed()))
		}
		err = w.c.change(ctx, lock, w.now, w.now.signals-1, framework.DeleteOp(w.path))
		if framework.OutcomeUnknown(err) {
			w.doubt = err
		}
		return absent(err)
	})
}

// leave deletes the node after a failure, and returns the failure.
func (w *waiter) leave(ctx context.Context, cause error) error {
	defer w.own.Cancel()
	return attempt.TakeBack(ctx, w.c.client, w.path, cause)
}
