// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/queues"
)

// items are what was put into the queue, and what became of it.
type items struct {
	offered, taken map[string]error
	due            map[string]time.Time                                                        // before which none is taken
	put            map[int]func(ctx context.Context, random *rand.Rand, items ...[]byte) error // of each process
	all            map[int]func(ctx context.Context) iter.Seq2[*queues.Item, error]
}

var errMayComeAgain = errors.New("it may come again")

// queue prepares a queue that processes put items into, consume, and write by hand.
func (m *member) queue() error {
	var opts []queues.Option
	if m.o.is("failures", "dead letters") && m.o.is("items", "locked") {
		opts = append(opts, queues.WithMaxAttempts(2, "/dead"))
	}
	isKept := !m.removesFirst() // until it was consumed
	switch m.o.get("items") {
	case "locked":
		opts = append(opts, queues.WithLockPath("/queue-locks"))
	case "late":
		opts = append(opts, queues.WithLateRemoval())
	default:
	}
	if m.o.is("failures", "deleted") && isKept {
		opts = append(opts, queues.WithErrorMode(queues.Delete))
	}
	if m.o.is("room", "2") {
		opts = append(opts, queues.WithMaxItems(2))
	}
	if m.o.is("puts", "in the background") {
		opts = append(opts, queues.WithPutInBackground())
	}
	if m.o.is("from a list", "3") {
		opts = append(opts, queues.WithMinItemsBeforeRefresh(3))
	}
	put, all, err := m.openQueue(opts)
	if err != nil {
		return err
	}
	m.all.Lock()
	defer m.all.Unlock()
	i := &m.all.items
	if i.offered == nil {
		i.offered, i.taken, i.due = make(map[string]error), make(map[string]error), make(map[string]time.Time)
		i.put = make(map[int]func(context.Context, *rand.Rand, ...[]byte) error)
		i.all = make(map[int]func(context.Context) iter.Seq2[*queues.Item, error])
	}
	i.put[m.c.Index], i.all[m.c.Index] = put, all
	m.acts["queue"] = func(ctx context.Context, random *rand.Rand) {
		switch n := random.IntN(10); {
		case n < 5:
			m.offer(ctx, random, put)
		case n < 6:
			m.writeItems(ctx)
		default:
			m.consume(ctx, random, all, isKept)
		}
	}
	return nil
}

func (m *member) openQueue(opts []queues.Option) (put func(context.Context, *rand.Rand, ...[]byte) error, all func(context.Context) iter.Seq2[*queues.Item, error], err error) {
	const path = "/queue"
	switch m.o.get("queue") {
	case "priority":
		q, err := queues.NewDistributedPriorityQueue(m.client, path, opts...)
		return func(ctx context.Context, random *rand.Rand, items ...[]byte) error {
			return m.flushed(ctx, q.PutMulti(ctx, random.Int32N(3), items...), q.FlushPuts)
		}, q.Items, err
	case "delay":
		q, err := queues.NewDistributedDelayQueue(m.client, path, opts...)
		return func(ctx context.Context, random *rand.Rand, items ...[]byte) error {
			due := time.Now().Add(upTo(random, 3*time.Second))
			m.all.Lock()
			for _, item := range items {
				m.all.items.due[string(item)] = due
			}
			m.all.Unlock()
			return m.flushed(ctx, q.PutMulti(ctx, due, items...), q.FlushPuts)
		}, q.Items, err
	case "id":
		q, err := queues.NewDistributedIdQueue(m.client, path, opts...)
		return func(ctx context.Context, _ *rand.Rand, items ...[]byte) error {
			return m.flushed(ctx, q.PutMulti(ctx, string(items[0]), items...), q.FlushPuts)
		}, q.Items, err
	case "simple":
		q, err := queues.NewSimpleDistributedQueue(m.client, path)
		return func(ctx context.Context, _ *rand.Rand, items ...[]byte) error {
			for _, item := range items {
				if err := q.Offer(ctx, item); err != nil {
					return err
				}
			}
			return nil
		}, allOf(q), err
	default:
		q, err := queues.NewDistributedQueue(m.client, path, opts...)
		return func(ctx context.Context, _ *rand.Rand, items ...[]byte) error {
			return m.flushed(ctx, q.PutMulti(ctx, items...), q.FlushPuts)
		}, q.Items, err
	}
}

// flushed returns whether an item is in the queue.
func (m *member) flushed(ctx context.Context, err error, flush func(context.Context) error) error {
	if err == nil && m.o.is("puts", "in the background") {
		err = flush(ctx)
	}
	return err
}

// removesFirst reports whether a consumer removes an item before it has it, so that the item is lost with the consumer.
func (m *member) removesFirst() bool {
	return m.o.is("items", "removed first") || m.o.is("queue", "simple")
}

