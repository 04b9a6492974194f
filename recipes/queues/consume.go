// SPDX-License-Identifier: Apache-2.0

package queues

import (
	"context"
	"errors"
	"iter"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/internal/attempt"
)

// Consume calls fn with each item, one at a time, until ctx ends, and then returns its error
// and cause. It survives lost connections and sessions. Any other failure, such as a missing
// permission, ends it.
//
// An error of fn is logged and does not end Consume; [ErrorMode] says what becomes of the item.
// The next item then comes after a pause, of up to a second if several items have failed. See
// [Item.Context] for the context of fn.
//
// When ctx ends while fn runs, Consume waits for fn. With [WithLockPath] the item is deleted if
// fn returns nil, and stays in the queue otherwise.
//
// To consume several items at a time, call Consume in several goroutines.
func (q *queue) Consume(ctx context.Context, fn func(ctx context.Context, item []byte) error) error {
	if fn == nil {
		return wrap("consume "+q.path, errors.New("function nil, expected one that consumes an item"))
	}
	for item, err := range q.Items(ctx) {
		if err != nil {
			return err
		}
		if err := fn(item.ctx, item.Data); err != nil {
			item.Fail(err)
		}
	}
	return nil
}

// Items yields the items of the queue, and waits for more, until ctx ends. It is
// the loop of [DistributedQueue.Consume] for a range statement. The last pair is
// an error, and no item.
//
//	for item, err := range queue.Items(ctx) {
//		if err != nil {
//			return err
//		}
//		...
//	}
//
// With [WithLockPath] an item is consumed when the loop goes on to the next. A
// loop that is left by break, return or a panic leaves its item in the queue.
func (q *queue) Items(ctx context.Context) iter.Seq2[*Item, error] {
	return func(yield func(*Item, error) bool) {
		if ctx == nil {
			yield(nil, wrap("consume "+q.path, attempt.ErrNilContext))
			return
		}
		c := &consumer{q: q, leftOut: make(map[string]*framework.Watch)}
		defer c.end()
		if err := c.run(ctx, yield); err != nil {
			yield(nil, wrap("consume "+q.path, err))
		}
	}
}

func (q *queue) lockOf(name string) string { return framework.JoinPath(q.cfg.lockPath, name) }

// consumer is one loop over a queue.
type consumer struct {
	q *queue

	names []string         // of the last list, the names that were not tried, in order
	tried int              // since that list
	watch *framework.Watch // ends when that list changes
	stat  framework.Stat   // of the queue's znode, as of that list
	taken int32            // how many items this consumer has deleted since that list
	ahead ahead            // the first of names, if it was read together with a look at the list
	busy  []string         // the locks of items that other consumers have, since that list

	history int64 // before that list, see framework.Framework.History

	leftOut map[string]*framework.Watch // what cannot be consumed, and when it changes; nil if no server says that
	changed framework.WatchQueue        // of leftOut
	unsure  bool                        // whether the item that was chosen is the first

	locker *locker // nil without a lock path, and before the first item

	pauses  bool          // an item has failed, so the next one comes after a pause
	backoff attempt.Pause // since an item that has not failed

	warned   string // the kind of the last reason that was logged
	warnedAt time.Time
}

// ahead is an item that was read before it was the next one. The zero value is none.
type ahead struct {
	name    string
	history int64 // before the read
	data    []byte
	stat    framework.Stat
	gone    bool
	err     error // why it cannot be read
}

// run yields items until the loop is left, which is no error, or ctx ends.
func (c *consumer) run(ctx context.Context, yield func(*Item, error) bool) error {
	for {
		left, err := c.step(ctx, yield)
		switch {
		case left:
			return nil
		case ctx.Err() != nil:
			return attempt.Interrupted(ctx)
		case err == nil:
			if c.pauses {
				c.pause(ctx)
			}
			continue
		case !mayPass(ctx, err) && !attempt.RefusedForNow(err) && !errors.Is(err, framework.ErrSessionEnded) && !errors.Is(err, errOver):
			return err
		}
		c.warn(err)
		c.end()
		c.pause(ctx)
	}
}

// warnEvery is how often the log has one kind of reason why a consumer is interrupted.
const warnEvery = time.Minute

func (c *consumer) warn(err error) {
	kind := framework.ErrorType(err)
	if kind == c.warned && time.Since(c.warnedAt) < warnEvery {
		return
	}
	c.warned, c.warnedAt = kind, time.Now()
	c.q.client.Logger().Warn("a consumer is interrupted", logPath, c.q.path, "error", err)
}

