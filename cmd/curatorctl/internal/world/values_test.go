// SPDX-License-Identifier: Apache-2.0

package world

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/atomic"
	"github.com/gocurator/curator/recipes/cache"
	"github.com/gocurator/curator/recipes/discovery"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/recipes/queues"
	"github.com/gocurator/curator/recipes/shared"
	"github.com/gocurator/curator/recipes/x/txn"
	"github.com/gocurator/curator/testing/zkserver"
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
		<-has
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

// counter is what changes of a counter have returned.
type counter struct {
	given   map[int64]bool
	inDoubt int
}

var accounts = []string{"/accounts/a", "/accounts/b", "/accounts/c"}

// values prepares a counter and accounts.
func (m *member) values() error {
	var opts []atomic.Option
	if m.o.is("counter", "promoted") {
		opts = append(opts, atomic.WithPromotedToLock("/counter-lock", 2))
	}
	number, err := atomic.NewDistributedAtomicLong(m.client, "/counter", opts...)
	if err != nil {
		return err
	}
	m.last, m.raise = number.Get, func(ctx context.Context) {
		value, err := number.Increment(ctx)
		m.count(value.Post, err)
	}
	if m.o.is("counter", "cached") {
		if err := m.cachedCount(number); err != nil {
			return err
		}
	}
	if m.o.is("counter", "shared") {
		if err := m.sharedCount(); err != nil {
			return err
		}
	}
	m.acts["counter"] = func(ctx context.Context, random *rand.Rand) {
		for range 1 + random.IntN(4) {
			m.raise(ctx)
		}
	}
	m.acts["transactions"] = func(ctx context.Context, random *rand.Rand) {
		switch random.IntN(3) {
		case 0:
			for range 3 {
				m.logf("transfer: %v", m.transfer(ctx, random))
			}
			m.all.chance(ruleAccounts)
			return
		case 1:
			m.audit(ctx, random)
			return
		default: // under a lock
		}
		m.hold(ctx, random, "/mutex", true, m.mutex, 0, func(held context.Context) {
			lease := locks.LeaseFrom(held)
			err := m.transfer(held, random, txn.With(lease)) // not for longer than the hold
			m.logf("transfer under %v: %v", lease, err)
		})
	}
	if !m.o.plays("transactions") {
		return nil
	}
	for _, path := range accounts {
		_, err := m.client.Create(context.Background(), path, []byte("100"), framework.CreatingParentsIfNeeded(), framework.Idempotent())
		if err != nil && !errors.Is(err, framework.ErrNodeExists) {
			return err
		}
	}
	return nil
}

// cachedCount prepares numbers from blocks.
func (m *member) cachedCount(number *atomic.DistributedAtomicLong) error {
	const block = 3
	cached, err := atomic.NewCachedAtomicLong(number, block)
	m.raise = func(ctx context.Context) {
		n, err := cached.Next(ctx)
		m.count(n, err)
	}
	m.last = func(ctx context.Context) (int64, error) { // of the numbers that were given at most
		last, err := number.Get(ctx)
		m.all.Lock()
		defer m.all.Unlock()
		if n := int64(len(m.all.counter.given)); last >= n && !m.o.is("faults", "restores") {
			last = n // each process has dropped what was left of its block
		}
		return last, err
	}
	return err
}

// sharedCount prepares a copy of a number that each process raises by one. It finds that the copy goes back.
func (m *member) sharedCount() error {
	count, err := shared.NewSharedCount(m.client, "/count", 0)
	if err == nil {
		err = count.Start(context.Background())
	}
	if err != nil {
		return err
	}
	m.close = append(m.close, count.Close)
	last := int64(0) // the transaction of the newest change
	count.OnChange(func(v shared.VersionedCount) {
		if v.Zxid <= last && !m.forgets() {
			m.findf("hears of %d, set by %#x, after %#x", v.Count, v.Zxid, last)
		}
		last = v.Zxid
	})
	m.last = func(context.Context) (int64, error) {
		n, err := count.Count()
		return int64(n), err
	}
	m.raise = func(ctx context.Context) {
		before, err := count.VersionedCount()
		if err != nil { // the process was killed
			m.logf("the count: %v", err)
			return
		}
		if ok, err := count.TrySetCount(ctx, before, before.Count+1); ok || err != nil {
			m.count(int64(before.Count)+1, err)
		}
	}
	return nil
}

func (m *member) count(value int64, err error) {
	if m.logf("counts %d: %v", value, err); m.o.is("faults", "restores") {
		return
	}
	m.all.Lock()
	defer m.all.Unlock()
	c := &m.all.counter
	switch {
	case framework.OutcomeUnknown(err):
		c.inDoubt++
	case err == nil && c.given[value]:
		defer m.findf("%d was given again", value)
	case err == nil:
		if len(c.given) > 1 {
			m.all.chance(ruleCounted)
		}
		if c.given == nil {
			c.given = make(map[int64]bool)
		}
		c.given[value] = true
	}
}

