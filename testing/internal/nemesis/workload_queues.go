package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/gocurator/curator/recipes/queues"
)

const (
	noLostItem  promise = "lost_items"       // an acknowledged item is not gone before it was consumed
	noDuplicate promise = "duplicated_items" // no item comes twice that must not
)

const (
	offered  eventKind = "offered"  // an item was put into a queue; Owner is which
	consumed eventKind = "consumed" // a consumer has decided what becomes of an item
)

// The queues of a campaign, below the path of their spec. In the first a consumer
// locks an item and deletes it when it was consumed. In the second it deletes
// the item first.
const (
	lockedItems = "locked"
	simpleItems = "simple"
	itemLocks   = "locks"
)

const (
	someItems   = 8                      // that a turn consumes of a queue, at most
	fullQueue   = 50                     // items with which a queue gets no more
	consumeTime = 300 * time.Millisecond // of a turn for a queue, at least
	longestTime = 5 * time.Second        // the same, at most
)

// queuing is what a worker has of the queues.
type queuing struct {
	*worker

	locked *queues.DistributedQueue
	simple *queues.SimpleDistributedQueue
	stocks []*stock
	items  int
}

// stock is a queue as a worker sees it.
type stock struct {
	path    string
	consume func(ctx context.Context, n int) (took int)
	waiting int           // items, when they were counted last
	during  time.Duration // that the next turn has for it
}

// prepareQueue puts items into two queues, or consumes some.
func prepareQueue(w *worker) (func(context.Context), error) {
	q, err := newQueuing(w)
	if err != nil {
		return nil, err
	}
	return q.turn, nil
}

func newQueuing(w *worker) (*queuing, error) {
	q := &queuing{worker: w}
	var err error
	if q.locked, err = queues.NewDistributedQueue(w.client.framework, w.spec.path()+"/"+lockedItems, queues.WithLockPath(w.spec.path()+"/"+itemLocks)); err != nil {
		return nil, err
	}
	if q.simple, err = queues.NewSimpleDistributedQueue(w.client.framework, w.spec.path()+"/"+simpleItems); err != nil {
		return nil, err
	}
	q.stocks = []*stock{
		{path: q.locked.Path(), consume: q.consumeLocked, during: consumeTime},
		{path: q.simple.Path(), consume: q.consumeSimple, during: consumeTime},
	}
	return q, nil
}

// turn puts items into both queues, or consumes some of each. A full queue gets no more. Otherwise the
// workers of a slow machine would put more than they consume, and the last turn could not consume the rest in time.
func (q *queuing) turn(ctx context.Context) {
	if q.last {
		q.put(ctx)
		q.drain(ctx)
		return
	}
	counting, cancel := q.bounds(ctx)
	err := q.count(counting)
	cancel()
	q.putOrConsume(ctx, err)
}

// putOrConsume ends a turn in which count has returned err.
func (q *queuing) putOrConsume(ctx context.Context, err error) {
	// A worker that could not count may put: otherwise no item would meet servers in trouble.
	if full := err == nil && q.waiting() >= fullQueue; !full && q.random.IntN(2) == 0 {
		q.put(ctx)
		return
	}
	q.consume(ctx)
}

// count counts the items of both queues.
func (q *queuing) count(ctx context.Context) error {
	for _, s := range q.stocks {
		stat, err := q.client.framework.Exists(ctx, s.path)
		if err != nil {
			return err
		}
		s.waiting = 0
		if stat != nil {
			s.waiting = int(stat.NumChildren)
		}
	}
	return nil
}

// waiting is how many items the longer queue had when they were counted last.
func (q *queuing) waiting() (most int) {
	for _, s := range q.stocks {
		most = max(most, s.waiting)
	}
	return most
}

// consume consumes some items of each queue, in any order. In the last turn it does not wait at an empty queue.
func (q *queuing) consume(ctx context.Context) {
	for _, i := range q.random.Perm(len(q.stocks)) {
		if s := q.stocks[i]; !q.last || s.waiting > 0 {
			s.take(ctx, 1+q.random.IntN(someItems))
		}
	}
}

// take consumes up to n items. A consumer needs a few round trips before it has an item. On a slow machine a
// short turn might consume none of those that wait, so the next one has twice the time.
func (s *stock) take(ctx context.Context, n int) {
	ctx, cancel := context.WithTimeout(ctx, s.during)
	defer cancel()
	switch took := s.consume(ctx, n); {
	case took > 0:
		s.during = max(s.during/2, consumeTime)
	case s.waiting > 0:
		s.during = min(2*s.during, longestTime)
	}
}

// item is the text of another item. No other one has it.
func (q *queuing) item() string {
	q.items++
	return fmt.Sprintf("item:%s/%d;", q.name, q.items)
}

// itemsIn are the items in the data of a znode, which may have an envelope.
func itemsIn(data string) (all []string) {
	for {
		begin := strings.Index(data, "item:")
		if begin < 0 {
			return all
		}
		end := strings.Index(data[begin:], ";")
		if end < 0 {
			return all
		}
		all = append(all, data[begin:begin+end+1])
		data = data[begin+end+1:]
	}
}

