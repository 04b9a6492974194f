// SPDX-License-Identifier: Apache-2.0

package queues_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/queues"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// The list of a queue does not change when a consumer dies, so its lock is what
// others must watch.
func TestQueueDeadConsumersItemIsSeenWithoutAChange(t *testing.T) {
	server := zktest.NewServer(t)
	client, dies := zktest.Client(t, server), zktest.Client(t, server)
	q := newQueue(t, client, withLock)
	require.NoError(t, q.Put(zktest.Context(t), []byte("a")))
	name := awaitNames(t, client, path, 1)[0]
	must.Get(client.Create(zktest.Context(t), lockPath, nil))(t)
	must.Get(dies.Create(zktest.Context(t), lockPath+"/"+name, nil, framework.WithMode(framework.Ephemeral)))(t)
	items := consumed(t, q)
	zktest.AwaitEvent(t, server, func(e zkserver.Event) bool {
		return e.Kind == zkserver.Served && e.Request.Op == zkserver.OpGetData && e.Request.Path == lockPath+"/"+name
	})
	require.Empty(t, items)

	zktest.KillSession(t, dies)

	require.Equal(t, "a", zktest.Await(t, items, "the item"))
}

// A consumer that is about to watch the lock of an item looks again if the lock has gone.
func TestQueueLockThatGoesBeforeItIsWatchedFreesItsItem(t *testing.T) {
	t.Parallel()
	server := zktest.NewServer(t)
	client := zktest.Client(t, server)
	q := newQueue(t, zktest.Client(t, server), withLock)
	require.NoError(t, q.Put(zktest.Context(t), []byte("a")))
	lock := must.Get(client.Create(zktest.Context(t), lockPath+"/queue-0000000000", nil, framework.CreatingParentsIfNeeded()))(t)
	reached, release := make(chan struct{}), make(chan struct{})
	held := false
	server.Intercept(func(r zkserver.Request) zkserver.Fault {
		if r.Op != zkserver.OpGetData || r.Path != lock || held {
			return zkserver.Pass
		}
		held = true
		close(reached)
		return zkserver.HoldUntil(release)
	})
	items := consumed(t, q)
	<-reached
	require.NoError(t, client.Delete(zktest.Context(t), lock))
	close(release)
	require.Equal(t, []string{"a"}, awaitItems(t, items, 1))
}

func TestQueueFailedItemIsPutBackOrDeleted(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		client := zktest.Client(t, server)
		fails := map[string]bool{"a": true}
		got := make(chan string, 10)
		fn := func(_ context.Context, item []byte) error {
			got <- string(item)
			if fails[string(item)] {
				delete(fails, string(item))
				return errFailed
			}
			return nil
		}
		q := newQueue(t, client, withLock)
		require.NoError(t, q.Put(zktest.Context(t), []byte("a")))
		require.NoError(t, q.Put(zktest.Context(t), []byte("b")))
		stop := start(t, q, fn)
		require.Equal(t, []string{"a", "b", "a"}, awaitItems(t, got, 3))
		awaitNames(t, client, path, 0)
		stop()

		fails["c"] = true
		require.NoError(t, q.Put(zktest.Context(t), []byte("c")))
		start(t, newQueue(t, client, withLock, queues.WithErrorMode(queues.Delete)), fn)
		require.Equal(t, []string{"c"}, awaitItems(t, got, 1))
		awaitNames(t, client, path, 0)
		require.Empty(t, got)
	})
}

// CURATOR-56: a failed item gets a longer name each time, and loses its priority or its delay.
func TestQueueNamesDoNotGrowWithEachFailure(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		client := zktest.Client(t, server)
		ids := must.Get(queues.NewDistributedIdQueue(client, path, withLock))(t)
		require.NoError(t, ids.Put(zktest.Context(t), []byte("a"), "id"))
		failures := 0
		last := make(chan string, 1)
		start(t, ids, func(ctx context.Context, _ []byte) error {
			if failures++; failures <= 3 {
				return errFailed
			}
			names, err := client.Children(ctx, path)
			last <- fmt.Sprint(names, err)
			return nil
		})
		require.Equal(t, "[queue-|id|0000000003] <nil>", zktest.Await(t, last, "the last try"))
	})
}

