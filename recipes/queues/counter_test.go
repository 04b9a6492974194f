// SPDX-License-Identifier: Apache-2.0

package queues_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/queues"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// copies are sets of numbers that the items of a copied folder may have, in their order.
var copies = map[string][]int{
	"next numbers":    {0, 1, 2},
	"a hole":          {3, 4, 7},
	"far numbers":     {1, 40, 500_000, 2_000_000_000},
	"the last number": {math.MaxInt32 - 1, math.MaxInt32},
}

// copyInto makes items by their names, as a copy of znodes does. The data of an item is its place.
func copyInto(tb testing.TB, client *framework.Framework, folder, prefix string, numbers []int, encode func([]byte) []byte) (items []string) {
	tb.Helper()
	for i, number := range numbers {
		item := fmt.Sprint("old ", i)
		must.Get(client.Create(zktest.Context(tb), fmt.Sprintf("%s/%s%010d", folder, prefix, number), encode([]byte(item)), framework.CreatingParentsIfNeeded()))(tb)
		items = append(items, item)
	}
	return items
}

func TestCopiedQueueTakesItemsInOrder(t *testing.T) {
	t.Parallel()
	for _, k := range kinds {
		for name, copied := range copies {
			t.Run(k.typ+"/"+name, func(t *testing.T) {
				t.Parallel()
				zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
					client := zktest.Client(t, server)
					ctx := zktest.Context(t)
					_, put, err := k.open(client, path+"-sample")
					require.NoError(t, err)
					require.NoError(t, put(ctx, nil))
					prefix := strings.TrimSuffix(awaitNames(t, client, path+"-sample", 1)[0], "0000000000")
					want := copyInto(t, client, path, prefix, copied, queues.Encode)
					q, put, err := k.open(client, path, withLock)
					require.NoError(t, err)
					for i := range 5 {
						item := fmt.Sprint("new ", i)
						require.NoError(t, put(ctx, []byte(item), []byte(item)))
						want = append(want, item, item)
					}
					require.Equal(t, want, awaitItems(t, consumed(t, q), len(want)))
				})
			})
		}
	}
}

func TestCopiedSimpleQueueTakesItemsInOrder(t *testing.T) {
	t.Parallel()
	for name, copied := range copies {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
				client := zktest.Client(t, server)
				ctx := zktest.Context(t)
				want := copyInto(t, client, path, "qn-", copied, slices.Clone[[]byte])
				q := newSimple(t, client)
				for i := range 5 {
					want = append(want, fmt.Sprint("new ", i))
					require.NoError(t, q.Offer(ctx, []byte(want[len(want)-1])))
				}
				for _, item := range want {
					require.Equal(t, item, string(must.Get(q.Poll(ctx))(t)))
				}
			})
		})
	}
}

// failing consumes items, of which the first fails, until there were n.
func failing(tb testing.TB, q *queues.DistributedQueue, n int) (got []string) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), limit)
	defer cancel()
	for item, err := range q.Items(ctx) {
		require.NoError(tb, err, "after %v", got)
		got = append(got, string(item.Data))
		if len(got) == 1 {
			item.Fail(errFailed)
		}
		if len(got) > n {
			break
		}
	}
	return got
}

func TestCopiedQueuePutsAFailedItemBehindTheOthers(t *testing.T) {
	t.Parallel()
	for name, copied := range copies {
		for removal, option := range map[string]queues.Option{"locks": withLock, "late": queues.WithLateRemoval()} {
			t.Run(name+"/"+removal, func(t *testing.T) {
				t.Parallel()
				client := zktest.Client(t, zktest.NewServer(t))
				want := copyInto(t, client, path, "queue-", copied, queues.Encode)
				require.Equal(t, append(want, want[0]), failing(t, newQueue(t, client, option), len(copied)))
			})
		}
	}
}

// Another producer finds the copy at the same time, and is faster. Or the reply is lost.
func TestCopiedQueueWhoseItemsAnotherProducerNumbersTakesItems(t *testing.T) {
	for name, copied := range copies {
		for _, fault := range []zkserver.Fault{zkserver.FailWith(-103), zkserver.LoseReply} { // BadVersion
			t.Run(name+"/"+fault.String(), func(t *testing.T) {
				server := zktest.NewServer(t)
				client := zktest.Client(t, server, framework.WithMaxRequestSize(1<<10)) // so each item has a transaction
				want := append(copyInto(t, client, path, "queue-", copied, queues.Encode), "new")
				server.Intercept(zkserver.Nth(1, zkserver.OpMulti, fault))
				q := newQueue(t, client)
				require.NoError(t, q.Put(zktest.Context(t), []byte("new")))
				require.Equal(t, want, awaitItems(t, consumed(t, q), len(want)))
			})
		}
	}
}

// More items get new numbers than one transaction holds.
func TestCopiedQueueOfManyItemsTakesThemInOrder(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t), framework.WithMaxRequestSize(1<<10)) // so each item has a transaction
	far := make([]int, 40)
	for i := range far {
		far[i] = 20_000 + i
	}
	want := append(copyInto(t, client, path, "queue-", far, queues.Encode), "new")
	q := newQueue(t, client)
	require.NoError(t, q.Put(zktest.Context(t), []byte("new")))
	require.Equal(t, want, awaitItems(t, consumed(t, q), len(want)))
}