// put puts an item or two into each queue.
func (q *queuing) put(ctx context.Context) {
	ctx, cancel := q.bounds(ctx)
	defer cancel()
	c := q.call(q.spec.Name, "", false)
	items := []string{q.item()}
	if q.random.IntN(3) == 0 {
		items = append(items, q.item())
	}
	var data [][]byte
	for _, item := range items {
		data = append(data, []byte(item))
	}
	errLocked := q.locked.PutMulti(ctx, data...)
	for _, item := range items {
		q.note(offered, lockedItems, item, changed(errLocked), errLocked)
	}
	item := q.item()
	errSimple := q.simple.Offer(ctx, []byte(item))
	q.note(offered, simpleItems, item, changed(errSimple), errSimple)
	q.end(c, errors.Join(errLocked, errSimple))
}

// end records the end of a call.
func (q *queuing) end(c call, err error) {
	at := monotonic()
	if err != nil {
		c.failed(at, err)
		return
	}
	c.ended(at, nil)
}

func (q *queuing) note(kind eventKind, queue, item string, result outcome, err error) {
	q.client.history.add(event{Kind: kind, Lock: q.spec.Name, Owner: queue, Value: item, Outcome: result, Error: text(err)})
}

var errNotConsumed = errors.New("the item could not be consumed")

// consumeLocked consumes so many items. Some fail, and some loops are left.
func (q *queuing) consumeLocked(ctx context.Context, n int) (took int) {
	for item, err := range q.locked.Items(ctx) {
		if err != nil {
			return took // its context has ended, as a rule
		}
		q.pause(q.upTo(shortHold))
		switch {
		case !q.last && q.random.IntN(20) == 0:
			q.note(consumed, lockedItems, string(item.Data), refused, errNotConsumed)
			item.Fail(errNotConsumed)
		case took == n, item.Context().Err() != nil:
			return took // the item stays in the queue
		default:
			// It is written down before the item is deleted.
			q.note(consumed, lockedItems, string(item.Data), accepted, nil)
		}
		took++
	}
	return took
}

// consumeSimple consumes so many items, or all that there are.
func (q *queuing) consumeSimple(ctx context.Context, n int) (took int) {
	for range n {
		take := q.simple.Poll
		if !q.last && q.random.IntN(8) == 0 {
			take = q.simple.Take
		}
		item, err := take(ctx)
		if item != nil {
			q.note(consumed, simpleItems, string(item), changed(err), err)
			took++
		}
		if err != nil {
			return took
		}
	}
	return took
}

// drain consumes until both queues are empty.
func (q *queuing) drain(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 2*patience)
	defer cancel()
	c := q.call(q.spec.Name, "", false)
	for {
		err := q.client.framework.Sync(ctx, q.spec.path())
		if err == nil {
			err = q.count(ctx)
		}
		switch {
		case err == nil && q.waiting() == 0:
			c.ended(monotonic(), nil)
			return
		case ctx.Err() != nil:
			c.failed(monotonic(), fmt.Errorf("%d items were left when they were counted last: %w", q.waiting(), cmp.Or(err, ctx.Err())))
			return
		}
		q.consume(ctx)
	}
}

func consumptionsOf(r *roundReport, spec lockSpec) int { return r.countOf(spec, consumed) }

// itemLife is a znode of a queue, from its creation to its deletion.
type itemLife struct {
	path             string
	created, deleted logWrite // the zxid of the deletion is 0 if there is none
}

// livesOf returns the lives of the items in a folder. One item has several if it was put
// back, in no order.
func (l *transactionLog) livesOf(folder string) map[string][]*itemLife {
	all := make(map[string][]*itemLife)
	for node, writes := range l.writes {
		if path.Dir(node) != folder {
			continue
		}
		var now *itemLife
		for _, w := range writes {
			switch {
			case w.deleted && now != nil:
				now.deleted, now = w, nil
			case now == nil:
				now = &itemLife{path: node, created: w}
				for _, item := range itemsIn(w.data) {
					all[item] = append(all[item], now)
				}
			}
		}
	}
	return all
}

// story is all that is known of an item.
type story struct {
	item      string
	offered   outcome // "" is a process that was killed before it knew
	at        int64
	consumers []event // in no order
	lives     []*itemLife
}

// count is how many consumers have it with this outcome.
func (s *story) count(result outcome) (n int) {
	for _, e := range s.consumers {
		if e.Outcome == result {
			n++
		}
	}
	return n
}

// stories returns the story of each item of a queue.
func stories(r *roundReport, spec lockSpec, queue string) map[string]*story {
	all := make(map[string]*story)
	of := func(item string) *story {
		if all[item] == nil {
			all[item] = &story{item: item}
		}
		return all[item]
	}
	for _, events := range r.events {
		for _, e := range events {
			switch {
			case e.Lock != spec.Name || e.Owner != queue:
			case e.Kind == offered:
				s := of(e.Value)
				s.offered, s.at = e.Outcome, e.At
			case e.Kind == consumed:
				s := of(e.Value)
				s.consumers = append(s.consumers, e)
			}
		}
	}
	for item, lives := range r.log.livesOf(spec.path() + "/" + queue) {
		of(item).lives = lives
	}
	return all
}

