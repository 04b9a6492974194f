// SPDX-License-Identifier: Apache-2.0

package locks

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/internal/attempt"
	"github.com/gocurator/curator/retry"
)

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
	return retry.Do(ctx, w.c.client.RetryPolicy(), func(ctx context.Context) error {
		if err := w.look(ctx); err != nil {
			return permanent(err)
		}
		err := fn(ctx, slices.Index(w.now.waiters, w.name))
		if framework.OutcomeUnknown(err) || errors.Is(err, framework.ErrBadVersion) {
			return err
		}
		return permanent(err)
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
			w.forget()
			return nil
		}
		err := w.sleep(ctx, place)
		if err == nil {
			err = w.look(ctx)
		}
		for framework.Retryable(err) && !w.isOver() {
			attempt.Sleep(ctx, ownDelay)
			if err = w.c.client.BlockUntilConnected(ctx); err == nil {
				err = w.look(ctx)
			}
		}
		if err != nil && !w.isOver() {
			return err
		}
	}
}

// forget drops what the last look has seen, so that many waiters do not each keep the names
// of all.
func (w *waiter) forget() { w.now = waiting{} }

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
	w.forget()
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