// allOf takes the items of a simple queue.
func allOf(q *queues.SimpleDistributedQueue) func(context.Context) iter.Seq2[*queues.Item, error] {
	return func(ctx context.Context) iter.Seq2[*queues.Item, error] {
		return func(yield func(*queues.Item, error) bool) {
			for {
				data, err := q.Take(ctx)
				if !yield(&queues.Item{Data: data}, err) || err != nil {
					return
				}
			}
		}
	}
}

func (m *member) offer(ctx context.Context, random *rand.Rand, put func(context.Context, *rand.Rand, ...[]byte) error) {
	i := &m.all.items
	var items [][]byte
	m.all.Lock()
	for range 1 + random.IntN(2) {
		item := fmt.Sprintf("item-%d-%03d.", m.c.Index, len(i.offered)) // none is a part of another
		i.offered[item] = errors.New("under way")
		items = append(items, []byte(item))
	}
	m.all.Unlock()
	ctx, cancel := context.WithTimeout(ctx, upTo(random, 20*time.Second)) // the queue may stay full
	defer cancel()
	err := put(ctx, random, items...)
	m.logf("puts %s: %v", items, err)
	m.all.Lock()
	defer m.all.Unlock()
	for _, item := range items {
		i.offered[string(item)] = err
	}
}

// writeItems writes items by hand, as an operator does who repairs them.
func (m *member) writeItems(ctx context.Context) {
	names, err := m.client.Children(ctx, "/queue")
	for _, name := range names {
		var stat framework.Stat
		data, err := m.client.Get(ctx, "/queue/"+name, framework.StoringStatIn(&stat))
		if err == nil {
			err = m.client.Set(ctx, "/queue/"+name, data, framework.WithVersion(stat.Version))
		}
		m.logf("writes %s: %v", name, err)
		if err == nil {
			m.all.chance(ruleItemWritten)
		}
	}
	m.logf("writes items: %v", err)
}

func (m *member) consume(ctx context.Context, random *rand.Rand, all func(context.Context) iter.Seq2[*queues.Item, error], isKept bool) {
	ctx, cancel := context.WithTimeout(ctx, upTo(random, 8*time.Second))
	defer cancel()
	often := 8
	if m.o.is("failures", "dead letters") {
		often = 2
	}
	for item, err := range all(ctx) {
		if err != nil {
			m.logf("consumes: %v", err)
			return
		}
		m.judgeDue(item.Data)
		sleep(ctx, upTo(random, 300*time.Millisecond))
		switch {
		case random.IntN(often) == 0 && isKept:
			if m.o.is("failures", "deleted") {
				m.take(item.Data, errMayComeAgain)
			}
			item.Fail(errors.New("it has to come again"))
		case isKept && m.o.is("results", "transaction"):
			m.take(item.Data, item.Transact(ctx, framework.CreateOp("/result-", item.Data, framework.WithMode(framework.PersistentSequential))))
		case isKept:
			m.take(item.Data, errMayComeAgain)
		default:
			m.take(item.Data, nil)
		}
	}
}

// judgeDue finds an item that is given before it is due.
func (m *member) judgeDue(item []byte) {
	m.all.Lock()
	due, isDelayed := m.all.items.due[string(item)]
	m.all.Unlock()
	if isDelayed {
		m.all.chance(ruleDue)
	}
	if early := time.Until(due); isDelayed && early > time.Millisecond {
		m.findf("%s is given %v before it is due", item, early)
	}
}

// take notes that an item was consumed, with an error that says that it may come again.
func (m *member) take(item []byte, err error) {
	m.logf("takes %s: %v", item, err)
	m.all.Lock()
	defer m.all.Unlock()
	before, again := m.all.items.taken[string(item)]
	if again && before == nil && err == nil && !m.o.is("faults", "restores") {
		defer m.findf("%s was taken again", item)
	}
	if !again || err == nil {
		m.all.items.taken[string(item)] = err
	}
}

var anItem = regexp.MustCompile(`item-[0-9a-z-]+\.`)

// settleItems finds items that are lost or come twice, and takes those that are there.
func (all *truth) settleItems(ctx context.Context, m *member) {
	if !m.o.plays("queue") {
		return
	}
	in := func(path string) (items map[string]bool) {
		items = make(map[string]bool)
		for _, z := range m.znodes(path) {
			for _, found := range anItem.FindAll(z.Data, -1) {
				items[string(found)] = true
			}
		}
		return items
	}
	results := make(map[string]int)
	for _, z := range m.znodes("/") {
		if strings.HasPrefix(z.Path, "/result-") {
			results[string(z.Data)]++
		}
	}
	left, dead := in("/queue"), in("/dead")
	if len(dead) > 0 {
		all.chance(ruleDeadLetter)
	}
	if m.o.is("faults", "restores") {
		clear(all.items.offered)
	}
	for item, err := range all.items.offered {
		doubt, taken := all.items.taken[item]
		if taken && doubt == nil {
			all.chance(ruleItemOnce)
		}
		if err == nil && !m.removesFirst() {
			all.chance(ruleItemLost)
		}
		switch n := results[item]; {
		case n > 1 || n == 1 && left[item]:
			m.findf("%s has %d results, and is in the queue: %t", item, n, left[item])
		case taken && doubt == nil && left[item]:
			m.findf("%s was taken, and is in the queue", item)
		case dead[item] && (n > 0 || left[item]):
			m.findf("%s is a dead letter, has %d results, and is in the queue: %t", item, n, left[item])
		case m.removesFirst(): // a consumer that dies has it
		case err == nil && !taken && !left[item] && !dead[item] && n == 0:
			m.findf("%s is lost", item)
		}
	}
	m.drain(ctx, func() map[string]bool { return in("/queue") })
	if !m.removesFirst() {
		m.failLast(ctx, in)
		all.handOver(ctx)
	}
}

