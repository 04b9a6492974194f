// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/atomic"
	"github.com/gocurator/curator/recipes/barriers"
	"github.com/gocurator/curator/recipes/queues"
)

// runJavaValues measures Curator's counters, barriers and queues.
func runJavaValues(ctx context.Context, at servers, l load, path string) (result, error) {
	return runSource(ctx, javaValuesSource, "BenchValues.java", java(), at.zookeeper, path, l.Kind,
		strconv.Itoa(l.Clients), strconv.Itoa(l.Goroutines), strconv.Itoa(l.Items), strconv.FormatInt(l.Duration.Milliseconds(), 10))
}

// runValues measures the counters, barriers and queues of this library.
func runValues(ctx context.Context, at servers, l load, path string) (_ result, err error) {
	var clients []*framework.Framework
	var open closers
	defer func() { err = errors.Join(err, open.close()) }()
	for range l.Clients {
		client, err := connectSelf(ctx, at)
		if err != nil {
			return result{}, err
		}
		open, clients = append(open, client.Close), append(clients, client)
	}
	switch l.Kind {
	case counter:
		return count(ctx, l, path, clients)
	case doubleBarrier:
		return meet(ctx, l, path, clients)
	default:
		return queueUp(ctx, l, path, clients[0], clients[1])
	}
}

// count has goroutines increment a counter. A turn is an increment.
func count(ctx context.Context, l load, path string, clients []*framework.Framework) (result, error) {
	var adders []locker
	for _, client := range clients {
		number, err := atomic.NewDistributedAtomicLong(client, path)
		if err != nil {
			return result{}, err
		}
		add := func(ctx context.Context, _ bool) (func(context.Context) error, error) {
			_, err := number.Increment(ctx)
			return func(context.Context) error { return nil }, err
		}
		for range l.Goroutines {
			adders = append(adders, add)
		}
	}
	return drive(ctx, l, adders)
}

// meet has all members enter a barrier and leave it, for as long as the load says,
// after a round to warm up. The turns are rounds, but the servers' figures are for
// each member of each round.
func meet(ctx context.Context, l load, path string, clients []*framework.Framework) (r result, err error) {
	n := l.Clients * l.Goroutines
	var members []*barriers.DistributedDoubleBarrier
	for i := range n {
		member, err := barriers.NewDistributedDoubleBarrier(clients[i%len(clients)], path, n)
		if err != nil {
			return result{}, err
		}
		members = append(members, member)
	}
	var rounds []float64
	var since warm
	for len(rounds) == 0 || time.Since(since.at) < l.Duration {
		began := time.Now()
		if err := together(members, func(m *barriers.DistributedDoubleBarrier) error { return m.Enter(ctx) }); err != nil {
			return result{}, err
		}
		if err := together(members, func(m *barriers.DistributedDoubleBarrier) error { return m.Leave(ctx) }); err != nil {
			return result{}, err
		}
		r.All += n
		if since.at.IsZero() {
			since = warm{time.Now(), costSoFar()}
			continue
		}
		rounds = append(rounds, microseconds(time.Since(began)))
	}
	r.Turns, r.Seconds, r.TurnP50 = len(rounds), time.Since(since.at).Seconds(), median(rounds)
	r.spent(&since)
	return r, nil
}

// together calls fn for all members at once, and returns their errors.
func together(members []*barriers.DistributedDoubleBarrier, fn func(*barriers.DistributedDoubleBarrier) error) error {
	errs := make([]error, len(members))
	var all sync.WaitGroup
	for i, m := range members {
		all.Go(func() { errs[i] = fn(m) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// itemsLine is one end of a queue: it puts so many items, and waits until they are there,
// or consumes so many.
type itemsLine struct {
	put     func(ctx context.Context, n int) error
	consume func(ctx context.Context, n int) error
}

// queueUp puts items into a queue, and then has another client consume them. A turn is
// an item.
func queueUp(ctx context.Context, l load, path string, producer, consumer *framework.Framework) (r result, err error) {
	for _, part := range []string{"/warm", "/measured"} {
		to, err := itemsOf(l.Kind, producer, path+part)
		if err != nil {
			return result{}, err
		}
		from, err := itemsOf(l.Kind, consumer, path+part)
		if err != nil {
			return result{}, err
		}
		began := warm{time.Now(), costSoFar()}
		if err := to.put(ctx, l.Items); err != nil {
			return result{}, err
		}
		there := time.Now()
		if err := from.consume(ctx, l.Items); err != nil {
			return result{}, err
		}
		r.All, r.Turns, r.Seconds = r.All+l.Items, l.Items, time.Since(began.at).Seconds()
		r.Put, r.Consumed = float64(l.Items)/there.Sub(began.at).Seconds(), float64(l.Items)/time.Since(there).Seconds()
		r.spent(&began)
	}
	return r, nil
}

// itemsOf opens a queue. Items are put in the background, as Curator's default is, but
// into a simple queue, which has none.
func itemsOf(kind string, client *framework.Framework, path string) (itemsLine, error) {
	background := queues.WithPutInBackground()
	switch kind {
	case itemsFifo, itemsLocked:
		opts := []queues.Option{background}
		if kind == itemsLocked {
			opts = append(opts, queues.WithLockPath(path+"-locks"))
		}
		q, err := queues.NewDistributedQueue(client, path, opts...)
		return envelopes(q, q.Put), err
	case itemsPriority:
		q, err := queues.NewDistributedPriorityQueue(client, path, background)
		return envelopes(q, func(ctx context.Context, item []byte) error { return q.Put(ctx, item, 5) }), err
	case itemsDelay:
		q, err := queues.NewDistributedDelayQueue(client, path, background)
		return envelopes(q, func(ctx context.Context, item []byte) error { return q.Put(ctx, item, time.Now()) }), err
	case itemsID:
		q, err := queues.NewDistributedIdQueue(client, path, background)
		return envelopes(q, func(ctx context.Context, item []byte) error { return q.Put(ctx, item, string(item)) }), err
	case itemsSimple:
		q, err := queues.NewSimpleDistributedQueue(client, path)
		return itemsLine{
			put: func(ctx context.Context, n int) error {
				return times(n, func(item []byte) error { return q.Offer(ctx, item) })
			},
			consume: func(ctx context.Context, n int) error {
				return times(n, func([]byte) error { _, err := q.Take(ctx); return err })
			},
		}, err
	default:
		return itemsLine{}, fmt.Errorf("queue %q, expected one that there is", kind)
	}
}

// times calls fn with so many items.
func times(n int, fn func(item []byte) error) error {
	for i := range n {
		if err := fn([]byte("item-" + strconv.Itoa(i))); err != nil {
			return err
		}
	}
	return nil
}

// errAllConsumed ends a consumer.
var errAllConsumed = errors.New("all items are consumed")

// envelopes is a queue with a consumer.
func envelopes(q interface {
	queues.Sharded
	FlushPuts(ctx context.Context) error
}, put func(ctx context.Context, item []byte) error,
) itemsLine {
	return itemsLine{
		put: func(ctx context.Context, n int) error {
			if err := times(n, func(item []byte) error { return put(ctx, item) }); err != nil {
				return err
			}
			return q.FlushPuts(ctx)
		},
		consume: func(ctx context.Context, n int) error {
			ctx, stop := context.WithCancelCause(ctx)
			defer stop(nil)
			err := q.Consume(ctx, func(context.Context, []byte) error {
				if n--; n == 0 {
					stop(errAllConsumed)
				}
				return nil
			})
			if errors.Is(context.Cause(ctx), errAllConsumed) {
				return nil
			}
			return err
		},
	}
}
