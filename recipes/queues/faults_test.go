// SPDX-License-Identifier: Apache-2.0

package queues_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/queues"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

func TestFaultsLostReplyToAPutIsReported(t *testing.T) {
	for _, c := range []struct {
		fault   zkserver.Fault
		unknown bool
		items   int
	}{{zkserver.LoseRequest, true, 0}, {zkserver.LoseReply, true, 1}, {zkserver.FailWith(-127), false, 1}} {
		t.Run(c.fault.String(), func(t *testing.T) {
			server := zktest.NewServer(t)
			client := zktest.Client(t, server)
			q := newQueue(t, client)
			require.NoError(t, client.Mkdirs(zktest.Context(t), path))
			server.Intercept(zkserver.Nth(1, zkserver.OpCreate2, c.fault))

			err := q.Put(zktest.Context(t), []byte("a"))

			require.Equal(t, c.unknown, err != nil, "%v", err)
			require.Equal(t, c.unknown, framework.OutcomeUnknown(err))
			awaitNames(t, client, path, c.items)
		})
	}
}

// writes are the requests of a consumer that change something.
var writes = map[string]zkserver.OpCode{
	"create": zkserver.OpCreate2, "delete": zkserver.OpDelete, "transaction": zkserver.OpMulti,
	"list": zkserver.OpGetChildren2, "read": zkserver.OpGetData,
}

// With locks no item is lost or consumed twice, whichever request or reply of a
// consumer is, as long as its session lives.
func TestFaultsEveryLostRequestOfALockedConsumer(t *testing.T) {
	t.Parallel()
	const n = 3
	for name, op := range writes {
		for _, fault := range []zkserver.Fault{zkserver.LoseRequest, zkserver.LoseReply} {
			for k := 1; k <= 2*n+1; k++ {
				t.Run(fmt.Sprintf("%s %d, %v", name, k, fault), func(t *testing.T) {
					t.Parallel()
					server := zktest.NewServer(t)
					t.Cleanup(func() { zktest.AssertClean(t, server) })
					producer := newQueue(t, zktest.Client(t, server))
					for _, item := range numbers(n) {
						require.NoError(t, producer.Put(zktest.Context(t), []byte(item)))
					}
					client := zktest.Client(t, server)
					server.Intercept(zkserver.Nth(k, op, fault))
					got, failed := make(chan string, 10*n), false
					stop := start(t, newQueue(t, client, withLock), func(_ context.Context, item []byte) error {
						if string(item) == "1" && !failed {
							failed = true // one of them is put back
							return errFailed
						}
						got <- string(item)
						return nil
					})
					require.ElementsMatch(t, numbers(n), awaitItems(t, got, n))
					observer := zktest.Client(t, server)
					awaitNames(t, observer, path, 0)
					stop()
					awaitNames(t, observer, lockPath, 0)
					require.Empty(t, got)
					require.NoError(t, client.Sync(zktest.Context(t), path), "a client without a connection leaves its session")
				})
			}
		}
	}
}

// What the server refuses after a doubt was not applied before either. So an item that cannot
// be deleted is unlocked and consumed again, as without the doubt.
func TestFaultsRefusalSettlesTheDoubt(t *testing.T) {
	server := zktest.NewServer(t)
	producer := zktest.Client(t, server)
	for _, item := range []string{"first", "second"} {
		require.NoError(t, newQueue(t, producer).Put(zktest.Context(t), []byte(item)))
	}
	child := framework.JoinPath(path, awaitNames(t, producer, path, 2)[0]+"/by-hand")
	must.Get(producer.Create(zktest.Context(t), child, nil))(t)
	client := zktest.Client(t, server)
	server.Intercept(zkserver.Nth(2, zkserver.OpMulti, zkserver.LoseRequest)) // the first one locks
	got := make(chan string, 10)

	start(t, newQueue(t, client, withLock), func(ctx context.Context, item []byte) error {
		got <- string(item)
		if len(got) == 2 {
			return producer.Delete(ctx, child)
		}
		return nil
	})

	awaitNames(t, producer, path, 0)
	require.Equal(t, []string{"first", "first", "second"}, awaitItems(t, got, 3))
}

// Without locks no item is consumed twice. One is lost only when the reply to
// its deletion is.
func TestFaultsEveryLostRequestOfAConsumerWithoutLocks(t *testing.T) {
	t.Parallel()
	const n = 3
	for name, op := range writes {
		for _, fault := range []zkserver.Fault{zkserver.LoseRequest, zkserver.LoseReply} {
			for k := 1; k <= n; k++ {
				t.Run(fmt.Sprintf("%s %d, %v", name, k, fault), func(t *testing.T) {
					t.Parallel()
					server := zktest.NewServer(t)
					q := newQueue(t, zktest.Client(t, server))
					for _, item := range numbers(n) {
						require.NoError(t, q.Put(zktest.Context(t), []byte(item)))
					}
					want := numbers(n)
					server.Intercept(zkserver.Nth(k, op, fault))
					if op == zkserver.OpDelete && fault == zkserver.LoseReply {
						want = append(want[:k-1], want[k:]...)
					}
					items := consumed(t, q)
					require.Equal(t, want, awaitItems(t, items, len(want)))
					awaitNames(t, zktest.Client(t, server), path, 0)
					require.Empty(t, items)
				})
			}
		}
	}
}

