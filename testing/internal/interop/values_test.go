// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/atomic"
	"github.com/gocurator/curator/recipes/barriers"
	"github.com/gocurator/curator/recipes/queues"
	values "github.com/gocurator/curator/recipes/shared"
	"github.com/gocurator/curator/testing/zktest"
)

var increments = flag.Int("increments", 100, "how many times each side increments the counter of both")

// Both sides increment one counter at the same time. Each increment gets a
// number of its own, and together they are all numbers up to the sum.
func TestValuesIncrementsOfBothSides(t *testing.T) {
	eachBackend(t, func(t *testing.T, server zktest.Backend) {
		const path, goroutines = "/counters/orders", 4
		each := *increments
		java := newActor(t, server)
		long, err := atomic.NewDistributedAtomicLong(zktest.Client(t, server), path)
		require.NoError(t, err)
		answer := java.Begin("increment", path, strconv.Itoa(each))
		var mu sync.Mutex
		var got []int64
		var wg sync.WaitGroup
		for range goroutines {
			wg.Go(func() {
				for range each / goroutines {
					value, err := long.Increment(zktest.Context(t))
					if err != nil {
						t.Errorf("increment: %v", err)
						return
					}
					mu.Lock()
					got = append(got, value.Post)
					mu.Unlock()
				}
			})
		}
		theirs, err := answer(zktest.Context(t))
		require.NoError(t, err)
		wg.Wait()
		for _, word := range theirs {
			n, err := strconv.ParseInt(word, 10, 64)
			require.NoError(t, err)
			got = append(got, n)
		}
		slices.Sort(got)
		require.Len(t, got, len(theirs)+each/goroutines*goroutines)
		for i, n := range got {
			require.Equal(t, int64(i+1), n)
		}
	})
}

// Each side hears the counts that the other sets, in their order.
func TestValuesCountsOfBothSides(t *testing.T) {
	eachBackend(t, func(t *testing.T, server zktest.Backend) {
		const path = "/counts/limit"
		java := newActor(t, server)
		count, err := values.NewSharedCount(zktest.Client(t, server), path, 7)
		require.NoError(t, err)
		require.NoError(t, count.Start(zktest.Context(t)))
		t.Cleanup(func() { require.NoError(t, count.Close()) })
		heard := make(chan int32, 100)
		count.OnChange(func(v values.VersionedCount) { heard <- v.Count })
		java.do(t, "set-count", path, "-8")
		require.Equal(t, int32(-8), zktest.Await(t, heard, "the count that Java has set"))
		answer := java.Begin("await-count", path, "100")
		for n := range int32(100) {
			require.NoError(t, count.SetCount(zktest.Context(t), n+1))
		}
		words, err := answer(zktest.Context(t))
		require.NoError(t, err)
		last := -9
		for _, word := range words {
			n, err := strconv.Atoi(word)
			require.NoError(t, err)
			// Curator tells a value again when it hears of its connection.
			require.GreaterOrEqual(t, n, last, "%v", words)
			last = n
		}
		require.Equal(t, 100, last)
	})
}

// Members of both sides begin and end each round together.
func TestValuesDoubleBarrierOfBothSides(t *testing.T) {
	eachBackend(t, func(t *testing.T, server zktest.Backend) {
		const path, members, rounds = "/barriers/double", 4, 1
		var answers []func(context.Context) ([]string, error)
		for range members / 2 {
			answers = append(answers, newActor(t, server).Begin("rounds", path, strconv.Itoa(members), strconv.Itoa(rounds)))
		}
		client := zktest.Client(t, server)
		var wg sync.WaitGroup
		for range members - members/2 {
			b, err := barriers.NewDistributedDoubleBarrier(client, path, members)
			require.NoError(t, err)
			wg.Go(func() {
				for range rounds {
					if err := b.Enter(zktest.Context(t)); err != nil {
						t.Errorf("enter: %v", err)
						return
					}
					if err := b.Leave(zktest.Context(t)); err != nil {
						t.Errorf("leave: %v", err)
					}
				}
			})
		}
		for _, answer := range answers {
			_, err := answer(zktest.Context(t))
			require.NoError(t, err)
		}
		wg.Wait()
		awaitChildren(t, client, path, 0) // the server may have removed the folder
	})
}

