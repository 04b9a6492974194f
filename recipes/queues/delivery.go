// SPDX-License-Identifier: Apache-2.0

package queues

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/internal/attempt"
)

// delivery is a znode whose items are given to a loop, and what becomes of it.
type delivery struct {
	c          *consumer
	name, path string
	items      [][]byte
	notes      notes
	stat       framework.Stat // with the version that this consumer has written last

	locker *locker // nil without a lock
	lock   string

	begun   bool           // the loop gets the items
	given   int            // the items before it were given to the loop
	from    int            // the items before it were consumed
	kept    int            // the znode has the items from here on
	failure error          // of the item at from, which is put back or moved
	pending []framework.Op // a Transact whose outcome is unknown
	stays   bool           // the znode stays in the list
}

// removed takes down that the znode has only the items from n on.
func (d *delivery) removed(n int) { d.from, d.kept, d.failure = n, n, nil }

// claims is how many locks the znode ever had: the server counts changes of its children.
func (d *delivery) claims() int {
	return int((uint32(d.stat.Cversion) + uint32(d.stat.NumChildren)) / 2) //nolint:gosec // counts that wrap around
}

// attempt is how many times an item was given, if it is given now.
func (d *delivery) attempt(index int) int {
	n := d.notes.attempts(index) + d.claims()
	if d.locker == nil {
		n++ // this consumer has no lock that would count
	}
	return n
}

// data returns what a znode with the items from one to another has. since is how many locks it had.
func (d *delivery) data(from, to, since int, failure error) []byte {
	n := notes{Attempts: make([]int, to-from)}
	for i := range n.Attempts {
		n.Attempts[i] = d.attempt(from+i) - since
		if from+i >= d.given {
			n.Attempts[i]-- // it was not given now
		}
	}
	switch {
	case failure != nil:
		n.Error = fmt.Sprint(failure) // which survives a method Error that panics, as on a nil pointer
	case from == 0:
		n.Error = d.notes.Error
	}
	return encode(d.items[from:to], n, d.c.q.client.MaxRequestSize()-besideData)
}

// besideData bounds what a transaction of an item has beside the data of a znode, in bytes.
const besideData = 4 << 10

var errSpent = errors.New("no consumer has finished the item")

// give yields the items until the loop is left, or the rest must not be given now.
func (d *delivery) give(ctx context.Context, yield func(*Item, error) bool) (left bool) {
	d.begun = true
	most := d.c.q.cfg.maxAttempts
	for i, data := range d.items {
		if tried := d.attempt(i) - 1; most > 0 && tried >= most {
			d.failure = fmt.Errorf("%w in %d attempts", errSpent, tried)
			if last := d.notes.Error; i == 0 && last != "" {
				d.failure = fmt.Errorf("%w, the last known error: %s", d.failure, last)
			}
			d.c.note(d.path, d.failure)
			return false
		}
		d.given = i + 1
		if !d.isGone() {
			data = bytes.Clone(data) // the znode may be written again, without what the caller changes
		}
		item := newItem(ctx, d, i, data)
		goesOn := item.give(yield)
		failure := cmp.Or(item.failed, item.refused)
		switch {
		case d.pending != nil:
			d.failure = failure
			return !goesOn
		case !goesOn:
			return true
		case d.from > i:
			d.c.note(d.path, failure)
		case failure != nil && ctx.Err() != nil:
			return false // it was interrupted
		case failure != nil && d.c.q.cfg.errorMode == Requeue:
			d.c.note(d.path, failure)
			d.failure = failure
			return false
		default:
			d.c.note(d.path, failure)
			d.from = i + 1
		}
	}
	return false
}

// transact removes the items up to one from the znode and applies ops.
func (d *delivery) transact(ctx context.Context, index int, ops []framework.Op) error {
	version := framework.WithVersion(d.stat.Version)
	last := index+1 == len(d.items)
	removal := framework.DeleteOp(d.path, version)
	if !last {
		removal = framework.SetDataOp(d.path, d.data(index+1, len(d.items), d.claims(), nil), version)
	}
	all := slices.Concat([]framework.Op{removal}, ops)
	var err error
	switch l := d.locker; {
	case l == nil:
		err = unchanged(ctx, d.c.q.client, d.path, &d.stat, func() error {
			_, err := d.c.q.client.Transact(ctx, all...)
			return err
		})
	case last:
		all = slices.Concat([]framework.Op{framework.DeleteOp(l.claimOf(d.path))}, all, []framework.Op{framework.DeleteOp(d.lock)})
		err = l.do(ctx, all...)
	default:
		all = slices.Concat([]framework.Op{framework.CheckOp(l.claimOf(d.path), framework.AnyVersion)}, all)
		err = l.do(ctx, all...)
	}
	switch {
	case err == nil:
		d.transacted(index)
	case framework.OutcomeUnknown(err):
		d.pending = all
	}
	return err
}

