// SPDX-License-Identifier: Apache-2.0

package queues_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/queues"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

func TestPriorityQueueLowestComesFirst(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		q := must.Get(queues.NewDistributedPriorityQueue(zktest.Client(t, server), path))(t)
		for _, put := range []struct {
			item     string
			priority int32
		}{{"d", 5}, {"f", 1 << 30}, {"b", -1}, {"c", 0}, {"e", 5}, {"a", -1 << 31}} {
			require.NoError(t, q.Put(zktest.Context(t), []byte(put.item), put.priority))
		}
		require.Equal(t, []string{"a", "b", "c", "d", "e", "f"}, awaitItems(t, consumed(t, q), 6))
	})
}

// An item that comes while others are being consumed takes its place at once,
// or after the number of items that the consumer was told to take from one list.
func TestPriorityQueueLaterItemOfLowerPriorityComesFirst(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		min  int
		opts []queues.Option
		want []string
	}{
		{0, nil, []string{"1", "0", "2", "3"}},
		{2, nil, []string{"1", "2", "0", "3"}},
		{0, []queues.Option{withLock}, []string{"1", "0", "2", "3"}},
		{2, []queues.Option{withLock}, []string{"1", "2", "0", "3"}},
	} {
		zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
			q := must.Get(queues.NewDistributedPriorityQueue(zktest.Client(t, server), path,
				append(c.opts, queues.WithMinItemsBeforeRefresh(c.min))...))(t)
			for i, item := range []string{"1", "2", "3"} {
				require.NoError(t, q.Put(zktest.Context(t), []byte(item), int32(i+1)))
			}
			got := make(chan string, 10)
			start(t, q, func(ctx context.Context, item []byte) error {
				got <- string(item)
				if string(item) == "1" {
					return q.Put(ctx, []byte("0"), 0) // its reply comes after the event
				}
				return nil
			})
			require.Equal(t, c.want, awaitItems(t, got, 4))
		})
	}
}

// A consumer that is alone with a queue reads its list once, and not for each item.
func TestPriorityQueueConsumerListsWhatOthersHaveChanged(t *testing.T) {
	for name, opts := range map[string][]queues.Option{"at once": nil, "locked": {withLock}} {
		t.Run(name, func(t *testing.T) {
			onFakeTime(t, func(t *testing.T, server *zkserver.Server) {
				const items = 100
				q := must.Get(queues.NewDistributedPriorityQueue(zktest.Client(t, server), path, opts...))(t)
				for i := range items {
					require.NoError(t, q.Put(zktest.Context(t), []byte("x"), int32(i)))
				}
				var lists int
				server.Intercept(func(r zkserver.Request) zkserver.Fault {
					if r.Op == zkserver.OpGetChildren || r.Op == zkserver.OpGetChildren2 {
						lists++
					}
					return zkserver.Pass
				})
				awaitItems(t, consumed(t, q), items)
				synctest.Wait()
				require.Equal(t, 2, lists, "one with all items, and one that is empty")
			})
		})
	}
}

// In Curator a failed item loses its priority and goes in front of all others.
//
// CURATOR-56: a failed item gets a longer name each time, and loses its priority or its delay.
func TestPriorityQueueFailedItemKeepsItsPriority(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		q := must.Get(queues.NewDistributedPriorityQueue(zktest.Client(t, server), path, withLock))(t)
		require.NoError(t, q.Put(zktest.Context(t), []byte("a"), 5))
		require.NoError(t, q.Put(zktest.Context(t), []byte("b"), 5))
		require.NoError(t, q.Put(zktest.Context(t), []byte("c"), 6))
		failed := false
		got := make(chan string, 10)
		start(t, q, func(_ context.Context, item []byte) error {
			got <- string(item)
			if !failed {
				failed = true
				return errFailed
			}
			return nil
		})
		require.Equal(t, []string{"a", "b", "a", "c"}, awaitItems(t, got, 4))
	})
}

// onFakeTime runs a test in a bubble with a server in memory.
func onFakeTime(t *testing.T, test func(t *testing.T, server *zkserver.Server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, zktest.NewServer(t, zkserver.WithoutListener())) })
}