func TestQueueLoopThatIsLeftLeavesItsItem(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		client := zktest.Client(t, server)
		q := newQueue(t, client, withLock)
		for _, item := range []string{"a", "b"} {
			require.NoError(t, q.Put(zktest.Context(t), []byte(item)))
		}
		var got []string
		for item, err := range q.Items(zktest.Context(t)) {
			require.NoError(t, err)
			got = append(got, string(item.Data))
			if len(got) == 2 {
				require.Equal(t, path+"/queue-0000000001", item.Path())
				break
			}
		}
		require.Equal(t, []string{"a", "b"}, got)
		require.Len(t, awaitNames(t, client, path, 1), 1)
		awaitNames(t, client, lockPath, 0)
		require.Panics(t, func() {
			for item, err := range q.Items(zktest.Context(t)) {
				panic(fmt.Sprint(item, err))
			}
		})
		awaitNames(t, client, lockPath, 0)
		require.Equal(t, "b", zktest.Await(t, consumed(t, q), "it is still there"))
	})
}

// Of items that were put together, those that were consumed do not come again
// when the loop ends before the others.
func TestQueueWhatWasConsumedOfAZnodeDoesNotComeAgain(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(item *queues.Item, stop func()) (goOn bool){
		"left": func(*queues.Item, func()) bool { return false },
		"interrupted": func(item *queues.Item, stop func()) bool {
			stop()
			<-item.Context().Done()
			item.Fail(item.Context().Err())
			return true
		},
	} {
		t.Run(name, func(t *testing.T) {
			zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
				client := zktest.Client(t, server)
				q := newQueue(t, client, withLock)
				require.NoError(t, q.PutMulti(zktest.Context(t), []byte("a"), []byte("b"), []byte("c")))
				ctx, stop := context.WithCancel(zktest.Context(t))
				defer stop()
				for item, err := range q.Items(ctx) {
					if err != nil {
						require.ErrorIs(t, err, context.Canceled)
						break
					}
					if string(item.Data) == "b" && !leave(item, stop) {
						break
					}
				}
				awaitNames(t, client, lockPath, 0)
				require.Equal(t, []string{"queue-0000000000"}, must.Get(client.Children(zktest.Context(t), path))(t), "where they were")
				require.Equal(t, []string{"b", "c"}, awaitItems(t, consumed(t, q), 2))
			})
		})
	}
}

func TestQueueItemFailsInALoop(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	q := newQueue(t, client, withLock)
	require.NoError(t, q.Put(zktest.Context(t), []byte("a")))
	tries := 0
	for item, err := range q.Items(zktest.Context(t)) {
		require.NoError(t, err)
		if tries++; tries == 2 {
			require.Equal(t, path+"/queue-0000000001", item.Path(), "put back")
			break
		}
		item.Fail(nil)
	}
}

// CURATOR-308: a queue hangs when its container is deleted.
func TestQueueConsumersSurviveThatTheirFolderIsDeleted(t *testing.T) {
	for name, opts := range map[string][]queues.Option{"at once": nil, "locked": {withLock}} {
		t.Run(name, func(t *testing.T) {
			client := zktest.Client(t, zktest.NewServer(t))
			q := newQueue(t, client, opts...)
			items := consumed(t, q)
			for range 2 {
				require.NoError(t, q.Put(zktest.Context(t), []byte("a")))
				require.Equal(t, "a", zktest.Await(t, items, "an item"))
				awaitNames(t, client, path, 0)
				require.NoError(t, client.Delete(zktest.Context(t), path))
			}
		})
	}
}

func TestQueuePutWaitsForRoom(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		q := newQueue(t, zktest.Client(t, server), queues.WithMaxItems(2))
		for range 2 {
			require.NoError(t, q.Put(zktest.Context(t), []byte("a")))
		}
		require.Equal(t, 2, must.Get(q.Len(zktest.Context(t)))(t))
		ctx, cancel := context.WithCancelCause(t.Context())
		waits := make(chan error, 1)
		go func() { waits <- q.Put(ctx, []byte("b")) }()
		cancel(errFailed)
		err := zktest.Await(t, waits, "the end of the wait")
		require.ErrorIs(t, err, errFailed)
		require.False(t, framework.OutcomeUnknown(err))
		go func() { waits <- q.Put(zktest.Context(t), []byte("c")) }()
		items := consumed(t, newQueue(t, zktest.Client(t, server)))
		require.NoError(t, zktest.Await(t, waits, "the room"))
		require.Equal(t, []string{"a", "a", "c"}, awaitItems(t, items, 3))
	})
}

