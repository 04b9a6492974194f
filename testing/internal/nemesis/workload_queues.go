// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
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
	item    string
	offered outcome // "" is a process that was killed before it knew
	at      int64
	parts   []storyPart // one for each era
}

// storyPart is what is known of an item in an era.
type storyPart struct {
	consumers []event     // in no order
	lives     []*itemLife // by the log, with those of before that the backup had
	cutOff    bool        // it is in the logs of few servers
}

// last is the part of the last era.
func (s *story) last() *storyPart { return &s.parts[len(s.parts)-1] }

// count is how many consumers have it with this outcome.
func (p *storyPart) count(result outcome) (n int) {
	for _, e := range p.consumers {
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
			all[item] = &story{item: item, parts: make([]storyPart, len(r.eras))}
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
				// What was answered after a restore may have been done, and undone, before it.
				p := &of(e.Value).parts[r.eraAt(cmp.Or(e.Called, e.At))]
				p.consumers = append(p.consumers, e)
			}
		}
	}
	for i, e := range r.eras {
		for item, lives := range e.log.livesOf(spec.path() + "/" + queue) {
			of(item).parts[i].lives = lives
		}
		for item := range e.log.few.livesOf(spec.path() + "/" + queue) {
			of(item).parts[i].cutOff = true
		}
	}
	return all
}

// wrongDeliveries finds items that were lost, or consumed twice, against the
// promise of their queue. A restore takes back the creations and deletions since its backup: an item that is gone
// was not lost, and one that is back may be consumed again.
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
		for _, s := range stories(r, spec, queue.name) {
			broken, what := s.wrong(r.eraAt(s.at))
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

// wrong says what is wrong with how an item came into its queue, in the era in which it was offered and in all others.
func (s *story) wrong(era int) (promise, string) {
	if p := s.parts[era]; s.offered == accepted && len(p.lives) == 0 && !p.cutOff {
		return noLostItem, "was acknowledged, and no server has it"
	}
	for _, p := range s.parts {
		n := p.times()
		switch {
		case s.offered == refused && n > 0:
			return noDuplicate, "was refused, and is in the queue"
		case n > 1:
			return noDuplicate, fmt.Sprintf("is there %d times", n)
		}
	}
	return "", ""
}

// times is how often an item came into its queue. A znode that replaces another one in its transaction is an item that
// was put back.
func (p *storyPart) times() int {
	put := make(map[int64]bool) // by zxid
	for _, life := range p.lives {
		put[life.created.zxid] = true
	}
	for _, life := range p.lives {
		delete(put, life.deleted.zxid)
	}
	return len(put)
}

// gone reports whether no znode has the item any more that had it after a transaction, if any had.
func (p *storyPart) gone(since int64) bool {
	for _, life := range p.lives {
		if life.deleted.zxid == 0 || life.deleted.zxid > since {
			return false
		}
	}
	return true
}

// lockedWrong judges a queue whose items are deleted after they were consumed.
// One may come again only after a session that has held its lock was closed.
func (r *roundReport) lockedWrong(spec lockSpec) func(*story) (promise, string) {
	closed := make([]map[string]int, len(r.eras)) // sessions, by the names of items
	for i, e := range r.eras {
		closed[i] = make(map[string]int)
		if locks := e.log.queues[spec.path()+"/"+itemLocks]; locks != nil {
			for _, lock := range locks.nodes {
				if lock.closed && lock.czxid > e.base {
					closed[i][path.Base(lock.path)]++
				}
			}
		}
	}
	return func(s *story) (promise, string) {
		consumed := 0
		for i := range s.parts {
			p, again := &s.parts[i], 0
			for _, life := range p.lives {
				again += closed[i][path.Base(life.path)]
			}
			n := p.count(accepted)
			consumed += n
			switch {
			case i > 0 && n > 0 && !p.cutOff && p.gone(r.eras[i].base):
				return noDuplicate, "was consumed after a restore, and the backup did not have it"
			case n > 1+again:
				return noDuplicate, fmt.Sprintf("was consumed %d times, and %d sessions were closed that had its lock", n, again)
			}
		}
		if p := s.last(); consumed == 0 && len(p.lives) > 0 && p.gone(math.MaxInt64) {
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
		var have []string // the clients that have consumed it, or may have
		for i := range s.parts {
			if what := r.simpleTwice(i, &s.parts[i], sessions); what != "" {
				return noDuplicate, what
			}
			for _, e := range s.parts[i].consumers {
				have = append(have, e.Client)
			}
		}
		for _, life := range s.last().lives[:min(1, len(s.last().lives))] {
			if by := sessions[life.deleted.session]; life.deleted.zxid != 0 && by != "" && !killed[by] && !slices.Contains(have, by) {
				return noLostItem, fmt.Sprintf("was deleted by %s, which does not have it", by)
			}
		}
		return "", ""
	}
}

// simpleTwice says whether an item has come to more consumers in an era than to the one that has deleted it.
func (r *roundReport) simpleTwice(era int, p *storyPart, sessions map[int64]string) string {
	var has []string // the clients that have consumed it
	for _, e := range p.consumers {
		if e.Outcome == accepted {
			has = append(has, e.Client)
		}
	}
	switch {
	case len(has) == 0:
		return ""
	case len(has) > 1:
		return fmt.Sprintf("was consumed %d times, by %v", len(has), has)
	case era > 0 && !p.cutOff && p.gone(r.eras[era].base):
		return fmt.Sprintf("was consumed by %s after a restore, and the backup did not have it", has[0])
	case len(p.lives) == 0:
		return "" // the servers have cut it off their logs
	}
	life := p.lives[0]
	switch by := sessions[life.deleted.session]; {
	case life.deleted.zxid == 0 && !r.eras[era].log.deletedByFew(life):
		return fmt.Sprintf("was consumed by %s, and is still in the queue", has[0])
	case life.deleted.zxid != 0 && by != "" && has[0] != by:
		return fmt.Sprintf("was consumed by %s, and deleted by %s", has[0], by)
	}
	return ""
}

// deletedByFew reports whether the deletion of an item was cut off the logs.
func (l *transactionLog) deletedByFew(life *itemLife) bool {
	for _, w := range l.few.writes[life.path] {
		if w.deleted && w.zxid > life.created.zxid {
			return true
		}
	}
	return false
}
