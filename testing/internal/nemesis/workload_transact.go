// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/queues"
)

const (
	noDoubleResult promise = "double_results" // an item has one result, or one dead letter, at most
	noLostResult   promise = "lost_results"   // an item that is gone has one
)

// transactWorkloads are consumers that remove an item together with its result.
var transactWorkloads = []workload{
	{
		name: "transact", workers: 1, least: 60, folders: noFolders,
		promises:      []promise{noDoubleResult, noLostResult},
		findAtServers: wrongResults, done: consumptionsOf, prepare: prepareTransact,
	},
}

// What consumers write, below the path of the spec. The names of results come from the server, so
// it would take a second one of an item.
const (
	itemResults = "results"
	deadItems   = "dead"
	mostTries   = 3 // of an item, before it is a dead letter
)

// transacting is what a worker has of the queue.
type transacting struct {
	*worker

	queue *queues.DistributedQueue
	items int
}

func prepareTransact(w *worker) (func(context.Context), error) {
	root := w.spec.path()
	queue, err := queues.NewDistributedQueue(w.client.framework, root+"/"+lockedItems,
		queues.WithLockPath(root+"/"+itemLocks), queues.WithMaxAttempts(mostTries, root+"/"+deadItems))
	if err != nil {
		return nil, err
	}
	return (&transacting{worker: w, queue: queue}).turn, nil
}

// turn puts items into the queue or consumes some. The last one leaves it empty.
func (q *transacting) turn(ctx context.Context) {
	if q.last {
		q.put(ctx)
		q.drain(ctx)
		return
	}
	counting, cancel := q.bounds(ctx)
	waiting, err := q.queue.Len(counting)
	cancel()
	if full := err == nil && waiting >= fullQueue; !full && q.random.IntN(2) == 0 {
		q.put(ctx)
		return
	}
	q.consume(ctx)
}

// put puts an item or two into one znode.
func (q *transacting) put(ctx context.Context) {
	ctx, cancel := q.bounds(ctx)
	defer cancel()
	c := q.call(q.spec.Name, "", false)
	var data [][]byte
	for range 1 + q.random.IntN(2) {
		q.items++
		data = append(data, fmt.Appendf(nil, "item:%s/%d;", q.name, q.items))
	}
	err := q.client.framework.Mkdirs(ctx, q.spec.path()+"/"+itemResults)
	if err == nil {
		err = q.queue.PutMulti(ctx, data...)
		for _, item := range data {
			q.note(event{Kind: offered, Value: string(item), Outcome: changed(err), Error: text(err)})
		}
	}
	if err != nil {
		c.failed(monotonic(), err)
		return
	}
	c.ended(monotonic(), nil)
}

func (q *transacting) note(e event) {
	e.Lock, e.Owner = q.spec.Name, lockedItems
	q.client.history.add(e)
}

// consume removes some items together with their results. Some fail, some loops are left, and some
// calls end before their reply.
func (q *transacting) consume(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, longestTime)
	defer cancel()
	some := 1 + q.random.IntN(someItems)
	result := q.spec.path() + "/" + itemResults + "/result-"
	for item, err := range q.queue.Items(ctx) {
		if err != nil {
			return // its context has ended, as a rule
		}
		q.pause(q.upTo(shortHold))
		switch {
		case q.random.IntN(6) == 0:
			item.Fail(errNotConsumed)
		case some == 0:
			return
		default:
			bounded, cancel := ctx, func() {}
			if q.random.IntN(4) == 0 {
				bounded, cancel = context.WithTimeout(ctx, time.Duration(1+q.random.IntN(20))*time.Millisecond)
			}
			began := monotonic()
			err := item.Transact(bounded, framework.CreateOp(result, item.Data, framework.WithMode(framework.PersistentSequential)))
			cancel()
			q.note(event{Kind: consumed, Called: began, Value: string(item.Data), Outcome: changed(err), Error: text(err)})
		}
		some = max(0, some-1)
		if n, err := q.queue.Len(ctx); err == nil && n == 0 {
			return // so that no turn waits for an item
		}
	}
}

// drain consumes until the queue is empty.
func (q *transacting) drain(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 2*patience)
	defer cancel()
	c := q.call(q.spec.Name, "", false)
	for {
		err := q.client.framework.Sync(ctx, q.spec.path())
		waiting := 0
		if err == nil {
			waiting, err = q.queue.Len(ctx)
		}
		switch {
		case err == nil && waiting == 0:
			c.ended(monotonic(), nil)
			return
		case ctx.Err() != nil:
			c.failed(monotonic(), fmt.Errorf("%d znodes were left when they were counted last: %w", waiting, cmp.Or(err, ctx.Err())))
			return
		}
		q.consume(ctx)
	}
}

// wrongResults finds items with more than one result, and items that are gone without any, by
// the log of the last era: a restore takes items back together with their results.
func wrongResults(r *roundReport, spec lockSpec) (found []violation) {
	if r.log == nil {
		return nil
	}
	results, dead := r.log.livesOf(spec.path()+"/"+itemResults), r.log.livesOf(spec.path()+"/"+deadItems)
	for _, s := range stories(r, spec, lockedItems) {
		n := len(results[s.item]) + len(dead[s.item])
		v := violation{round: r, at: s.at}
		switch {
		case n > 1:
			v.promise, v.what = noDoubleResult, fmt.Sprintf("has %d results and %d dead letters", len(results[s.item]), len(dead[s.item]))
		case n == 0 && r.isFew(spec, s.item): // servers have cut it off their logs
			continue
		case n == 0 && s.last().count(accepted) > 0:
			v.promise, v.what = noLostResult, "has no result, and its transaction was acknowledged"
		case n == 0 && len(s.last().lives) > 0 && s.last().gone(math.MaxInt64):
			v.promise, v.what = noLostResult, "is gone, and has no result"
		default:
			continue
		}
		v.what = fmt.Sprintf("%s: %s %s", spec.Name, s.item, v.what)
		found = append(found, v)
	}
	return found
}

// isFew reports whether the result of an item, or its dead letter, is in the log of too few servers.
func (r *roundReport) isFew(spec lockSpec, item string) bool {
	for _, folder := range []string{itemResults, deadItems} {
		if r.log.few.livesOf(spec.path() + "/" + folder)[item] != nil {
			return true
		}
	}
	return false
}