// wrongDeliveries finds items that were lost, or consumed twice, against the
// promise of their queue.
func wrongDeliveries(r *roundReport, spec lockSpec) (found []violation) {
	if r.log == nil {
		return nil
	}
	for _, queue := range []struct {
		name  string
		wrong func(*story) (promise, string)
	}{
		{lockedItems, r.lockedWrong(spec)},
		{simpleItems, r.simpleWrong()},
	} {
		few := r.log.few.livesOf(spec.path() + "/" + queue.name)
		for _, s := range stories(r, spec, queue.name) {
			broken, what := s.wrong(few[s.item] != nil)
			if what == "" {
				broken, what = queue.wrong(s)
			}
			if what != "" {
				found = append(found, violation{promise: broken, round: r, at: s.at, what: fmt.Sprintf("%s/%s: %s %s", spec.Name, queue.name, s.item, what)})
			}
		}
	}
	return found
}

// wrong says what is wrong with how an item came into its queue. A znode that
// replaces another one in its transaction is an item that was put back.
func (s *story) wrong(cutOff bool) (promise, string) {
	put := make(map[int64]bool) // by zxid
	for _, life := range s.lives {
		put[life.created.zxid] = true
	}
	for _, life := range s.lives {
		delete(put, life.deleted.zxid)
	}
	switch {
	case s.offered == accepted && len(s.lives) == 0 && !cutOff:
		return noLostItem, "was acknowledged, and no server has it"
	case s.offered == refused && len(s.lives) > 0:
		return noDuplicate, "was refused, and is in the queue"
	case len(put) > 1:
		return noDuplicate, fmt.Sprintf("is there %d times", len(put))
	}
	return "", ""
}

// gone reports whether no znode has the item any more.
func (s *story) gone() bool {
	for _, life := range s.lives {
		if life.deleted.zxid == 0 {
			return false
		}
	}
	return len(s.lives) > 0
}

// lockedWrong judges a queue whose items are deleted after they were consumed.
// One may come again only after a session that has held its lock was closed.
func (r *roundReport) lockedWrong(spec lockSpec) func(*story) (promise, string) {
	closed := make(map[string]int) // sessions, by the names of items
	if locks := r.log.queues[spec.path()+"/"+itemLocks]; locks != nil {
		for _, lock := range locks.nodes {
			if lock.closed {
				closed[path.Base(lock.path)]++
			}
		}
	}
	return func(s *story) (promise, string) {
		again := 0
		for _, life := range s.lives {
			again += closed[path.Base(life.path)]
		}
		switch n := s.count(accepted); {
		case n > 1+again:
			return noDuplicate, fmt.Sprintf("was consumed %d times, and %d sessions were closed that had its lock", n, again)
		case n == 0 && s.gone():
			return noLostItem, "is gone, and was not consumed"
		}
		return "", ""
	}
}

// simpleWrong judges a queue whose items are deleted before they are consumed. An
// item may be lost with the process that has deleted it. A consumer that does
// not know whether it has deleted the item has it nevertheless, and says so.
func (r *roundReport) simpleWrong() func(*story) (promise, string) {
	sessions, killed := r.sessions(), r.killed()
	return func(s *story) (promise, string) {
		var has, doubts []string // the clients that have consumed it, and those that may have
		for _, e := range s.consumers {
			if e.Outcome == accepted {
				has = append(has, e.Client)
			} else {
				doubts = append(doubts, e.Client)
			}
		}
		if len(has) > 1 {
			return noDuplicate, fmt.Sprintf("was consumed %d times, by %v", len(has), has)
		}
		if len(s.lives) == 0 {
			return "", "" // the servers have cut it off their logs
		}
		life := s.lives[0]
		deleted, by := life.deleted.zxid != 0, sessions[life.deleted.session]
		switch {
		case len(has) == 1 && !deleted && !r.deletedByFew(life):
			return noDuplicate, fmt.Sprintf("was consumed by %s, and is still in the queue", has[0])
		case len(has) == 1 && by != "" && has[0] != by:
			return noDuplicate, fmt.Sprintf("was consumed by %s, and deleted by %s", has[0], by)
		case len(has) == 0 && deleted && by != "" && !killed[by] && !slices.Contains(doubts, by):
			return noLostItem, fmt.Sprintf("was deleted by %s, which does not have it", by)
		}
		return "", ""
	}
}

// deletedByFew reports whether the deletion of an item was cut off the logs.
func (r *roundReport) deletedByFew(life *itemLife) bool {
	for _, w := range r.log.few.writes[life.path] {
		if w.deleted && w.zxid > life.created.zxid {
			return true
		}
	}
	return false
}