// transfer moves an amount from one account to another.
func (m *member) transfer(ctx context.Context, random *rand.Rand, opts ...txn.Option) error {
	order, amount := random.Perm(len(accounts)), random.IntN(50)
	if random.IntN(2) == 0 {
		opts = append(opts, txn.VersionsOnly()) // no look before the commit finds what the versions would
	}
	return txn.Do(ctx, m.client, func(tx *txn.Tx) error {
		for i, change := range []int{-amount, amount} {
			path := accounts[order[i]]
			data, err := tx.Get(path)
			if err != nil {
				return err
			}
			sleep(ctx, upTo(random, time.Second)) // another transfer may come between
			balance, err := strconv.Atoi(string(data))
			if err == nil {
				err = tx.Set(path, strconv.AppendInt(nil, int64(balance+change), 10))
			}
			if err != nil {
				return err
			}
		}
		return nil
	}, opts...)
}

var errTorn = errors.New("the accounts have another sum")

// audit finds an error that comes from two states of the accounts.
func (m *member) audit(ctx context.Context, random *rand.Rand) {
	for range 5 {
		err := txn.Do(ctx, m.client, func(tx *txn.Tx) error {
			sum := 0
			for _, path := range accounts {
				data, err := tx.Get(path)
				if err != nil {
					return err
				}
				balance, err := strconv.Atoi(string(data))
				if err != nil {
					return err
				}
				sum += balance
				sleep(ctx, upTo(random, 500*time.Millisecond))
			}
			if sum != 100*len(accounts) {
				m.all.chance(ruleTorn)
				return errTorn
			}
			return nil
		})
		m.logf("audit: %v", err)
		if errors.Is(err, errTorn) {
			m.findf("the accounts: %v", err)
		}
	}
}

func (all *truth) settleCounter(ctx context.Context, m *member) {
	for _, other := range all.members {
		last, err := other.last(ctx)
		if n := len(all.counter.given); err != nil || !m.o.is("faults", "restores") && (last < int64(n) || last > int64(n+all.counter.inDoubt)) {
			other.findf("the counter is %d after %d increments and %d in doubt: %v", last, n, all.counter.inDoubt, err)
		}
	}
	sum := 0
	for _, z := range m.znodes("/accounts") {
		n, _ := strconv.Atoi(string(z.Data)) // the folder has no data
		sum += n
	}
	if sum != 100*len(accounts) && m.o.plays("transactions") {
		m.findf("the accounts have %d together", sum)
	}
}

// views prepares a picture of the whole tree.
func (m *member) views() error {
	var opts []cache.Option
	switch m.o.get("depth") {
	case "1":
		opts = append(opts, cache.WithMaxDepth(1))
	case "children":
		opts = append(opts, cache.WithChildrenOnly())
	case "selected":
		opts = append(opts, cache.WithSelector(cache.TreeCacheSelector{TraverseChildren: isOpen, AcceptChild: isNotLeftOut}))
	default:
	}
	tree, err := cache.NewCuratorCache(m.client, "/", opts...)
	if err != nil {
		return err
	}
	m.tree, m.told = tree, make(map[string]string)
	m.close = append(m.close, tree.Close)
	newest := make(map[string]int64) // by path, also of those that are no more
	tree.Listen(func(e cache.Event) {
		m.all.Lock()
		defer m.all.Unlock()
		was, there := m.told[e.Path]
		if (e.Old != nil) != there || there && string(e.Old.Data) != was {
			m.findf("was told %s of %s, and knew %q (%t)", e.Type, e.Path, was, there)
		}
		if e.New == nil {
			delete(m.told, e.Path)
			return
		}
		now := e.New.Stat.Mzxid
		if last, again := newest[e.Path]; again && now <= last && !m.o.is("faults", "restores") {
			m.findf("was told %#x of %s after %#x", now, e.Path, last)
		}
		m.told[e.Path], newest[e.Path] = string(e.New.Data), now
	}, cache.For(cache.NodeCreated, cache.NodeChanged, cache.NodeDeleted))
	return tree.Start()
}

// isNotLeftOut reports whether a view of selected znodes has one, and isOpen whether it has what is below one.
func isNotLeftOut(path string) bool { return len(path)%3 > 0 }
func isOpen(path string) bool       { return len(path)%5 > 0 }

// sees reports whether the view has a znode.
func (m *member) sees(path string) bool {
	level := len(strings.FieldsFunc(path, func(r rune) bool { return r == '/' }))
	switch m.o.get("depth") {
	case "1":
		return level <= 1
	case "children":
		return level == 1
	case "selected":
		for end := range path { // all above it are selected and open, and it is selected
			if above := path[:end]; end > 0 && path[end] == '/' && (!isNotLeftOut(above) || !isOpen(above)) {
				return false
			}
		}
		return path == "/" || isNotLeftOut(path)
	default:
		return true
	}
}