func TestQueuePutOfAFullQueueWaitsAndAsksNothing(t *testing.T) {
	onFakeTime(t, func(t *testing.T, server *zkserver.Server) {
		client := zktest.Client(t, server)
		q := newQueue(t, client, queues.WithMaxItems(1))
		require.NoError(t, q.Put(t.Context(), []byte("a")))
		waits := make(chan error, 1)
		go func() { waits <- q.Put(t.Context(), []byte("b")) }()
		time.Sleep(time.Second)
		requests := 0
		stop := server.Intercept(func(r zkserver.Request) zkserver.Fault {
			if r.Op != zkserver.OpPing {
				requests++
			}
			return zkserver.Pass
		})
		time.Sleep(time.Hour)
		stop()
		require.Empty(t, waits)
		require.Zero(t, requests)
		require.Equal(t, []string{"a", "b"}, awaitItems(t, consumed(t, q), 2))
		require.NoError(t, <-waits)
	})
}

func TestQueuePutsInTheBackgroundArriveInOrder(t *testing.T) {
	server := zktest.NewServer(t)
	client := zktest.Client(t, server)
	q := newQueue(t, client, queues.WithPutInBackground())
	require.NoError(t, q.FlushPuts(zktest.Context(t)), "nothing to flush")
	release := make(chan struct{})
	server.Intercept(zkserver.Nth(1, zkserver.OpCreate, zkserver.HoldUntil(release)))
	server.Intercept(zkserver.Nth(1, zkserver.OpCreate2, zkserver.HoldUntil(release)))
	const n = 250
	for _, item := range numbers(n) {
		require.NoError(t, q.Put(zktest.Context(t), []byte(item)))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, q.FlushPuts(ctx), context.Canceled, "the first is held")
	close(release)
	require.NoError(t, q.FlushPuts(zktest.Context(t)))
	require.Equal(t, numbers(n), awaitItems(t, consumed(t, newQueue(t, client)), n))
	writes := 0
	for _, e := range server.Log() {
		if e.Kind == zkserver.Served && e.Request.Op == zkserver.OpMulti {
			writes++
		}
	}
	require.LessOrEqual(t, writes, 5, "they share transactions")
}

func TestQueueFlushTellsOfAFailedPut(t *testing.T) {
	server := zktest.NewServer(t)
	q := newQueue(t, zktest.Client(t, server), queues.WithPutInBackground())
	require.NoError(t, q.Put(zktest.Context(t), make([]byte, 2<<20)))
	require.ErrorIs(t, q.FlushPuts(zktest.Context(t)), framework.ErrTooLarge)
	require.NoError(t, q.FlushPuts(zktest.Context(t)), "it is told once")
}

func TestQueueConsumerWithoutRightsEnds(t *testing.T) {
	server := zktest.NewServer(t)
	client := zktest.Client(t, server)
	must.Get(client.Create(zktest.Context(t), path, nil, framework.CreatingParentsIfNeeded(),
		framework.WithACL(framework.ACL{Perms: 1 << 2, Scheme: "world", ID: "anyone"})))(t)
	require.ErrorIs(t, newQueue(t, client).Consume(zktest.Context(t), func(context.Context, []byte) error { return nil }), framework.ErrNoAuth)
}

// A consumer at a server without a quorum tells so once a minute, does not flood the server, and goes on when there is a quorum.
func TestQueueConsumerWithoutAQuorum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		require.NoError(t, newQueue(t, zktest.Client(t, server)).Put(t.Context(), []byte("a")))
		log := new(strings.Builder) // one handler writes at a time
		regain := server.LoseQuorum()
		client := zktest.Client(t, server, framework.WithReadOnly(), framework.WithLogger(slog.New(slog.NewTextHandler(log, nil))))
		var requests atomic.Int64
		server.Intercept(func(zkserver.Request) zkserver.Fault {
			requests.Add(1)
			return zkserver.Pass
		})
		items := consumed(t, newQueue(t, client, withLock))
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		require.Less(t, requests.Load(), int64(5*600), "some each second")
		told := strings.Count(log.String(), "a consumer is interrupted")
		require.GreaterOrEqual(t, told, 9)
		require.LessOrEqual(t, told, 11)
		regain()
		require.Equal(t, "a", zktest.Await(t, items, "the item"))
	})
}

// A witness that was refused needs no deletion, which would be refused for as long as the client lives.
func TestQueueConsumerThatMayNotLockLeavesNoDeletion(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	require.NoError(t, newQueue(t, client).Put(zktest.Context(t), []byte("a")))
	must.Get(client.Create(zktest.Context(t), lockPath, nil, framework.CreatingParentsIfNeeded(), framework.WithACL(framework.ReadACL()...)))(t)
	err := newQueue(t, client, withLock).Consume(zktest.Context(t), func(context.Context, []byte) error { return nil })
	require.ErrorIs(t, err, framework.ErrNoAuth)
	require.ErrorContains(t, err, lockPath)
	require.Zero(t, client.Health().PendingCleanups)
}