func TestCopiedDeadLettersTakeLaterOnes(t *testing.T) {
	t.Parallel()
	for name, copied := range copies {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := zktest.Client(t, zktest.NewServer(t))
			ctx := zktest.Context(t)
			want := copyInto(t, client, "/dead", "queue-", copied, queues.Encode)
			q := newQueue(t, client, withLock, queues.WithMaxAttempts(1, "/dead"))
			for i := range 3 {
				want = append(want, fmt.Sprint("new ", i))
				require.NoError(t, q.Put(ctx, []byte(want[len(want)-1])))
			}
			start(t, q, func(context.Context, []byte) error { return errFailed })
			awaitNames(t, client, "/dead", len(want))
			require.Equal(t, want, awaitItems(t, consumed(t, must.Get(queues.NewDistributedQueue(client, "/dead"))(t)), len(want)))
		})
	}
}

func TestQueueTakesItemsWhoseNumbersAnImportHasTaken(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		client := zktest.Client(t, server)
		ctx := zktest.Context(t)
		for _, opts := range [][]queues.Option{nil, {queues.WithPutInBackground()}} {
			q := newQueue(t, client, opts...)
			require.NoError(t, q.Put(ctx, []byte("before")))
			require.NoError(t, q.FlushPuts(ctx))
			next := len(namesOf(t, client))
			copyInto(t, client, path, "queue-", []int{next + 2, next + 3}, queues.Encode)
			for range 5 {
				require.NoError(t, q.Put(ctx, []byte("after")))
			}
			require.NoError(t, q.FlushPuts(ctx))
			require.NoError(t, client.DeleteChildren(ctx, path))
			require.NoError(t, client.Delete(ctx, path))
		}
	})
}

func namesOf(tb testing.TB, client *framework.Framework) []string {
	tb.Helper()
	names := must.Get(client.Children(zktest.Context(tb), path))(tb)
	return names
}

// An item that a consumer has locked keeps its name.
func TestCopiedQueueLeavesALockedItem(t *testing.T) {
	t.Parallel()
	client := zktest.Client(t, zktest.NewServer(t))
	ctx := zktest.Context(t)
	copyInto(t, client, path, "queue-", []int{1, 2_000_000_000}, queues.Encode)
	q := newQueue(t, client, withLock)
	var got []string
	for item, err := range q.Items(ctx) {
		require.NoError(t, err)
		if got = append(got, string(item.Data)); len(got) == 2 { // the far one is locked now
			require.NoError(t, newQueue(t, client).Put(ctx, []byte("new")))
			require.Equal(t, path+"/queue-2000000000", item.Path())
		}
		if len(got) == 3 {
			break
		}
	}
	require.Equal(t, []string{"old 0", "old 1", "new"}, got)
}

// A producer that may do nothing but put needs no other permission.
func TestQueueProducerWithoutOtherRightsPuts(t *testing.T) {
	t.Parallel()
	client := zktest.Client(t, zktest.NewServer(t))
	ctx := zktest.Context(t)
	must.Get(client.Create(ctx, path, nil, framework.CreatingParentsIfNeeded(),
		framework.WithACL(framework.ACL{Perms: 1 << 2, Scheme: "world", ID: "anyone"})))(t)
	require.NoError(t, newQueue(t, client).Put(ctx, []byte("a")))
}

// Servers from 3.6 on give the last number again and again.
func TestQueueWithoutNumbersSaysSo(t *testing.T) {
	t.Parallel()
	server := zktest.NewServer(t)
	client := zktest.Client(t, server)
	ctx := zktest.Context(t)
	q := newQueue(t, client)
	require.NoError(t, q.Put(ctx, []byte("a")))
	require.NoError(t, server.SetSequence(path, math.MaxInt32))
	require.NoError(t, newQueue(t, client).Put(ctx, []byte("b")))
	err := newQueue(t, client).Put(ctx, []byte("c"))
	require.ErrorIs(t, err, framework.ErrNodeExists)
	require.ErrorContains(t, err, "used up its numbers")
	require.Equal(t, []string{"a", "b"}, awaitItems(t, consumed(t, q), 2))
}

// Servers before 3.6 go on at -2^31. The items stay in order, and keep their names.
func TestQueueGoesOnWhereTheNumbersWrap(t *testing.T) {
	t.Parallel()
	server := zktest.NewServer(t, zkserver.WithVersion("3.5.9"))
	client := zktest.Client(t, server)
	ctx := zktest.Context(t)
	require.NoError(t, client.Mkdirs(ctx, path))
	require.NoError(t, server.SetSequence(path, math.MaxInt32))
	q := newQueue(t, client)
	for i, item := range numbers(5) {
		if i == 3 {
			q = newQueue(t, client) // which looks at the numbers
		}
		require.NoError(t, q.Put(ctx, []byte(item)))
	}
	require.Equal(t, []string{
		"queue--2147483645", "queue--2147483646", "queue--2147483647", "queue--2147483648", "queue-2147483647",
	}, awaitNames(t, client, path, 5))
	require.Equal(t, numbers(5), awaitItems(t, consumed(t, newQueue(t, client)), 5))
}

func TestQueueFirstPutAloneLists(t *testing.T) {
	t.Parallel()
	server := zktest.NewServer(t)
	q := newQueue(t, zktest.Client(t, server))
	lists := countLists(server)
	for range 10 {
		require.NoError(t, q.Put(zktest.Context(t), []byte("a")))
	}
	require.EqualValues(t, 1, lists.Load())
}