// discovery prepares a service.
func (m *member) discovery() error {
	services, err := discovery.NewServiceDiscovery[string](m.client, "/services", nil)
	if err != nil {
		return err
	}
	found, err := services.NewCache("orders")
	if err == nil {
		err = found.Start()
	}
	if err != nil {
		return err
	}
	m.services, m.found = services, found
	m.close = append(m.close, found.Close, services.Close)
	m.all.Lock()
	defer m.all.Unlock()
	if m.all.there == nil {
		m.all.there = make(map[string]bool)
	}
	mine := fmt.Sprintf("%d-", m.c.Index)
	for id := range m.all.there { // those of the process before are gone, or will be
		if strings.HasPrefix(id, mine) {
			m.all.there[id] = false
		}
	}
	n := 0
	m.acts["discovery"] = func(ctx context.Context, random *rand.Rand) {
		n++
		instance := discovery.NewInstance[string]("orders", "10.0.0.7", 8080)
		instance.ID = mine + strconv.Itoa(n)
		set := func(there bool) {
			m.all.Lock()
			defer m.all.Unlock()
			m.all.there[instance.ID] = there
		}
		err := services.Register(ctx, instance)
		m.logf("registers %s: %v", instance.ID, err)
		if ctx.Err() != nil { // the process was killed
			return
		}
		if set(err == nil); err != nil || random.IntN(2) == 0 {
			return
		}
		sleep(ctx, upTo(random, 2*time.Second))
		if random.IntN(2) == 0 {
			payload := strconv.Itoa(random.IntN(100))
			instance.Payload = &payload
			m.logf("updates %s: %v", instance.ID, services.Update(ctx, instance))
			return
		}
		if ctx.Err() == nil {
			m.logf("unregisters %s: %v", instance.ID, services.Unregister(instance))
			set(false)
		}
	}
	return nil
}

// settleDiscovery finds instances that are missing or left.
func (all *truth) settleDiscovery(ctx context.Context, m *member) {
	there := make(map[string]bool)
	for _, z := range m.znodes("/services/orders") {
		if id, isInstance := strings.CutPrefix(z.Path, "/services/orders/"); isInstance {
			there[id] = true
		}
	}
	for id, want := range all.there {
		if want {
			all.chance(ruleRegistered)
		} else {
			all.chance(ruleUnregistered)
		}
		if there[id] != want {
			m.w.Findf("instance %s is there: %t, expected %t", id, there[id], want)
		}
	}
	if !m.o.plays("discovery") {
		return
	}
	all.chance(ruleFound)
	read, err := m.services.Instances(ctx, "orders")
	if err != nil || len(read) != len(there) {
		m.findf("reads the instances %v, %v, and there are %v", read, err, there)
	}
	text := func(i *discovery.ServiceInstance[string]) string {
		if i.Payload == nil {
			return i.ID
		}
		return i.ID + " with " + *i.Payload
	}
	want := make(map[string]bool)
	for _, instance := range read {
		want[text(&instance)] = true
	}
	for _, other := range all.members {
		found := make(map[string]bool)
		for _, instance := range other.found.Instances() {
			found[text(instance)] = true
		}
		if !maps.Equal(found, want) {
			other.findf("finds the instances %v, and there are %v", found, want)
		}
	}
}

// settleViews finds pictures that differ from the tree. Clients confirm their sessions meanwhile, so one difference is none.
func (all *truth) settleViews(ctx context.Context) {
	for i, m := range all.members {
		if m.tree == nil {
			continue
		}
		all.chance(ruleViews)
		if err := m.tree.Fresh(ctx); err != nil {
			m.w.Findf("view %d: %v", i, err)
		}
		wrong := m.wrongInView()
		for n := 0; n < 3 && wrong != ""; n++ {
			time.Sleep(time.Second)
			wrong = m.wrongInView()
		}
		if wrong != "" {
			m.w.Findf("view %d has %s", i, wrong)
		}
	}
}

// wrongInView returns a difference between the picture and the tree, or "".
func (m *member) wrongInView() string {
	m.all.Lock()
	told := len(m.told)
	m.all.Unlock()
	if n := m.tree.Size(); n != told {
		return fmt.Sprintf("%d znodes, and its listener was told of %d", n, told)
	}
	znodes := slices.DeleteFunc(m.znodes("/"), func(z zkserver.Znode) bool { return !m.sees(z.Path) })
	for path := range m.tree.Stream() {
		isIt := func(z zkserver.Znode) bool { return z.Path == path }
		if !strings.HasPrefix(path, "/zookeeper") && !slices.ContainsFunc(znodes, isIt) {
			return path + ", and the servers do not"
		}
	}
	for _, z := range znodes {
		has, found := m.tree.Get(z.Path)
		lacks := !found && m.o.is("compression", "on") // what is not compressed
		if !lacks && (!found || !bytes.Equal(plain(has.Data), z.Data)) {
			return fmt.Sprintf("%v at %s, and the servers have %q", has, z.Path, z.Data)
		}
	}
	return ""
}