func TestItemsComeWhenTheyAreDue(t *testing.T) {
	onFakeTime(t, func(t *testing.T, server *zkserver.Server) {
		client := zktest.Client(t, server)
		q := must.Get(queues.NewDistributedDelayQueue(client, path))(t)
		began := time.Now()
		after := map[string]time.Duration{"now": -time.Hour, "soon": 10 * time.Second, "late": time.Minute}
		for _, item := range []string{"late", "now", "soon"} {
			require.NoError(t, q.Put(t.Context(), []byte(item), began.Add(after[item])))
		}
		type arrival struct {
			item string
			at   time.Duration
		}
		got := make(chan arrival, 10)
		start(t, q, func(_ context.Context, item []byte) error {
			got <- arrival{string(item), time.Since(began)}
			return nil
		})
		expect := func(item string, at time.Duration) {
			t.Helper()
			a := <-got
			require.Equal(t, item, a.item)
			require.GreaterOrEqual(t, a.at, at)
			require.Less(t, a.at, at+time.Second)
		}
		expect("now", 0)
		expect("soon", 10*time.Second)
		require.NoError(t, q.Put(t.Context(), []byte("between"), began.Add(20*time.Second)))
		expect("between", 20*time.Second)
		expect("late", time.Minute)
	})
}

// In Curator a failed item is due in the order of 1970, before all others.
//
// CURATOR-56: a failed item gets a longer name each time, and loses its priority or its delay.
func TestDelayQueueFailedItemKeepsItsTime(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	q := must.Get(queues.NewDistributedDelayQueue(client, path, withLock))(t)
	require.NoError(t, q.Put(zktest.Context(t), []byte("a"), time.UnixMilli(1000)))
	names := make(chan []string, 2)
	failed := false
	start(t, q, func(ctx context.Context, _ []byte) error {
		list, err := client.Children(ctx, path)
		names <- list
		if !failed {
			failed = true
			return errFailed
		}
		return err
	})
	require.Equal(t, []string{"queue-|000003E8|0000000000"}, zktest.Await(t, names, "the first try"))
	require.Equal(t, []string{"queue-|000003E8|0000000001"}, zktest.Await(t, names, "the second try"))
}

func TestItemsAreRemovedByTheirIds(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]queues.Option{"at once": nil, "locked": {withLock}} {
		t.Run(name, func(t *testing.T) {
			zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
				client := zktest.Client(t, server)
				q := must.Get(queues.NewDistributedIdQueue(client, path, opts...))(t)
				n := must.Get(q.Remove(zktest.Context(t), "x/y"))(t)
				require.Zero(t, n)
				for _, put := range []struct{ item, id string }{{"a", "z"}, {"b", "x/y"}, {"c", "a"}, {"d", "x/y"}} {
					require.NoError(t, q.Put(zktest.Context(t), []byte(put.item), put.id))
				}
				n = must.Get(q.Remove(zktest.Context(t), "x/y"))(t)
				require.Equal(t, 2, n)
				require.Equal(t, []string{"a", "c"}, awaitItems(t, consumed(t, q), 2), "in the order of their numbers")
			})
		})
	}
}

func TestIDQueueItemThatIsConsumedIsNotRemoved(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		client := zktest.Client(t, server)
		q := must.Get(queues.NewDistributedIdQueue(client, path, withLock))(t)
		require.NoError(t, q.Put(zktest.Context(t), []byte("a"), "id"))
		release, got := make(chan struct{}), make(chan string, 10)
		failed := false
		start(t, q, func(_ context.Context, item []byte) error {
			got <- string(item)
			<-release
			if !failed {
				failed = true
				return errFailed
			}
			return nil
		})
		zktest.Await(t, got, "the item")
		require.Zero(t, must.Get(q.Remove(zktest.Context(t), "id"))(t))
		close(release)
		require.Equal(t, "a", zktest.Await(t, got, "it was put back"))
		awaitNames(t, client, path, 0)
	})
}

func TestDelayQueueItemsComeInTheOrderOfTheirTimes(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		q := must.Get(queues.NewDistributedDelayQueue(zktest.Client(t, server), path))(t)
		for _, n := range []int64{3, 1, 4, 2, 10, 5} { // 16 sorts before 2 as a string
			require.NoError(t, q.Put(zktest.Context(t), fmt.Append(nil, n), time.UnixMilli(n*n)))
		}
		require.Equal(t, []string{"1", "2", "3", "4", "5", "10"}, awaitItems(t, consumed(t, q), 6))
	})
}

// A consumer that waits for the time of an item notices that its clock was set forward.
func TestDelayQueueClockThatJumps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := must.Get(queues.NewDistributedDelayQueue(zktest.Client(t, zktest.NewServer(t, zkserver.WithoutListener())), path))(t)
		require.NoError(t, q.Put(t.Context(), []byte("a"), time.Now().Add(24*time.Hour)))
		var ahead atomic.Int64
		q.JumpClock(func() time.Duration { return time.Duration(ahead.Load()) })
		items := consumed(t, q)
		time.Sleep(time.Hour)
		require.Empty(t, items)

		ahead.Store(int64(24 * time.Hour))
		time.Sleep(2 * time.Minute)

		require.Len(t, items, 1)
	})
}