// pause waits after a failure, each time for longer.
func (c *consumer) pause(ctx context.Context) {
	c.pauses = false
	attempt.Rest(ctx, c.q.client, min(c.backoff.Next(), maxPause))
}

// end gives back what a loop has at the server.
func (c *consumer) end() {
	c.watch.Cancel()
	c.watch, c.names = nil, nil
	c.forgetLeftOut()
	if c.locker != nil {
		c.locker.leave()
		c.locker = nil
	}
}

// forgetLeftOut makes the consumer look again at what it has left out.
func (c *consumer) forgetLeftOut() {
	for _, w := range c.leftOut {
		w.Cancel()
	}
	clear(c.leftOut)
}

// step waits for a znode that can be tried, and yields its items if they are
// this consumer's.
func (c *consumer) step(ctx context.Context, yield func(*Item, error) bool) (left bool, err error) {
	name, err := c.next(ctx)
	if err != nil || name == "" {
		return false, err
	}
	switch {
	case c.q.cfg.lockPath != "":
		return c.consumeLocked(ctx, name, yield)
	case c.q.cfg.lateRemoval:
		return c.consumeUnlocked(ctx, name, yield)
	default:
		return c.consumeAtOnce(ctx, name, yield)
	}
}

// next returns the name of an item that is due. After a wait it returns "".
func (c *consumer) next(ctx context.Context) (string, error) {
	c.unsure = false
	switch {
	case c.watch == nil, c.q.client.History() != c.history, attempt.IsClosed(c.watch.Fired()) && c.untilDue() > 0:
		return "", c.renew(ctx)
	case attempt.IsClosed(c.watch.Fired()) && c.q.order.renews && c.tried >= c.q.cfg.minItems:
		if c.unsure = c.q.cfg.lockPath != "" && len(c.busy) <= mostBusy; c.unsure {
			break // it is known once the item is locked, in the round trip that reads it
		}
		ok, err := c.onlyTook(ctx)
		if err != nil {
			return "", err
		}
		if !ok {
			return "", c.renew(ctx)
		}
		c.tried = 0
	case c.untilDue() > 0:
		return "", c.wait(ctx)
	}
	name := c.names[0]
	c.names = c.names[1:]
	c.tried++
	c.q.telemetry.waiting.Record(len(c.names))
	return name, nil
}

// mostBusy bounds how many locks of other consumers one look at the list reads.
const mostBusy = 16

// onlyTook reports whether nothing but the deletions by this consumer has changed the list,
// so that a new one would show no other items. It costs less than a list, which has the
// names of all items. In the same round trip it reads the first item.
func (c *consumer) onlyTook(ctx context.Context) (bool, error) {
	if c.q.cfg.lockPath != "" {
		return false, nil // other consumers have locked too many items of the list
	}
	var now *framework.Stat
	first := ahead{name: c.names[0], history: c.q.client.History()}
	err := c.q.client.Pipeline(ctx, framework.ReadStat(c.q.path, &now),
		framework.ReadData(framework.JoinPath(c.q.path, first.name), &first.data,
			framework.StoringStatIn(&first.stat), framework.StoringAbsenceIn(&first.gone)).StoringErrorIn(&first.err))
	if errors.Is(err, framework.ErrTooLarge) {
		return false, nil // it ends the pipeline, so the item is read alone, after a list
	}
	if err != nil || !c.isListed(now) {
		return false, err // in another folder the item may be another, too
	}
	c.ahead = first
	return true, nil
}

// isListed reports whether the queue's znode, as it is now, has had no changes since the list
// but the deletions by this consumer.
func (c *consumer) isListed(now *framework.Stat) bool {
	return now != nil && c.q.client.History() == c.history && now.Czxid == c.stat.Czxid && now.Cversion == c.stat.Cversion+c.taken
}

// readLocked reads an item that this consumer has locked. If needed, it reports in the same
// round trip whether it is still the first item that no other consumer has locked.
func (c *consumer) readLocked(ctx context.Context, path string) (item ahead, first bool, err error) {
	reads := []framework.Read{framework.ReadData(path, &item.data,
		framework.StoringStatIn(&item.stat), framework.StoringAbsenceIn(&item.gone)).StoringErrorIn(&item.err)}
	var now *framework.Stat
	locks := make([]*framework.Stat, len(c.busy))
	if c.unsure {
		reads = append(reads, framework.ReadStat(c.q.path, &now))
		for i, lock := range c.busy {
			reads = append(reads, framework.ReadStat(lock, &locks[i]))
		}
	}
	err = c.q.client.Pipeline(ctx, reads...)
	if errors.Is(err, framework.ErrTooLarge) {
		item.err = err // which ends the pipeline
		return item, true, nil
	}
	first = !c.unsure || c.isListed(now) && !slices.Contains(locks, nil)
	return item, first, err
}