// No request of a consumer gets through for two session timeouts. It goes on
// with the session that follows.
//
// CURATOR-623: consumers stop after a long partition.
func TestQueueConsumersSurviveALongPartition(t *testing.T) {
	for name, opts := range map[string][]queues.Option{"at once": nil, "locked": {withLock}} {
		t.Run(name, func(t *testing.T) {
			onFakeTime(t, func(t *testing.T, server *zkserver.Server) {
				const timeout = 10 * time.Second
				client, proxy := zktest.ClientViaProxy(t, server, framework.WithSessionTimeout(timeout))
				first := client.Session()
				items := consumed(t, newQueue(t, client, opts...))
				other := zktest.Client(t, server)
				producer := newQueue(t, other)
				require.NoError(t, producer.Put(zktest.Context(t), []byte("a")))
				require.Equal(t, "a", zktest.Await(t, items, "the first item"))
				awaitNames(t, other, path, 0)

				proxy.Refuse(true)
				proxy.Cut()
				time.Sleep(2 * timeout)
				proxy.Refuse(false)

				require.NoError(t, producer.Put(zktest.Context(t), []byte("b")))
				require.Equal(t, "b", zktest.Await(t, items, "the item after the partition"))
				require.Error(t, first.Err())
			})
		})
	}
}

// Puts of the background that share a transaction do not share a failure of one of them.
func TestQueuePutInTheBackgroundSpoilsNoOther(t *testing.T) {
	server := zktest.NewServer(t)
	client := zktest.Client(t, server, framework.WithMaxRequestSize(8<<10))
	q := must.Get(queues.NewDistributedIdQueue(client, path, queues.WithPutInBackground()))(t)
	first := make(chan struct{})
	server.Intercept(zkserver.Nth(1, zkserver.OpCreate2, zkserver.HoldUntil(first))) // all others wait together
	item := make([]byte, 1<<10)
	for n := range 20 {
		require.NoError(t, q.Put(zktest.Context(t), item, fmt.Sprint(n)))
	}
	require.ErrorIs(t, q.Put(zktest.Context(t), item, "a\x00b"), framework.ErrInvalidPath)
	require.NoError(t, q.Put(zktest.Context(t), item, "last"))
	close(first)

	require.NoError(t, q.FlushPuts(zktest.Context(t)))
	awaitNames(t, client, path, 21)
}

// Servers may ask for READ in exists as well, so they do not even show when such an item changes.
func TestConsumeGoesOnPastItemsThatMayNotBeRead(t *testing.T) {
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		for name, opts := range map[string][]queues.Option{
			"at once": nil, "with locks": {queues.WithLockPath("/locks")}, "late": {queues.WithLateRemoval()},
		} {
			t.Run(name, func(t *testing.T) {
				ctx := zktest.Context(t)
				client, operator := zktest.Client(t, server), zktest.Client(t, server, framework.WithAuth("digest", []byte("admin:x")))
				q := must.Get(queues.NewDistributedQueue(client, "/"+strings.ReplaceAll(name, " ", "-"), opts...))(t)
				for _, item := range []string{"a", "bad", "c"} {
					require.NoError(t, q.Put(ctx, []byte(item)))
				}
				names := must.Get(client.Children(ctx, q.Path()))(t)
				slices.Sort(names)
				bad := framework.JoinPath(q.Path(), names[1])
				require.NoError(t, operator.SetACL(ctx, bad, framework.DigestACL(zk.PermAll, "admin", "x")))

				got, ended := make(chan string, 10), make(chan error, 1)
				consuming, stop := context.WithCancel(ctx)
				go func() {
					ended <- q.Consume(consuming, func(_ context.Context, item []byte) error { got <- string(item); return nil })
				}()
				require.Equal(t, "a", zktest.Await(t, got, "the first item"))
				require.Equal(t, "c", zktest.Await(t, got, "the third item"))
				require.NoError(t, q.Put(ctx, []byte("d")))
				require.Equal(t, "d", zktest.Await(t, got, "an item that comes later"))
				stop()
				require.ErrorIs(t, zktest.Await(t, ended, "the end of Consume"), context.Canceled)

				require.NotNil(t, must.Get(operator.Exists(ctx, bad))(t), "it stays")
			})
		}
	})
}