// transacted takes down that a Transact has removed an item.
func (d *delivery) transacted(index int) {
	d.removed(index + 1)
	d.stat.Version++
	d.pending = nil
}

// isGone reports whether a Transact has removed the znode.
func (d *delivery) isGone() bool { return d.kept > 0 && d.kept == len(d.items) }

// settled repeats a Transact whose outcome is unknown until it is known, or fails.
func (d *delivery) settled(ctx context.Context, l *locker) error {
	err := l.do(ctx, d.pending...)
	switch {
	case err == nil:
		d.transacted(d.given - 1)
		return nil
	case l.inDoubt, mayPass(ctx, err), errors.Is(err, errOver):
		return err
	default: // it was not applied, the item has failed
		d.pending = nil
		return nil
	}
}

// finishLocked does what has to be done with the znode and unlocks it. It reports whether it took the
// znode out of the list and changed nothing else there. It is repeated until it returns no error.
func (d *delivery) finishLocked(ctx context.Context, l *locker, path, lock string) (took bool, err error) {
	if d.pending != nil {
		if err := d.settled(ctx, l); err != nil {
			return false, err
		}
	}
	if d.isGone() {
		return true, nil
	}
	ops, takes, err := d.ending(ctx)
	if err != nil {
		return false, err
	}
	applied, err := l.finish(ctx, path, lock, ops...)
	return applied && takes, err
}

// finishUnlocked is finishLocked without a lock. What cannot be done leaves the item in the queue.
func (d *delivery) finishUnlocked(ctx context.Context) (took bool, err error) {
	switch {
	case d.pending != nil: // it may still be there, and is then given again
		d.stays = true
		return false, nil
	case d.isGone():
		return true, nil
	}
	ops, takes, err := d.ending(ctx)
	if err != nil || len(ops) == 0 {
		return false, err
	}
	err = unchanged(ctx, d.c.q.client, d.path, &d.stat, func() error {
		_, err := d.c.q.client.Transact(ctx, ops...)
		return err
	})
	switch {
	case err == nil:
		return takes, nil
	case attempt.Overtaken(err): // by another consumer
		return false, nil
	}
	d.stays = true
	if passing(ctx, err) != nil {
		return false, err
	}
	d.c.rests = true
	d.c.q.client.Logger().Error("an item that was consumed stays in its queue, or may stay", logPath, d.path, "error", err)
	return false, nil
}

// passing returns err if what has failed may succeed later.
func passing(ctx context.Context, err error) error {
	if err != nil && (mayPass(ctx, err) || attempt.RefusedForNow(err)) {
		return err
	}
	return nil
}

// isShort reports whether the znode can be written once more, beside what belongs to it.
func (d *delivery) isShort() bool {
	return len(d.data(d.from, len(d.items), d.claims(), nil)) <= d.c.q.client.MaxRequestSize()-besideData
}

// ending returns the operations for the znode, none if it stays as it is. takes says that the znode
// leaves the list, and that none is added.
func (d *delivery) ending(ctx context.Context) (ops []framework.Op, takes bool, err error) {
	if d.c == nil {
		return nil, false, nil // it was not read, or is no item
	}
	q, version := d.c.q, framework.WithVersion(d.stat.Version)
	if d.failure != nil && q.cfg.errorMode == Delete {
		d.from, d.failure = d.from+1, nil
	}
	keep := func(from int) framework.Op {
		d.stays = true
		return framework.SetDataOp(d.path, d.data(from, len(d.items), d.claims(), nil), version)
	}
	prefix, _ := split(d.name) // which has the priority, the time or the id
	sequential := framework.WithMode(framework.PersistentSequential)
	switch all := len(d.items); {
	case d.from == all && d.begun:
		return []framework.Op{framework.DeleteOp(d.path, version)}, true, nil
	case d.failure != nil && q.cfg.maxAttempts > 0 && d.attempt(d.from) >= q.cfg.maxAttempts:
		// Without the folder the transaction is refused, and the item is given again.
		if err := passing(ctx, ensure(ctx, q.client, q.cfg.deadLetters)); err != nil {
			return nil, false, err
		}
		letter := framework.CreateOp(framework.JoinPath(q.cfg.deadLetters, prefix), d.data(d.from, d.from+1, 0, d.failure), sequential)
		if d.from+1 < all {
			return []framework.Op{keep(d.from + 1), letter}, false, nil
		}
		return []framework.Op{framework.DeleteOp(d.path, version), letter}, true, nil
	case d.failure != nil: // what was consumed is not put back with the rest
		return []framework.Op{ //nolint:nilerr // the error is the item's
			framework.DeleteOp(d.path, version),
			framework.CreateOp(framework.JoinPath(q.path, prefix), d.data(d.from, all, 0, d.failure), sequential),
		}, false, nil
	case d.from > d.kept, d.locker != nil && d.given < all && d.isShort():
		return []framework.Op{keep(d.from)}, false, nil // the lock does not count for items that were not given
	default:
		d.stays = true
		return nil, false, nil
	}
}