// Members of Java and Go count a late member of Java, which passes an open barrier, as long as the members that it has joined are there. When
// they have left, a further member in Go takes the round for abandoned: its own round begins, and those that wait to leave go on.
func TestValuesDoubleBarrierLateMemberOfJava(t *testing.T) {
	eachBackend(t, func(t *testing.T, server zktest.Backend) {
		client := zktest.Client(t, server)
		member := func(path string) *barriers.DistributedDoubleBarrier {
			b, err := barriers.NewDistributedDoubleBarrier(client, path, 1)
			require.NoError(t, err)
			return b
		}
		// late has a member in Go open the barrier and leave it, and a late one of Java stay.
		late := func(path string) (java actor, leaving <-chan error) {
			first := member(path)
			require.NoError(t, first.Enter(zktest.Context(t)))
			java = newActor(t, server)
			java.do(t, "enter", path, "1")
			left := make(chan error, 1)
			go func() { left <- first.Leave(zktest.Context(t)) }()
			awaitChildren(t, client, path, 2) // the one of Java, and the node that opens the barrier
			require.Empty(t, left, "the member of Java is there")
			return java, left
		}

		java, leaving := late("/barriers/late")
		java.do(t, "leave", "/barriers/late")
		require.NoError(t, zktest.Await(t, leaving, "the end of the round"))

		const path = "/barriers/late-and-another"
		java, leaving = late(path)
		another := member(path)
		require.NoError(t, another.Enter(zktest.Context(t)))
		require.NoError(t, zktest.Await(t, leaving, "the end of the round that seems to be abandoned"))
		javaLeaves := java.Begin("leave", path)
		require.NoError(t, another.Leave(zktest.Context(t)))
		_, err := javaLeaves(zktest.Context(t))
		require.NoError(t, err)
		awaitChildren(t, client, path, 0)
	})
}

// consumer is any queue with an envelope.
type consumer interface {
	Consume(ctx context.Context, fn func(ctx context.Context, item []byte) error) error
}

// queueKind is a kind of queue on our side, and its name on Java's.
type queueKind struct {
	name string
	open func(client *framework.Framework, path string, opts ...queues.Option) (consumer, func(ctx context.Context, item string) error, error)
}

var queueKinds = []queueKind{
	{"fifo", func(client *framework.Framework, path string, opts ...queues.Option) (consumer, func(context.Context, string) error, error) {
		q, err := queues.NewDistributedQueue(client, path, opts...)
		return q, func(ctx context.Context, item string) error { return q.Put(ctx, []byte(item)) }, err
	}},
	{"priority", func(client *framework.Framework, path string, opts ...queues.Option) (consumer, func(context.Context, string) error, error) {
		q, err := queues.NewDistributedPriorityQueue(client, path, opts...)
		return q, func(ctx context.Context, item string) error { return q.Put(ctx, []byte(item), int32(len(item))) }, err
	}},
	{"delay", func(client *framework.Framework, path string, opts ...queues.Option) (consumer, func(context.Context, string) error, error) {
		q, err := queues.NewDistributedDelayQueue(client, path, opts...)
		return q, func(ctx context.Context, item string) error { return q.Put(ctx, []byte(item), time.Now()) }, err
	}},
	{"id", func(client *framework.Framework, path string, opts ...queues.Option) (consumer, func(context.Context, string) error, error) {
		q, err := queues.NewDistributedIdQueue(client, path, opts...)
		return q, func(ctx context.Context, item string) error { return q.Put(ctx, []byte(item), item) }, err
	}},
}