// untilDue returns the time until the first known item is due.
func (c *consumer) untilDue() time.Duration {
	if len(c.names) == 0 {
		return math.MaxInt64
	}
	if c.q.order.due == nil {
		return 0
	}
	return time.Until(c.q.order.due(c.names[0]))
}

// renew reads the list.
func (c *consumer) renew(ctx context.Context) error {
	c.watch.Cancel()
	c.watch = nil
	if history := c.q.client.History(); history != c.history {
		// Items with these names may be other items.
		c.history, c.ahead = history, ahead{}
		c.forgetLeftOut()
	}
	folder := c.stat.Czxid
	names, err := list(ctx, c.q.client, c.q.path, itemPrefix, &c.watch, framework.StoringStatIn(&c.stat))
	if err != nil {
		return err
	}
	if c.stat.Czxid != folder {
		c.forgetLeftOut()
	}
	c.lookAgain(names)
	names = slices.DeleteFunc(names, func(name string) bool { _, isOut := c.leftOut[name]; return isOut })
	slices.SortFunc(names, c.q.order.compare)
	c.names, c.tried, c.taken, c.busy = names, 0, 0, nil
	c.q.telemetry.waiting.Record(len(names))
	return nil
}

// lookEvery is how often a consumer looks at its clock while it waits for the time of an item. The clock may jump.
const lookEvery = time.Minute

// wait blocks until the list has changed, an item may be due, or one was unlocked.
func (c *consumer) wait(ctx context.Context) error {
	var due <-chan time.Time
	if len(c.names) > 0 {
		due = time.After(min(c.untilDue(), lookEvery))
	}
	unlocked, cancel, err := c.watchLocks(ctx)
	defer cancel()
	if err != nil {
		return err
	}
	select {
	case <-c.watch.Fired():
	case <-due:
	case <-unlocked:
		// A consumer that dies changes nothing in the list.
		return c.renew(ctx)
	case <-c.changed.Wake():
		return c.renew(ctx)
	case <-ctx.Done():
		return attempt.Interrupted(ctx)
	}
	return nil
}

// watchLocks sets watches on the locks of other consumers. The channel gets a
// value when one of them is gone.
func (c *consumer) watchLocks(ctx context.Context) (gone <-chan struct{}, cancel func(), err error) {
	if len(c.busy) == 0 {
		return nil, func() {}, nil
	}
	var ended framework.WatchQueue
	watches := make([]*framework.Watch, len(c.busy))
	absent := make([]bool, len(c.busy))
	data, stats := make([][]byte, len(c.busy)), make([]framework.Stat, len(c.busy))
	reads := make([]framework.Read, len(c.busy))
	for i, lock := range c.busy {
		reads[i] = framework.ReadData(lock, &data[i], framework.Watched(&watches[i]), framework.StoringStatIn(&stats[i]),
			framework.StoringAbsenceIn(&absent[i]), framework.Undecompressed())
	}
	cancel = func() {
		for _, w := range watches {
			w.Cancel()
		}
	}
	if err := c.q.client.Pipeline(ctx, reads...); err != nil {
		return nil, cancel, err
	}
	for i, lock := range c.busy {
		if absent[i] || c.locker == nil {
			continue
		}
		if claim, isStale := c.locker.isStale(lock, data[i], stats[i]); isStale {
			_, name := framework.SplitPath(lock)
			if err := c.locker.clear(ctx, framework.JoinPath(c.q.path, name), lock, claim); err != nil {
				return nil, cancel, err
			}
		}
	}
	if slices.Contains(absent, true) {
		now := make(chan struct{})
		close(now)
		return now, cancel, nil
	}
	for _, w := range watches {
		ended.Add(w)
	}
	return ended.Wake(), cancel, nil
}

