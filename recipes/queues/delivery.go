// SPDX-License-Identifier: Apache-2.0

package queues

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/internal/attempt"
)

// delivery is a znode whose items are given to a loop, and what becomes of it.
type delivery struct {
	c          *consumer
	name, path string
	items      []content
	notes      notes
	stat       framework.Stat // with the version that this consumer has written last
	history    int64          // before the read; 0 with a lock

	locker *locker // nil without a lock
	lock   string

	begun   bool           // the loop gets the items
	failure error          // of the first item that is not done, which is put back or moved
	pending []framework.Op // a Transact whose outcome is unknown
	stays   bool           // the znode stays in the list
}

// content is one item of a znode. The items before it are at least as far.
type content struct {
	data  []byte
	state state
}

type state int

const (
	waiting state = iota
	given         // to the loop, which has not consumed it
	done          // and still in the znode
	removed
)

// first returns the index of the first item that has not come so far.
func (d *delivery) first(least state) int {
	if i := slices.IndexFunc(d.items, func(c content) bool { return c.state < least }); i >= 0 {
		return i
	}
	return len(d.items)
}

// consumed returns the number of items that were consumed, which come first. The znode must keep the others.
func (d *delivery) consumed() int { return d.first(done) }

// reached takes down that the first n items have come so far.
func (d *delivery) reached(n int, s state) {
	for i := range d.items[:n] {
		d.items[i].state = max(d.items[i].state, s)
	}
}

// removed takes down that the znode no longer has the first n items.
func (d *delivery) removed(n int) {
	d.reached(n, removed)
	d.failure = nil
}

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
	items := make([][]byte, to-from)
	for i, item := range d.items[from:to] {
		items[i] = item.data
		n.Attempts[i] = d.attempt(from+i) - since
		if item.state == waiting {
			n.Attempts[i]-- // it was not given now
		}
	}
	switch {
	case failure != nil:
		n.Error = fmt.Sprint(failure) // which survives a method Error that panics, as on a nil pointer
	case from == 0:
		n.Error = d.notes.Error
	}
	return encode(items, n, d.c.q.client.MaxRequestSize()-besideData)
}

// besideData bounds what a transaction of an item has beside the data of a znode, in bytes.
const besideData = 4 << 10

var errSpent = errors.New("no consumer has finished the item")

// give yields the items until the loop is left, or the rest must not be given now.
func (d *delivery) give(ctx context.Context, yield func(*Item, error) bool) (left bool) {
	d.begun = true
	for i, item := range d.items {
		data := item.data
		if spent := d.spent(i); spent != nil {
			d.failure = spent
			d.c.note(d.path, spent)
			return false
		}
		d.reached(i+1, given)
		if !d.isGone() {
			data = bytes.Clone(data) // the znode may be written again, without what the caller changes
		}
		it := newItem(ctx, d, i, data)
		goesOn := it.give(yield)
		failure := cmp.Or(it.failed, it.refused)
		switch {
		case d.pending != nil: // what follows depends on its outcome
			d.failure = failure
			return !goesOn
		case !goesOn:
			if d.consumed() > i {
				d.c.note(d.path, failure)
			}
			return true
		case d.consumed() > i: // a Transact has removed it
			d.c.note(d.path, failure)
		case failure != nil && ctx.Err() != nil:
			return false // it was interrupted
		case failure != nil && d.c.q.cfg.errorMode == Requeue:
			d.c.note(d.path, failure)
			d.failure = failure
			return false
		default:
			d.c.note(d.path, failure)
			d.reached(i+1, done)
		}
	}
	return false
}

// spent returns why an item must not be given again, nil if it may.
func (d *delivery) spent(index int) error {
	most, tried := d.c.q.cfg.maxAttempts, d.attempt(index)-1
	if most == 0 || tried < most {
		return nil
	}
	err := fmt.Errorf("%w in %d attempts", errSpent, tried)
	if last := d.notes.Error; index == 0 && last != "" {
		err = fmt.Errorf("%w, the last known error: %s", err, last)
	}
	return err
}