// What one side puts into a queue the other gets: all of it, once.
func TestValuesQueuesOfBothSides(t *testing.T) {
	eachBackend(t, func(t *testing.T, server zktest.Backend) {
		java := newActor(t, server)
		client := zktest.Client(t, server)
		items := make([]string, 20)
		for i := range items {
			items[i] = fmt.Sprint(i * i)
		}
		for _, kind := range queueKinds {
			for _, locks := range []string{"none", "/queues/" + kind.name + "-locks"} {
				path := "/queues/" + kind.name + "-" + strconv.Itoa(len(locks))
				var opts []queues.Option
				if locks != "none" {
					opts = append(opts, queues.WithLockPath(locks))
				}
				queue, put, err := kind.open(client, path, opts...)
				require.NoError(t, err)

				java.do(t, "put", append([]string{kind.name, path}, items...)...)
				require.ElementsMatch(t, items, consumeItems(t, queue, len(items)), "%s, locks %s: put by Java", kind.name, locks)

				for _, item := range items {
					require.NoError(t, put(zktest.Context(t), item))
				}
				require.ElementsMatch(t, items, java.do(t, "consume", kind.name, path, locks, strconv.Itoa(len(items))),
					"%s, locks %s: put by Go", kind.name, locks)
			}
		}
	})
}

// consumeItems returns the next items of a queue.
func consumeItems(t *testing.T, queue consumer, n int) []string {
	t.Helper()
	ctx, stop := context.WithCancel(zktest.Context(t))
	defer stop()
	var mu sync.Mutex // a sharder consumes several queues at a time
	var got []string
	err := queue.Consume(ctx, func(_ context.Context, item []byte) error {
		mu.Lock()
		defer mu.Unlock()
		if got = append(got, string(item)); len(got) == n {
			stop()
		}
		return nil
	})
	require.ErrorIs(t, err, context.Canceled, "%v", got)
	return got
}

// Each side finds the queues that the other's sharder has added, adds others, and
// gets what was put into any of them.
func TestValuesShardersOfBothSides(t *testing.T) {
	eachBackend(t, func(t *testing.T, server zktest.Backend) {
		const path, leader, full, most = "/sharded/queues", "/sharded/leader", 3, 2
		items := []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"}
		java := newActor(t, server)
		client := zktest.Client(t, server)
		open := func(path string) (*queues.DistributedQueue, error) { return queues.NewDistributedQueue(client, path) }
		start := func(most int) *queues.QueueSharder[*queues.DistributedQueue] {
			s, err := queues.NewQueueSharder(client, open, path, leader,
				queues.WithNewQueueThreshold(full), queues.WithMaxQueues(most), queues.WithThresholdCheck(5*time.Millisecond))
			require.NoError(t, err)
			require.NoError(t, s.Start(zktest.Context(t)))
			return s
		}

		theirs := java.do(t, "shard-put", append([]string{path, leader, strconv.Itoa(full), strconv.Itoa(most)}, items...)...)
		require.Len(t, theirs, most)
		ours := start(most)
		require.ElementsMatch(t, theirs, ours.QueuePaths(), "the queues that Java has added")
		require.ElementsMatch(t, items, consumeItems(t, ours, len(items)))
		require.NoError(t, ours.Close())

		ours = start(most + 1)
		for i, item := range items {
			if i == full*most+1 { // one of them is full
				require.Eventually(t, func() bool { return len(ours.QueuePaths()) == most+1 }, time.Minute, time.Millisecond)
			}
			q, err := ours.Queue()
			require.NoError(t, err)
			require.NoError(t, q.Put(zktest.Context(t), []byte(item)))
		}
		require.NoError(t, ours.Close())
		require.ElementsMatch(t, items, java.do(t, "shard-consume", path, leader, strconv.Itoa(len(items))))
	})
}

// The simple queue is that of ZooKeeper's own recipes.
func TestValuesSimpleQueuesOfBothSides(t *testing.T) {
	eachBackend(t, func(t *testing.T, server zktest.Backend) {
		const path = "/queues/simple"
		java := newActor(t, server)
		queue, err := queues.NewSimpleDistributedQueue(zktest.Client(t, server), path)
		require.NoError(t, err)
		java.do(t, "put", "simple", path, "a", "b")
		for _, want := range []string{"a", "b"} {
			data, err := queue.Take(zktest.Context(t))
			require.NoError(t, err)
			require.Equal(t, want, string(data))
		}
		for _, item := range []string{"c", "d"} {
			require.NoError(t, queue.Offer(zktest.Context(t), []byte(item)))
		}
		require.Equal(t, []string{"c", "d"}, java.do(t, "consume", "simple", path, "none", "2"))
	})
}