// A consumer that is stopped while its request has no answer unlocks the item in
// the background, when the connection is back.
func TestFaultsConsumerThatIsStoppedInAnOutageLeavesNoLock(t *testing.T) {
	for _, k := range []int{1, 2} { // to lock the item, and to finish it
		t.Run(fmt.Sprint(k), func(t *testing.T) {
			server := zktest.NewServer(t)
			observer, client := zktest.Client(t, server), zktest.Client(t, server)
			q := newQueue(t, client, withLock)
			require.NoError(t, q.Put(zktest.Context(t), []byte("a")))
			release := make(chan struct{})
			server.Intercept(zkserver.Nth(k, zkserver.OpMulti, zkserver.HoldUntil(release)))
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			calls := 0
			go func() {
				ended <- q.Consume(ctx, func(context.Context, []byte) error { calls++; return nil })
			}()
			zktest.AwaitEvent(t, server, func(e zkserver.Event) bool { return e.Fault.String() != zkserver.Pass.String() })
			cancel()
			require.ErrorIs(t, zktest.Await(t, ended, "the end"), context.Canceled)
			require.Equal(t, k-1, calls)

			close(release)

			awaitNames(t, observer, lockPath, 0)
			awaitNames(t, observer, path, 2-k)
			require.NoError(t, observer.Delete(zktest.Context(t), lockPath), "nothing comes back")
		})
	}
}

// There is no moment in which an item that is put back is lost, or there twice:
// one transaction does it and unlocks the item, the next one locks it again.
func TestFaultsItemIsPutBackInOneTransaction(t *testing.T) {
	server := zktest.NewServer(t)
	q := newQueue(t, zktest.Client(t, server), withLock)
	require.NoError(t, q.Put(zktest.Context(t), []byte("a")))
	transactions := make(chan int, 2)
	failed := false
	start(t, q, func(context.Context, []byte) error {
		n := 0
		for _, e := range server.Log() {
			if e.Kind == zkserver.Served && e.Request.Op == zkserver.OpMulti {
				n++
			}
		}
		transactions <- n
		if !failed {
			failed = true
			return errFailed
		}
		return nil
	})
	require.Equal(t, zktest.Await(t, transactions, "the first try")+2, zktest.Await(t, transactions, "the second try"))
}

// A consumer that knows of its session's end too late must not touch the lock of
// the one that has the item now.
func TestFaultsLateUnlockSparesTheLockOfAnother(t *testing.T) {
	server := zktest.NewServer(t)
	slow, other := zktest.Client(t, server), zktest.Client(t, server)
	q := newQueue(t, slow, withLock)
	require.NoError(t, q.Put(zktest.Context(t), []byte("a")))
	got, release := make(chan struct{}), make(chan struct{})
	start(t, q, func(context.Context, []byte) error {
		select {
		case got <- struct{}{}:
		default:
			return errFailed // the second time
		}
		<-release
		return errFailed
	})
	zktest.Await(t, got, "the item")
	name := awaitNames(t, other, path, 1)[0]
	zktest.KillSession(t, slow)
	must.Get(other.Create(zktest.Context(t), lockPath+"/"+name, []byte("other"), framework.WithMode(framework.Ephemeral)))(t)

	close(release)
	zktest.AwaitEvent(t, server, func(e zkserver.Event) bool { // it goes on, with a new witness
		return e.Kind == zkserver.Served && e.Request.Op == zkserver.OpGetData && e.Request.Path == lockPath+"/"+name
	})

	require.Equal(t, "other", string(must.Get(other.Get(zktest.Context(t), lockPath+"/"+name))(t)))
	require.Equal(t, []string{name}, awaitNames(t, other, path, 1))
}

func TestFaultsLostReplyToARemoval(t *testing.T) {
	for name, c := range map[string]struct {
		op   zkserver.OpCode
		opts []queues.Option
	}{"at once": {zkserver.OpDelete, nil}, "locked": {zkserver.OpMulti, []queues.Option{withLock}}} {
		t.Run(name, func(t *testing.T) {
			server := zktest.NewServer(t)
			client := zktest.Client(t, server)
			q := must.Get(queues.NewDistributedIdQueue(client, path, c.opts...))(t)
			require.NoError(t, q.Put(zktest.Context(t), []byte("a"), "id"))
			server.Intercept(zkserver.Nth(1, c.op, zkserver.LoseReply))

			n, err := q.Remove(zktest.Context(t), "id")

			require.Zero(t, n)
			require.True(t, framework.OutcomeUnknown(err), "%v", err)
			awaitNames(t, client, path, 0)
		})
	}
}

