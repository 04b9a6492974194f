// SPDX-License-Identifier: Apache-2.0

package queues

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/internal/attempt"
)

// Item is one item that a consumer has got.
type Item struct {
	Data []byte // which the caller may keep and change

	path  string
	ctx   context.Context //nolint:containedctx // it is what Context returns
	of    *delivery
	index int // in of.items

	failed  error
	refused error // of the last Transact

	// busy is held while a Transact is under way. It is a channel because its holder makes a request.
	busy chan struct{}
	live context.Context //nolint:containedctx // ends when the loop goes on
	end  context.CancelCauseFunc
}

func newItem(ctx context.Context, of *delivery, index int, data []byte) *Item {
	live, end := context.WithCancelCause(context.Background())
	return &Item{Data: data, path: of.path, ctx: ctx, of: of, index: index, busy: make(chan struct{}, 1), live: live, end: end}
}

// give yields the item, and ends what it has been given for.
func (i *Item) give(yield func(*Item, error) bool) (goesOn bool) {
	defer func() {
		i.end(errGoneOn)
		i.busy <- struct{}{} // a Transact that is under way ends first
		<-i.busy
	}()
	return yield(i, nil)
}

// Path returns the path of the item's znode. Items that were put together share one znode.
func (i *Item) Path() string { return i.path }

// Context returns the context of the loop's Items. With [WithLockPath] it also
// ends when the item may no longer be locked, with the [*framework.LostError] as
// its cause: another consumer may get the item.
func (i *Item) Context() context.Context { return i.ctx }

// Fail says that the item could not be consumed. Its [ErrorMode] says what then
// becomes of it. Without [WithLockPath] and [WithLateRemoval] it is lost. The error is logged.
// After a successful [Item.Transact] it is logged only.
func (i *Item) Fail(err error) {
	if err == nil {
		err = errors.New("no reason given")
	}
	i.failed = err
}

// Attempt returns the number of deliveries of the item, including this one. It needs no request.
//
// With [WithLockPath] it also counts consumers that have died. A consumer whose connection broke
// between the lock and the item counts as well. Without a lock path, it counts the consumers that
// have put the item back.
//
// The number has two parts. The Stat of the item's znode counts the children that it ever had, one
// for each lock. The count from before the item was put back is in the data behind the item, where
// Curator's consumers do not look. Curator's consumers are not counted. If one of them puts an item
// back, the count in the data stays, and the count in the Stat begins again.
func (i *Item) Attempt() int { return max(1, i.of.attempt(i.index)) }

// LastError returns the text of the error with which the item was last put back or moved to a
// dead letter folder, or "".
func (i *Item) LastError() string {
	if i.index > 0 {
		return ""
	}
	return i.of.notes.Error
}

// errGoneOn ends a Transact.
var errGoneOn = errors.New("the loop has gone on to another item, expected a call before that")

// Transact removes the item from the queue and applies ops, all or nothing, in one transaction. So
// results in ZooKeeper exist exactly once, even when the item is given to several consumers. Without
// ops it only removes the item. It needs [WithLockPath] or [WithLateRemoval], because otherwise the
// item was removed before its delivery.
//
// Call it before the loop goes on to the next item. ops must not name the znode of the item, its lock
// or znodes below them. [framework.WithMaxRequestSize] bounds the size of ops together with the
// queue's own operations.
//
// After a success the loop removes nothing more. After an error nothing was applied, and the item
// counts as failed with that error unless a later call succeeds. To remove the item without ops, for
// example after [framework.ErrNodeExists], call Transact again without ops.
//
// With a lock path a transaction is repeated when its reply is lost, and its outcome is then known.
// If [framework.OutcomeUnknown] is nevertheless true for the error, all operations may have been
// applied. Further calls return the same error. With a lock path the loop settles the transaction
// when it goes on, or the next consumer gets the item. Without a lock path, the item is given again
// if it is still there.
func (i *Item) Transact(ctx context.Context, ops ...framework.Op) error {
	what := "transact " + i.path
	select {
	case i.busy <- struct{}{}:
		defer func() { <-i.busy }()
	case <-i.live.Done():
		return wrap(what, errGoneOn)
	}
	switch {
	case i.live.Err() != nil:
		return wrap(what, errGoneOn)
	case ctx == nil:
		i.refused = attempt.ErrNilContext
		return wrap(what, i.refused)
	case ctx.Err() != nil && i.of.consumed() <= i.index && i.of.pending == nil:
		i.refused = attempt.Interrupted(ctx) // without a result the item must not be removed
		return wrap(what, i.refused)
	}
	ctx, cancel := while(ctx, i.live)
	defer cancel()
	err := i.transact(ctx, ops)
	if !errors.Is(err, errRemovedAlready) {
		i.refused = err
	}
	return wrap(what, err)
}

var (
	errRemovedBefore  = errors.New("the item was removed before it was given: Transact needs WithLockPath or WithLateRemoval")
	errRemovedAlready = errors.New("the item was removed by a Transact before")
)

func (i *Item) transact(ctx context.Context, ops []framework.Op) error {
	d := i.of
	switch {
	case d.c.q.cfg.lockPath == "" && !d.c.q.cfg.lateRemoval:
		return errRemovedBefore
	case d.consumed() > i.index:
		return errRemovedAlready
	case d.pending != nil:
		return i.refused // the loop settles it
	}
	for n, op := range ops {
		if err := d.mayTouch(op.Path()); err != nil {
			return fmt.Errorf("%w: operation %d: %w", framework.ErrInvalidOption, n, err)
		}
	}
	return d.transact(ctx, i.index, ops)
}

// mayTouch returns an error for a path that a transaction of the item must not name.
func (d *delivery) mayTouch(path string) error {
	own := []string{d.path}
	if d.locker != nil {
		own = append(own, d.lock, d.locker.witness)
	}
	if path == "" {
		return errors.New("no path, expected one of CreateOp, SetDataOp, DeleteOp or CheckOp with a path")
	}
	for _, p := range own {
		if path == p || strings.HasPrefix(path, p+"/") {
			return fmt.Errorf("%s belongs to the item, which the transaction removes by itself; expected other paths", path)
		}
	}
	return nil
}