// transact removes the items up to one from the znode and applies ops.
func (d *delivery) transact(ctx context.Context, index int, ops []framework.Op) error {
	last := index+1 == len(d.items)
	all := slices.Concat([]framework.Op{d.without(index + 1)}, ops)
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
func (d *delivery) isGone() bool { return len(d.items) > 0 && d.first(removed) == len(d.items) }

// settled repeats a Transact whose outcome is unknown until it is known, or fails.
func (d *delivery) settled(ctx context.Context, l *locker) error {
	err := l.do(ctx, d.pending...)
	switch {
	case err == nil:
		d.transacted(d.first(given) - 1)
		return nil
	case l.inDoubt, mayPass(ctx, err), errors.Is(err, errOver):
		return err
	default: // it was not applied, the item has failed
		d.pending = nil
		return nil
	}
}

// ending is what has to be done with a znode.
type ending struct {
	ops   []framework.Op // none if it stays as it is
	takes bool           // it leaves the list, and none is added
	into  *folder        // where the last of ops creates an item, nil for nowhere
}

// apply calls fn, which makes the operations.
func (e ending) apply(ctx context.Context, fn func() error) error {
	if e.into == nil {
		return fn()
	}
	return e.into.create(ctx, fn)
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
	end, applied := d.ending(), false
	err = end.apply(ctx, func() (err error) {
		applied, err = l.finish(ctx, path, lock, end.ops...)
		return err
	})
	if applied {
		d.count(end, l.made)
	}
	if err == nil || len(end.ops) == 0 || l.inDoubt || errors.Is(err, errOver) || mayPass(ctx, err) {
		return applied && end.takes, err
	}
	if failed := l.unlock(ctx, path, lock); failed != nil { // the next try may do all
		return false, failed
	}
	if errors.Is(err, framework.ErrBadVersion) {
		d.stays = true
		d.c.q.client.Logger().Warn("an item was written while it was consumed, and is given again", logPath, path)
		return false, nil
	}
	d.c.q.client.Logger().Error("an item that was consumed stays in its queue", "lock", lock, "error", err)
	return false, nil
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
	end := d.ending()
	if len(end.ops) == 0 {
		return false, nil
	}
	overtaken := false // by another consumer
	err = end.apply(ctx, func() error {
		err := unchanged(ctx, d.c.q.client, d.path, &d.stat, func() error {
			_, err := d.c.q.client.Transact(ctx, end.ops...)
			return err
		})
		if attempt.Overtaken(err) && (end.into == nil || !failedAt(err, end.ops[len(end.ops)-1].Path())) {
			overtaken = true
			d.stays = errors.Is(err, framework.ErrBadVersion) // it was written, and is given again
			return nil
		}
		return err
	})
	if err == nil {
		return end.takes && !overtaken, nil
	}
	d.stays = true
	if mayPass(ctx, err) || attempt.RefusedForNow(err) { // it may succeed later
		return false, err
	}
	d.c.pauses = true
	d.c.q.client.Logger().Error("an item that was consumed stays in its queue, or may stay", logPath, d.path, "error", err)
	return false, nil
}

// count counts an ending that was applied. made has its results, none if the reply was lost. Only consumers with locks make dead letters.
func (d *delivery) count(end ending, made []framework.OpResult) {
	if end.into == nil || end.into != d.c.q.dead {
		return
	}
	d.c.q.telemetry.dead.Add(1)
	letter := end.into.path
	for _, r := range made {
		if strings.HasPrefix(r.Path, framework.JoinPath(end.into.path, itemPrefix)) {
			letter = r.Path
		}
	}
	d.c.q.client.Logger().Warn("an item was moved to the dead letters", logPath, d.path, "letter", letter, "error", d.failure)
}

// ending decides what has to be done with the znode.
func (d *delivery) ending() ending {
	if d.c == nil {
		return ending{} // it was not read, or is no item
	}
	q, all := d.c.q, len(d.items)
	if d.failure != nil && q.cfg.errorMode == Delete {
		d.reached(d.consumed()+1, done)
		d.failure = nil
	}
	rest := d.consumed()
	switch {
	case rest == all && d.begun:
		return ending{ops: []framework.Op{d.without(all)}, takes: true}
	case d.failure != nil && q.cfg.maxAttempts > 0 && d.attempt(rest) >= q.cfg.maxAttempts:
		return d.putting(q.dead, rest, rest+1, d.without(rest+1))
	case d.failure != nil: // what was consumed is not put back with the rest
		return d.putting(q.folder, rest, all, d.without(all))
	case d.first(removed) < rest, d.locker != nil && d.first(given) < all && d.isShort(rest):
		return ending{ops: []framework.Op{d.without(rest)}} // the lock does not count for items that were not given
	default:
		d.stays = true
		return ending{}
	}
}

// without returns the operation that leaves the znode without its first n items.
func (d *delivery) without(n int) framework.Op {
	version := framework.WithVersion(d.stat.Version)
	if n == len(d.items) {
		return framework.DeleteOp(d.path, version)
	}
	d.stays = true
	return framework.SetDataOp(d.path, d.data(n, len(d.items), d.claims(), nil), version)
}

// putting returns the ending that also creates a znode with some items and their failure.
func (d *delivery) putting(into *folder, from, to int, removal framework.Op) ending {
	prefix, _ := split(d.name) // which has the priority, the time or the id
	create := framework.CreateOp(framework.JoinPath(into.path, prefix), d.data(from, to, 0, d.failure),
		framework.WithMode(framework.PersistentSequential))
	return ending{ops: []framework.Op{removal, create}, takes: !d.stays && into != d.c.q.folder, into: into}
}

// isShort reports whether the znode can be written once more, beside what belongs to it.
func (d *delivery) isShort(rest int) bool {
	return len(d.data(rest, len(d.items), d.claims(), nil)) <= d.c.q.client.MaxRequestSize()-besideData
}