// A producer that goes on does not keep a flush waiting.
func TestFaultsFlushDoesNotWaitForLaterPuts(t *testing.T) {
	server := zktest.NewServer(t)
	client := zktest.Client(t, server)
	q := newQueue(t, client, queues.WithPutInBackground())
	require.NoError(t, client.Mkdirs(zktest.Context(t), path))
	first, second := make(chan struct{}), make(chan struct{})
	server.Intercept(zkserver.Nth(1, zkserver.OpCreate2, zkserver.HoldUntil(first)))
	server.Intercept(zkserver.Nth(1, zkserver.OpCreate2, zkserver.HoldUntil(second))) // the next one
	require.NoError(t, q.Put(zktest.Context(t), []byte("a")))
	flushed := make(chan error, 1)
	go func() { flushed <- q.FlushPuts(zktest.Context(t)) }()
	require.Eventually(t, q.Flushing, limit, 1)
	require.NoError(t, q.Put(zktest.Context(t), []byte("b")))

	close(first)

	require.NoError(t, zktest.Await(t, flushed, "the flush"))
	close(second)
	require.NoError(t, q.FlushPuts(zktest.Context(t)))
	awaitNames(t, client, path, 2)
}

type panickingACLs struct{}

func (panickingACLs) DefaultACL() []framework.ACL       { panic("no list of rights") }
func (panickingACLs) ACLForPath(string) []framework.ACL { panic("no list of rights") }

func TestFaultsPanicOfUserCodeFailsAPutOfTheBackground(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t), framework.WithACLProvider(panickingACLs{}))
	q := newQueue(t, client, queues.WithPutInBackground())
	require.NoError(t, q.Put(zktest.Context(t), []byte("a")))
	require.ErrorContains(t, q.FlushPuts(zktest.Context(t)), "no list of rights")
	require.NoError(t, q.FlushPuts(zktest.Context(t)))
}

// Without locks the log names each item that may be lost, also when the consumer
// is stopped and has no error to tell of.
func TestFaultsItemThatMayBeLostIsInTheLog(t *testing.T) {
	onFakeTime(t, func(t *testing.T, server *zkserver.Server) {
		var log bytes.Buffer
		client := zktest.Client(t, server, framework.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		q := newQueue(t, client)
		require.NoError(t, q.Put(t.Context(), []byte("a")))
		release := make(chan struct{})
		server.Intercept(zkserver.Nth(1, zkserver.OpDelete, zkserver.HoldUntil(release)))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- q.Consume(ctx, func(context.Context, []byte) error { return nil }) }()
		synctest.Wait()

		cancel()

		require.ErrorIs(t, <-ended, context.Canceled)
		close(release)
		require.NoError(t, client.Close())
		require.Contains(t, log.String(), "may be lost")
		require.Contains(t, log.String(), path+"/queue-0000000000")
	})
}

// The lease of a session ends while no server runs, but when they run again they go on with the
// session, and so with the locks in it. A consumer gives them back nevertheless.
func TestFaultsConsumerGoesOnAfterAnErrorInsideTheServer(t *testing.T) {
	const systemError = -1
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			opts []queues.Option
			op   zkserver.OpCode
			nth  []int
		}{
			{nil, zkserver.OpGetChildren2, []int{1}},
			{nil, zkserver.OpGetData, []int{1}},
			{[]queues.Option{withLock}, zkserver.OpMulti, []int{1, 2}}, // to lock the item, and to finish it
			{[]queues.Option{withLock}, zkserver.OpMulti, []int{2, 3}}, // and to unlock it
		} {
			server := zktest.NewServer(t, zkserver.WithoutListener())
			client := zktest.Client(t, server)
			q := newQueue(t, client, c.opts...)
			require.NoError(t, q.Put(t.Context(), []byte("a")))
			seen := 0
			server.Intercept(func(r zkserver.Request) zkserver.Fault {
				if r.Op != c.op {
					return zkserver.Pass
				}
				if seen++; slices.Contains(c.nth, seen) {
					return zkserver.FailWith(systemError)
				}
				return zkserver.Pass
			})
			stop := start(t, q, func(context.Context, []byte) error { return nil })
			synctest.Wait() // the consumer has met its errors, which awaitNames must not
			awaitNames(t, client, path, 0)
			synctest.Wait()
			if c.opts != nil {
				require.Len(t, awaitNames(t, client, lockPath, 1), 1, "the witness of the consumer")
			}
			stop()
		}
	})
}