// consumeAtOnce deletes an item and then yields it.
func (c *consumer) consumeAtOnce(ctx context.Context, name string, yield func(*Item, error) bool) (left bool, err error) {
	d, err := c.take(ctx, name)
	if d == nil {
		return false, err
	}
	// A context that ends while the request is under way must not lose the item.
	bounded, cancel := graceful(ctx)
	defer cancel()
	switch err := remove(bounded, c.q.client, d.path, &d.stat, d.history); {
	case errors.Is(err, framework.ErrBadVersion):
		c.forgetList() // it was written, and no change of the list will show it again
		return false, nil
	case attempt.Overtaken(err):
		return false, nil
	case framework.OutcomeUnknown(err):
		c.q.client.Logger().Error("an item may be lost, because the reply to its deletion was lost", logPath, d.path, "error", err)
		return false, err
	case err != nil:
		return false, err
	}
	c.taken++
	d.removed(len(d.items))
	return d.give(ctx, yield), nil
}

// take reads the items of a znode. It returns nil if another consumer was faster, or if the znode is no item.
func (c *consumer) take(ctx context.Context, name string) (*delivery, error) {
	node, err := c.read(ctx, name)
	if err != nil || node.gone {
		return nil, err
	}
	return c.deliver(ctx, name, node)
}

// read returns the item with that name, without a request if it was read ahead.
func (c *consumer) read(ctx context.Context, name string) (ahead, error) {
	item := c.ahead
	c.ahead = ahead{}
	if item.name == name {
		return item, nil
	}
	item = ahead{name: name, history: c.q.client.History()}
	var err error
	item.data, err = c.q.client.Get(ctx, framework.JoinPath(c.q.path, name), framework.StoringStatIn(&item.stat))
	switch {
	case errors.Is(err, framework.ErrNoNode):
		item.gone, err = true, nil
	case isOfElement(err):
		item.err, err = err, nil
	}
	return item, err
}

// deliver returns the items of a znode that was read. It leaves out what is no item, and returns nil.
func (c *consumer) deliver(ctx context.Context, name string, node ahead) (*delivery, error) {
	err := node.err
	if err == nil {
		d := &delivery{c: c, name: name, path: framework.JoinPath(c.q.path, name), stat: node.stat, history: node.history}
		var items [][]byte
		if items, d.notes, err = decode(node.data); err == nil {
			for _, data := range items {
				d.items = append(d.items, content{data: data})
			}
			return d, nil
		}
	}
	return nil, c.leaveOut(ctx, name, &node.stat, err)
}

// leaveOut leaves a znode where it is until it changes, so that it keeps nothing else from
// being consumed. Where the server does not let the client watch it, it is left out for as long as the
// consumer is not interrupted. The Stat came with the data that cannot be used, and is zero if no data came.
func (c *consumer) leaveOut(ctx context.Context, name string, read *framework.Stat, why error) error {
	path := framework.JoinPath(c.q.path, name)
	var watch *framework.Watch
	stat, err := c.q.client.Exists(ctx, path, framework.Watched(&watch))
	switch {
	case errors.Is(err, framework.ErrNoAuth): // the server asks for READ, so it shows no change either
		watch.Cancel()
		watch = nil
	case err != nil || stat == nil:
		watch.Cancel()
		return err
	case read.Czxid != 0 && read.Mzxid != stat.Mzxid: // the change came before the watch
		watch.Cancel()
		c.forgetList()
		return nil
	}
	c.q.client.Logger().Error("a znode in a queue cannot be consumed and stays there", logPath, c.q.path, "name", name, "error", why)
	c.q.telemetry.leftOut.Add(1)
	c.leftOut[name] = watch
	if watch != nil {
		c.changed.Add(watch)
	}
	return nil
}

// lookAgain forgets what was left out and has changed or is gone. The names are those of a new list.
func (c *consumer) lookAgain(names []string) {
	c.changed.Take()
	maps.DeleteFunc(c.leftOut, func(name string, watch *framework.Watch) bool {
		if watch == nil {
			return !slices.Contains(names, name)
		}
		return attempt.IsClosed(watch.Fired())
	})
}

// note takes down how an item has ended.
func (c *consumer) note(path string, failure error) {
	if failure == nil {
		c.q.telemetry.consumed.Add(1)
		c.backoff.Reset()
		return
	}
	c.q.telemetry.failed.Add(1)
	c.q.client.Logger().Warn("an item was not consumed", logPath, path, "error", failure)
	c.pauses = true
}

// forgetList makes the consumer read the list again before the next item.
func (c *consumer) forgetList() {
	c.watch.Cancel()
	c.watch = nil
}

