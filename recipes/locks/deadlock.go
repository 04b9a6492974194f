// SPDX-License-Identifier: Apache-2.0

package locks

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/callscope"
	"github.com/gocurator/curator/recipes/internal/attempt"
)

// ErrDeadlock reports that an acquisition of a lock made [WithDeadlockDetection] has closed a cycle of
// clients that wait for each other. The error also matches [ErrNotAcquired], and the error of the
// search, which describes the cycle. The lock is not held, and its node is gone or is being deleted in
// the background. Release what is held, and begin again.
var ErrDeadlock = errors.New("deadlock")

// WithDeadlockDetection makes an acquisition that has waited for d search for a deadlock, and again
// after each d. If there is one, and the acquisition is the one that has closed it, its error matches
// [ErrDeadlock]. An acquisition with [Lease.Context], as in the function of Do, is searched for; any
// other holds nothing, as far as its lock knows. A wait for another goroutine under [WithLocalHandoff] has
// no node, and is no part of a cycle. Default: no search.
//
// The function search is usually inspect.SearchDeadlock. It gets the client, the token that the
// acquisition will have, and d. It returns the deadlock, if there is one, or why it could not search,
// which is logged. One search of the locks that share the option is under way at a time.
func WithDeadlockDetection(
	d time.Duration, search func(ctx context.Context, client *framework.Framework, token int64, d time.Duration) (deadlock, err error),
) Option {
	turn := make(chan struct{}, 1)
	return optionFunc(func(c *config) error {
		switch {
		case d <= 0:
			return fmt.Errorf("WithDeadlockDetection(%v), expected more than 0", d)
		case search == nil:
			return errors.New("WithDeadlockDetection with a nil function, expected one such as inspect.SearchDeadlock")
		}
		c.deadlock = func(ctx context.Context, client *framework.Framework, token int64) (deadlock error) {
			select {
			case turn <- struct{}{}:
			case <-ctx.Done():
				return nil
			}
			defer func() { <-turn }()
			err := attempt.Guard(client, func() (err error) {
				deadlock, err = search(ctx, client, token, d)
				return err
			})
			if err != nil && ctx.Err() == nil {
				client.Logger().Warn("a search for deadlocks has failed", "error", err)
			}
			return deadlock
		}
		c.deadlockAfter = d
		return nil
	})
}

// detection searches for deadlocks while an acquisition waits.
type detection struct {
	l     *lock
	ctx   context.Context //nolint:containedctx // of one acquisition
	end   context.CancelCauseFunc
	token atomic.Int64 // of the node that waits; 0 before there is one
	timer *time.Timer
}

// detect begins to search, if the lock has the option and the context holds a lock. The acquisition goes on with the
// context that it returns, and calls stop in the end.
func (l *lock) detect(ctx context.Context, wait bool) (with context.Context, d *detection) {
	if l.cfg.deadlock == nil || !wait || callscope.Holder(ctx) == "" {
		return ctx, nil
	}
	d = &detection{l: l}
	d.ctx, d.end = context.WithCancelCause(ctx)
	d.timer = time.AfterFunc(l.cfg.deadlockAfter, d.run)
	return d.ctx, d
}

func (d *detection) run() {
	for d.ctx.Err() == nil {
		if token := d.token.Load(); token != 0 {
			if found := d.l.cfg.deadlock(d.ctx, d.l.client, token); found != nil {
				d.end(&deadlockError{found})
				return
			}
		}
		attempt.Sleep(d.ctx, d.l.cfg.deadlockAfter)
	}
}

// joins notes the node that waits.
func (d *detection) joins(token int64) {
	if d != nil {
		d.token.Store(token)
	}
}

// stop ends the search. One that is under way is not waited for: it may be slow to see the end of its context.
func (d *detection) stop() {
	if d != nil {
		d.end(nil)
		d.timer.Stop()
	}
}

// deadlockError is the cycle that an acquisition has closed.
type deadlockError struct{ cycle error }

func (e *deadlockError) Error() string {
	return ErrNotAcquired.Error() + ": " + ErrDeadlock.Error() + ": " + e.cycle.Error()
}

func (e *deadlockError) Unwrap() []error { return []error{ErrNotAcquired, ErrDeadlock, e.cycle} }