func TestFaultsConsumerWhoseServersRestartLeavesNoLock(t *testing.T) {
	const outage = 5 * time.Minute  // longer than any request waits for a connection
	for _, k := range []int{1, 2} { // to lock the item, and to finish it
		t.Run(fmt.Sprint(k), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := zktest.NewServer(t, zkserver.WithoutListener())
				client := zktest.Client(t, server)
				q := newQueue(t, client, withLock)
				require.NoError(t, q.Put(t.Context(), []byte("a")))
				session := client.Session()
				server.Intercept(zkserver.Nth(k, zkserver.OpMulti, zkserver.LoseReply))
				allow := server.Refuse() // so that it does not reconnect before the server stops
				items := consumed(t, q)
				zktest.AwaitEvent(t, server, func(e zkserver.Event) bool { return e.Fault.String() == zkserver.LoseReply.String() })
				require.NoError(t, server.Stop())
				zktest.Await(t, session.Done(), "the end of the lease")
				time.Sleep(outage)
				allow()
				require.NoError(t, server.Restart())

				require.Equal(t, []string{"a"}, awaitItems(t, items, 1))
				observer := zktest.Client(t, server)
				awaitNames(t, observer, path, 0)
				require.Equal(t, session.ID(), client.Session().ID(), "the server has kept it")
				synctest.Wait()
				require.Len(t, awaitNames(t, observer, lockPath, 1), 1, "the witness of the consumer")
			})
		})
	}
}

// An item that another client writes between a consumer's read and its removal is still there, and is consumed with its new data. The
// write changes no list.
func TestFaultsItemThatIsWrittenWhileItIsTaken(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]queues.Option{
		"removed first": nil, "removed late": {queues.WithLateRemoval()}, "locked": {withLock},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := zktest.NewServer(t)
			client, theirs := zktest.Client(t, server), zktest.Client(t, server)
			q := newQueue(t, client, opts...)
			require.NoError(t, q.Put(zktest.Context(t), []byte("old")))
			data := queueData(t, theirs, "new")
			item := path + "/" + awaitNames(t, theirs, path, 1)[0]

			items := whileTaken(t, server, client, item, func() error { return theirs.Set(zktest.Context(t), item, data) }, func() <-chan string {
				return consumed(t, q)
			})

			if len(opts) > 0 {
				require.Equal(t, "old", zktest.Await(t, items, "the item as it was read"))
			}
			require.Equal(t, "new", zktest.Await(t, items, "the item as it was written"))
			awaitNames(t, theirs, path, 0)
		})
	}
	t.Run("simple", func(t *testing.T) {
		t.Parallel()
		server := zktest.NewServer(t)
		client, theirs := zktest.Client(t, server), zktest.Client(t, server)
		q := must.Get(queues.NewSimpleDistributedQueue(client, path))(t)
		for _, data := range []string{"old", "second"} {
			require.NoError(t, q.Offer(zktest.Context(t), []byte(data)))
		}
		item := path + "/" + awaitNames(t, theirs, path, 2)[0]
		items := whileTaken(t, server, client, item, func() error { return theirs.Set(zktest.Context(t), item, []byte("new")) }, func() <-chan string {
			taken := make(chan string, 1)
			go func() {
				data, err := q.Take(zktest.Context(t))
				taken <- fmt.Sprintf("%s, %v", data, err)
			}()
			return taken
		})
		require.Equal(t, "new, <nil>", zktest.Await(t, items, "the item"), "it is still the first")
	})
}

// whileTaken starts a consumer, and calls fn when it has read the item and before the server applies what removes it.
func whileTaken(
	t *testing.T, server *zkserver.Server, client *framework.Framework, item string, fn func() error, start func() <-chan string,
) <-chan string {
	t.Helper()
	session := client.Session().ID()
	var read, held atomic.Bool
	removing, goOn := make(chan struct{}), make(chan struct{})
	server.Intercept(func(r zkserver.Request) zkserver.Fault {
		switch {
		case r.SessionID != session:
		case r.Op == zkserver.OpGetData && r.Path == item, r.Op == zkserver.OpMultiRead:
			read.Store(true)
		case read.Load() && (r.Op == zkserver.OpDelete || r.Op == zkserver.OpMulti) && !held.Swap(true):
			close(removing)
			return zkserver.HoldUntil(goOn)
		}
		return zkserver.Pass
	})
	items := start()
	zktest.Await(t, removing, "the removal")
	require.NoError(t, fn())
	close(goOn)
	return items
}

// queueData returns what a queue writes for an item.
func queueData(t *testing.T, client *framework.Framework, item string) []byte {
	t.Helper()
	require.NoError(t, must.Get(queues.NewDistributedQueue(client, "/other"))(t).Put(zktest.Context(t), []byte(item)))
	data := must.Get(client.Get(zktest.Context(t), "/other/"+awaitNames(t, client, "/other", 1)[0]))(t)
	return data
}