// failLast has a consumer fail with an item until it is told to succeed, and judges what becomes of the item.
func (m *member) failLast(ctx context.Context, in func(path string) map[string]bool) {
	const item, most = "item-fails.", 3
	want := most + 1
	switch {
	case m.o.is("failures", "deleted"):
		want = 1
	case m.o.is("failures", "dead letters") && m.o.is("items", "locked"):
		want = 2
	}
	m.all.chance(ruleFailed)
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	i, given := &m.all.items, 0
	m.logf("puts %s: %v", item, i.put[m.c.Index](ctx, rand.New(rand.NewPCG(1, 1)), []byte(item)))
	for got, err := range i.all[m.c.Index](ctx) {
		if err != nil {
			break
		}
		if given++; given <= most {
			got.Fail(errors.New("it has to come again"))
		}
	}
	if given != want || in("/queue")[item] || in("/dead")[item] != (want == 2) {
		m.findf("%s, with which consumers fail, was given %d times, expected %d; queue: %v, dead letters: %v", item, given, want, in("/queue"), in("/dead"))
	}
}

// handOver has an operator write an item that one process has, so that it stays in the queue, and another process wait for it.
func (all *truth) handOver(ctx context.Context) {
	members := all.sorted()
	one, other, i := members[0], members[len(members)-1], &all.items
	if one == other {
		return
	}
	all.chance(ruleHandedOver)
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	one.logf("puts the item: %v", i.put[one.c.Index](ctx, rand.New(rand.NewPCG(1, 1)), []byte("item-handed.")))
	has, came := make(chan struct{}), make(chan struct{})
	var consuming sync.WaitGroup
	consuming.Go(func() {
		for _, err := range i.all[one.c.Index](ctx) {
			if close(has); err != nil {
				return
			}
			sleep(ctx, 5*time.Second)
			one.writeItems(ctx)
			return
		}
	})
	consuming.Go(func() {
		select {
		case <-has:
		case <-ctx.Done():
			return
		}
		for _, err := range i.all[other.c.Index](ctx) {
			if err == nil {
				close(came)
			}
			return
		}
	})
	select {
	case <-came:
	case <-time.After(15 * time.Second):
		other.findf("does not get an item that another process has given back")
	}
	cancel()
	consuming.Wait()
}

// drain has a consumer take all items while an operator writes each of them once, and finds those that stay.
func (m *member) drain(ctx context.Context, there func() map[string]bool) {
	i := &m.all.items
	ctx, cancel := context.WithCancel(ctx)
	var putting, consuming sync.WaitGroup
	putting.Go(func() {
		put := func(n int) error {
			return i.put[m.c.Index](ctx, rand.New(rand.NewPCG(1, 1)), fmt.Appendf(nil, "item-last-%d.", n))
		}
		m.logf("puts the first of the last items: %v", put(0)) // or the error of one before it
		for n := 1; n < 4; n++ {
			if err := put(n); err != nil {
				m.findf("the last items: %v", err)
			}
		}
	})
	consuming.Go(func() {
		for range 20 {
			m.writeItems(ctx)
		}
	})
	consuming.Go(func() {
		given, last := make(map[string]bool), ""
		for item, err := range i.all[m.c.Index](ctx) {
			if ctx.Err() != nil {
				return
			}
			if err != nil {
				m.findf("the last consumer has ended: %v", err)
				return
			}
			m.judgeDue(item.Data)
			if given[string(item.Data)] {
				continue
			}
			given[string(item.Data)] = true
			m.writeItems(ctx)
			if now := string(item.Data); strings.HasPrefix(now, "item-last") && !m.o.is("queue", "priority") && !m.o.is("queue", "delay") {
				m.all.chance(ruleItemOrder)
				if now < last {
					m.findf("%s is given after %s", now, last)
				}
				last = now
			}
		}
	})
	putting.Wait()
	left := there()
	for end := time.Now().Add(time.Minute); len(left) > 0 && time.Now().Before(end); left = there() {
		time.Sleep(100 * time.Millisecond)
	}
	for item := range left {
		m.findf("%s stays in the queue, although there is a consumer", item)
	}
	cancel()
	consuming.Wait()
}