// consumeLocked locks an item, yields it, and deletes it or puts it back.
func (c *consumer) consumeLocked(ctx context.Context, name string, yield func(*Item, error) bool) (left bool, err error) {
	if c.locker != nil && c.locker.held.Err() != nil {
		return false, errOver
	}
	if c.locker == nil {
		if c.locker, err = newLocker(ctx, c.q.client, c.q.cfg.lockPath); err != nil {
			return false, err
		}
	}
	l, path, lock := c.locker, framework.JoinPath(c.q.path, name), c.q.lockOf(name)
	if ok, err := c.lock(ctx, path, lock); !ok {
		return false, err
	}
	d := &delivery{}                                   // before the item is read, it is only to be unlocked
	defer func() { c.finish(ctx, d, l, path, lock) }() // however the loop is left
	node, first, err := c.readLocked(ctx, path)
	if err != nil || node.gone {
		return false, err
	}
	read, err := c.deliver(ctx, name, node)
	if read != nil {
		d = read
		d.locker, d.lock = l, lock
	}
	switch {
	case !first:
		return false, c.renew(ctx)
	case read == nil:
		return false, err
	case l.held.Err() != nil:
		return false, errOver // the connection was lost in between
	}
	if c.unsure {
		c.tried = 1
	}
	held, cancel := while(ctx, l.held)
	defer cancel()
	return d.give(held, yield), nil
}

// finish ends what a locked item was given for.
func (c *consumer) finish(ctx context.Context, d *delivery, l *locker, path, lock string) {
	took := false
	known := c.settle(ctx, func(ctx context.Context) (err error) {
		took, err = d.finishLocked(ctx, l, path, lock)
		return err
	})
	switch {
	case known && took:
		c.taken++
	case !known, d.begun && d.stays:
		c.forgetList() // it shows the znode again without a change
	}
}

// consumeUnlocked yields an item and then deletes it or puts it back, unless another consumer has
// done that first.
func (c *consumer) consumeUnlocked(ctx context.Context, name string, yield func(*Item, error) bool) (left bool, err error) {
	// Not after the item has failed, as it may get another number itself.
	if err := c.q.folder.look(ctx); err != nil {
		return false, err
	}
	d, err := c.take(ctx, name)
	if d == nil {
		return false, err
	}
	left = d.give(ctx, yield)
	bounded, cancel := graceful(ctx)
	defer cancel()
	took, err := d.finishUnlocked(bounded)
	if took {
		c.taken++
	}
	if d.stays {
		c.forgetList()
	}
	return left, err
}

// lock locks an item, and reports whether it did.
func (c *consumer) lock(ctx context.Context, path, lock string) (bool, error) {
	l := c.locker
	bounded, cancel := graceful(ctx)
	defer cancel()
	err := l.lock(bounded, path, lock)
	switch {
	case err == nil:
		return true, nil
	case l.inDoubt:
		locked := false
		c.settle(ctx, func(ctx context.Context) error {
			if !locked {
				if err := l.lock(ctx, path, lock); err != nil {
					if attempt.Overtaken(err) {
						return nil
					}
					return err
				}
				locked = true
			}
			return l.unlock(ctx, path, lock)
		})
		return false, err
	case errors.Is(err, errOver):
		return false, err
	case attempt.Overtaken(err) && failedAt(err, lock) && errors.Is(err, framework.ErrNodeExists):
		c.busy = append(c.busy, lock)
		return false, nil
	case attempt.Overtaken(err):
		return false, nil // the item is gone
	case failedAt(err, l.claimOf(path)) && isOfElement(err):
		_, name := framework.SplitPath(path)
		return false, c.leaveOut(ctx, name, &framework.Stat{}, err)
	default:
		return false, err
	}
}

// settle has work done, in the background if it takes longer than the context
// and a grace allow. Then this consumer goes on with another locker, and settle returns false.
func (c *consumer) settle(ctx context.Context, work func(context.Context) error) bool {
	l := c.locker
	bounded, cancel := graceful(ctx)
	defer cancel()
	if l.settle(bounded, work) {
		return true
	}
	c.locker = nil
	go func() {
		defer l.leave()
		l.settle(context.Background(), work)
	}()
	return false
}

// while returns a context derived from ctx that also ends with held, and with
// its cause.
func while(ctx, held context.Context) (context.Context, context.CancelFunc) {
	both, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(held, func() { cancel(context.Cause(held)) })
	return both, func() {
		stop()
		cancel(nil)
	}
}
