// SPDX-License-Identifier: Apache-2.0

package queues_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"strings"
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

const (
	results     = "/results"
	deadLetters = "/queues/dead"
)

// late are the ways of consuming in which an item stays in its queue until it was consumed.
var late = map[string]queues.Option{"locked": withLock, "removed late": queues.WithLateRemoval()}

// result adds the result of an item. A second one fails.
func result(item *queues.Item) framework.Op {
	return framework.CreateOp(results+"/"+string(item.Data), nil)
}

// withResults returns a client of a server that has a folder for results.
func withResults[T zktest.Target](tb testing.TB, server T) *framework.Framework {
	tb.Helper()
	client := zktest.Client(tb, server)
	require.NoError(tb, client.Mkdirs(zktest.Context(tb), results))
	return client
}

func TestItemAndItsResult(t *testing.T) {
	t.Parallel()
	for name, opt := range late {
		t.Run(name, func(t *testing.T) {
			zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
				client := withResults(t, server)
				q := newQueue(t, client, opt)
				require.NoError(t, q.Put(zktest.Context(t), []byte("alone")))
				require.NoError(t, q.PutMulti(zktest.Context(t), []byte("a"), []byte("b"), []byte("c")))
				left := map[string]int{"alone": 1, "a": 1, "b": 1, "c": 0} // znodes of the queue, after the item
				for item, err := range q.Items(zktest.Context(t)) {
					require.NoError(t, err)
					require.NoError(t, item.Transact(zktest.Context(t), result(item)))
					require.ErrorContains(t, item.Transact(zktest.Context(t), result(item)), "removed by a Transact before")
					require.NotNil(t, must.Get(client.Exists(zktest.Context(t), results+"/"+string(item.Data)))(t))
					awaitNames(t, client, path, left[string(item.Data)])
					if string(item.Data) == "c" {
						break
					}
				}
				require.Equal(t, []string{"a", "alone", "b", "c"}, awaitNames(t, client, results, 4))
				if name == "locked" {
					awaitNames(t, client, lockPath, 0)
				}
			})
		})
	}
}

// Of items that were put together, those that were removed do not come again, whatever becomes of
// the others.
func TestItemWhatWasTransactedDoesNotComeAgain(t *testing.T) {
	t.Parallel()
	for name, opt := range late {
		for end, fails := range map[string]bool{"left": false, "failed": true} {
			t.Run(name+", "+end, func(t *testing.T) {
				zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
					client := withResults(t, server)
					q := newQueue(t, client, opt)
					require.NoError(t, q.PutMulti(zktest.Context(t), []byte("a"), []byte("b"), []byte("c")))
					for item, err := range q.Items(zktest.Context(t)) {
						require.NoError(t, err)
						if string(item.Data) == "a" {
							require.NoError(t, item.Transact(zktest.Context(t), result(item)))
							continue
						}
						if !fails || item.Attempt() == 2 {
							break
						}
						item.Fail(errFailed)
					}
					require.Equal(t, []string{"b", "c"}, awaitItems(t, consumed(t, q), 2))
				})
			})
		}
	}
}

// An item whose transaction is refused has failed, and none of it was applied.
func TestItemRefusedTransactionFailsItsItem(t *testing.T) {
	t.Parallel()
	for name, opt := range late {
		t.Run(name, func(t *testing.T) {
			zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
				client := withResults(t, server)
				must.Get(client.Create(zktest.Context(t), results+"/a", nil))(t)
				q := newQueue(t, client, opt)
				require.NoError(t, q.Put(zktest.Context(t), []byte("a")))
				for item, err := range q.Items(zktest.Context(t)) {
					require.NoError(t, err)
					err = item.Transact(zktest.Context(t), framework.CreateOp(results+"/b", nil), result(item))
					require.ErrorIs(t, err, framework.ErrNodeExists)
					require.ErrorContains(t, err, results+"/a")
					if item.Attempt() == 2 {
						require.Contains(t, item.LastError(), "exists")
						require.NoError(t, item.Transact(zktest.Context(t)), "without ops it is removed")
						break
					}
				}
				awaitNames(t, client, path, 0)
				require.Equal(t, []string{"a"}, awaitNames(t, client, results, 1))
			})
		})
	}
}

func TestTransactRefusesBadInput(t *testing.T) {
	server := zktest.NewServer(t)
	client := withResults(t, server)
	q := newQueue(t, client, withLock)
	require.NoError(t, q.Put(zktest.Context(t), []byte("a")))
	ended, end := context.WithCancel(t.Context())
	end()
	var gone *queues.Item
	for item, err := range q.Items(zktest.Context(t)) {
		require.NoError(t, err)
		gone = item
		_, name := framework.SplitPath(item.Path())
		sent := len(server.Log())
		for text, call := range map[string]func() error{
			"context nil":      func() error { return item.Transact(nilContext) },
			"context canceled": func() error { return item.Transact(ended) },
			"the item":         func() error { return item.Transact(zktest.Context(t), framework.DeleteOp(item.Path())) },
			"operation 1": func() error {
				return item.Transact(zktest.Context(t), result(item), framework.CheckOp(item.Path(), framework.AnyVersion))
			},
			item.Path() + "/x":    func() error { return item.Transact(zktest.Context(t), framework.CreateOp(item.Path()+"/x", nil)) },
			lockPath + "/" + name: func() error { return item.Transact(zktest.Context(t), framework.DeleteOp(lockPath+"/"+name)) },
			"no path":             func() error { return item.Transact(zktest.Context(t), framework.Op{}) },
			"invalid path":        func() error { return item.Transact(zktest.Context(t), framework.CreateOp("results", nil)) },
			"too large": func() error {
				return item.Transact(zktest.Context(t), framework.SetDataOp(results, make([]byte, 2<<20)))
			},
			"in a transaction": func() error {
				return item.Transact(zktest.Context(t), framework.DeleteOp(results, framework.Quietly()))
			},
		} {
			require.ErrorContains(t, call(), text)
		}
		for _, e := range server.Log()[sent:] {
			require.Equal(t, zkserver.OpPing, e.Request.Op, "nothing is sent: %v", e)
		}
		require.NoError(t, item.Transact(zktest.Context(t), result(item)), "the item is still there")
		break
	}
	require.ErrorContains(t, gone.Transact(zktest.Context(t)), "the loop has gone on")

	require.NoError(t, q.Put(zktest.Context(t), []byte("b")))
	for item, err := range newQueue(t, client).Items(zktest.Context(t)) {
		require.NoError(t, err)
		require.ErrorContains(t, item.Transact(zktest.Context(t), result(item)), "WithLockPath")
		break
	}
}

// Whatever is lost, a locked item is removed together with its result. While the session lives the
// caller knows that.
func TestItemEveryLostRequestOfATransact(t *testing.T) {
	t.Parallel()
	for _, fault := range []zkserver.Fault{zkserver.LoseRequest, zkserver.LoseReply} {
		for k := 1; k <= 6; k++ {
			t.Run(fmt.Sprintf("transaction %d, %v", k, fault), func(t *testing.T) {
				t.Parallel()
				server := zktest.NewServer(t)
				t.Cleanup(func() { zktest.AssertClean(t, server) })
				client := withResults(t, server)
				q := newQueue(t, client, withLock)
				require.NoError(t, q.PutMulti(zktest.Context(t), []byte("a"), []byte("b")))
				require.NoError(t, q.Put(zktest.Context(t), []byte("c")))
				server.Intercept(zkserver.Nth(k, zkserver.OpMulti, fault))
				done := 0
				for item, err := range q.Items(zktest.Context(t)) {
					require.NoError(t, err)
					require.NoError(t, item.Transact(zktest.Context(t), result(item), countOp()))
					if done++; done == 3 {
						break
					}
				}
				require.Equal(t, []string{"a", "b", "c"}, awaitNames(t, client, results, 3))
				awaitNames(t, client, path, 0)
				awaitNames(t, client, lockPath, 0)
				requireCount(t, client, 3)
			})
		}
	}
}

// countOp counts the transactions that were applied.
func countOp() framework.Op { return framework.SetDataOp(results, nil) }

func requireCount(tb testing.TB, client *framework.Framework, n int32) {
	tb.Helper()
	require.Equal(tb, n, must.Get(client.Exists(zktest.Context(tb), results))(tb).Version, "each transaction was applied once")
}

// A transaction whose reply does not come before its context ends is in doubt. The loop settles it.
func TestItemTransactInDoubtIsSettledByTheLoop(t *testing.T) {
	server := zktest.NewServer(t)
	client := withResults(t, server)
	q := newQueue(t, client, withLock)
	require.NoError(t, q.PutMulti(zktest.Context(t), []byte("a"), []byte("b")))
	release := make(chan struct{})
	server.Intercept(zkserver.Nth(2, zkserver.OpMulti, zkserver.HoldUntil(release))) // the first one locks
	var got []string
	for item, err := range q.Items(zktest.Context(t)) {
		require.NoError(t, err)
		got = append(got, string(item.Data))
		if len(got) == 2 {
			require.NoError(t, item.Transact(zktest.Context(t), result(item), countOp()))
			break
		}
		ctx, cancel := context.WithCancel(zktest.Context(t))
		answer := make(chan error, 1)
		go func() { answer <- item.Transact(ctx, result(item), countOp()) }()
		zktest.AwaitEvent(t, server, func(e zkserver.Event) bool { return e.Fault.String() != zkserver.Pass.String() })
		cancel()
		err = zktest.Await(t, answer, "the end of Transact")
		require.True(t, framework.OutcomeUnknown(err), "%v", err)
		again := item.Transact(zktest.Context(t))
		require.True(t, framework.OutcomeUnknown(again), "%v", again)
		close(release)
	}
	require.Equal(t, []string{"a", "b"}, got, "a was removed, and b is the first one now")
	require.Equal(t, []string{"a", "b"}, awaitNames(t, client, results, 2))
	awaitNames(t, client, path, 0)
	requireCount(t, client, 2)
}

// A consumer whose session has ended adds no result for an item that another consumer has.
func TestItemLateTransactIsRefused(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		client, dies := withResults(t, server), zktest.Client(t, server)
		require.NoError(t, newQueue(t, client).Put(zktest.Context(t), []byte("a")))
		items := must.Get(newQueueItems(t, dies))(t)
		item := zktest.Await(t, items, "the item")
		zktest.KillSession(t, dies)
		<-item.Context().Done()
		for next, err := range newQueue(t, client, withLock).Items(zktest.Context(t)) {
			require.NoError(t, err)
			require.Equal(t, 2, next.Attempt(), "one consumer has died")
			err = item.Transact(zktest.Context(t), framework.CreateOp(results+"/late", nil))
			require.Error(t, err)
			require.False(t, framework.OutcomeUnknown(err), "%v", err)
			require.NoError(t, next.Transact(zktest.Context(t), result(next)))
			break
		}
		require.Equal(t, []string{"a"}, awaitNames(t, client, results, 1))
	})
}

// newQueueItems consumes with locks until the test ends. The loop stays at each item.
func newQueueItems(tb testing.TB, client *framework.Framework) (<-chan *queues.Item, error) {
	tb.Helper()
	q, err := queues.NewDistributedQueue(client, path, withLock)
	if err != nil {
		return nil, err
	}
	items, ended := make(chan *queues.Item), make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer close(ended)
		for item, err := range q.Items(ctx) {
			if err != nil {
				return
			}
			select {
			case items <- item:
				<-ctx.Done()
			case <-ctx.Done():
			}
		}
	}()
	tb.Cleanup(func() { cancel(); <-ended })
	return items, nil
}

// Two consumers without locks have the same item. The result of one of them exists.
func TestItemOneOfTwoConsumersRemovesAnItem(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		client := withResults(t, server)
		q := newQueue(t, client, queues.WithLateRemoval())
		require.NoError(t, q.Put(zktest.Context(t), []byte("a")))
		for first, err := range q.Items(zktest.Context(t)) {
			require.NoError(t, err)
			for second, err := range newQueue(t, zktest.Client(t, server), queues.WithLateRemoval()).Items(zktest.Context(t)) {
				require.NoError(t, err)
				require.Equal(t, "a", string(second.Data))
				require.NoError(t, second.Transact(zktest.Context(t), framework.CreateOp(results+"/second", nil)))
				break
			}
			require.ErrorContains(t, first.Transact(zktest.Context(t), framework.CreateOp(results+"/first", nil)), "another consumer")
			break
		}
		require.Equal(t, []string{"second"}, awaitNames(t, client, results, 1))
	})
}

// The folder was cleared and has an item of the same name and version. It is another one.
func TestItemLateTransactSparesTheItemOfANewFolder(t *testing.T) {
	t.Parallel()
	for name, opt := range late {
		t.Run(name, func(t *testing.T) {
			zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
				client := withResults(t, server)
				q := newQueue(t, client, opt)
				require.NoError(t, q.Put(zktest.Context(t), []byte("old")))
				for item, err := range q.Items(zktest.Context(t)) {
					require.NoError(t, err)
					require.NoError(t, client.Delete(zktest.Context(t), path, framework.DeletingChildrenIfNeeded()))
					require.NoError(t, q.Put(zktest.Context(t), []byte("new")))
					require.ErrorIs(t, item.Transact(zktest.Context(t), result(item)), framework.ErrNoNode)
					break
				}
				require.Equal(t, []string{"new"}, awaitItems(t, consumed(t, q), 1))
				awaitNames(t, client, results, 0)
			})
		})
	}
}

func TestItemAttemptsAreCounted(t *testing.T) {
	t.Parallel()
	for _, k := range kinds {
		t.Run(k.typ, func(t *testing.T) {
			zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
				client := zktest.Client(t, server)
				q, put, err := k.open(client, path, withLock)
				require.NoError(t, err)
				require.NoError(t, put(zktest.Context(t), []byte("a"), []byte("b"), []byte("c")))
				attempts := make(map[string][]int)
				errorsOf := make(map[string][]string)
				loop := func(fn func(*queues.Item) (goOn bool)) {
					for item, err := range q.(interface {
						Items(ctx context.Context) iter.Seq2[*queues.Item, error]
					}).Items(zktest.Context(t)) {
						require.NoError(t, err)
						attempts[string(item.Data)] = append(attempts[string(item.Data)], item.Attempt())
						errorsOf[string(item.Data)] = append(errorsOf[string(item.Data)], item.LastError())
						if !fn(item) {
							return
						}
					}
				}
				loop(func(*queues.Item) bool { return false })
				failures := 0
				loop(func(item *queues.Item) bool {
					if string(item.Data) == "b" {
						if failures++; failures == 3 {
							return false
						}
						item.Fail(fmt.Errorf("failure %d", failures))
					}
					return true
				})
				loop(func(item *queues.Item) bool { return string(item.Data) != "c" })
				require.Equal(t, map[string][]int{"a": {1, 2}, "b": {1, 2, 3, 4}, "c": {1}}, attempts)
				require.Equal(t, []string{"", "failure 1", "failure 2", "failure 2"}, errorsOf["b"])
				require.Equal(t, []string{""}, errorsOf["c"])
			})
		})
	}
}

func TestItemPoisonItemIsMoved(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		client := zktest.Client(t, server)
		opt := queues.WithMaxAttempts(2, deadLetters)
		q := must.Get(queues.NewDistributedIdQueue(client, path, withLock, opt))(t)
		require.NoError(t, q.PutMulti(zktest.Context(t), "id", []byte("good"), []byte("poison"), []byte("also good")))
		require.NoError(t, q.Put(zktest.Context(t), []byte("alone"), "id"))
		got := make(chan string, 100)
		stop := start(t, q, func(_ context.Context, item []byte) error {
			got <- string(item)
			if bytes.Contains(item, []byte("good")) {
				return nil
			}
			return errFailed
		})
		require.ElementsMatch(t, []string{"good", "poison", "alone", "poison", "also good", "alone"}, awaitItems(t, got, 6))
		awaitNames(t, client, path, 0)
		names := awaitNames(t, client, deadLetters, 2)
		stop()
		require.Empty(t, got)
		awaitNames(t, client, lockPath, 0)
		for _, name := range names {
			require.Regexp(t, `^queue-\|id\|\d{10}$`, name)
			data := must.Get(client.Get(zktest.Context(t), deadLetters+"/"+name))(t)
			require.True(t, bytes.HasSuffix(data, []byte(`{"attempts":[2],"error":"the mail is not sent"}`)), "%q", data)
		}
		dead := must.Get(queues.NewDistributedIdQueue(client, deadLetters))(t)
		var moved []string
		for item, err := range dead.Items(zktest.Context(t)) {
			require.NoError(t, err)
			require.Equal(t, 3, item.Attempt())
			require.Equal(t, "the mail is not sent", item.LastError())
			if moved = append(moved, string(item.Data)); len(moved) == 2 {
				break
			}
		}
		require.ElementsMatch(t, []string{"poison", "alone"}, moved)
	})
}

// One line of the log says where a dead letter is, and why.
func TestItemThatIsDeadIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		client := zktest.Client(t, zktest.NewServer(t, zkserver.WithoutListener()), framework.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		q := newQueue(t, client, withLock, queues.WithMaxAttempts(1, deadLetters))
		require.NoError(t, q.Put(t.Context(), []byte("poison")))
		start(t, q, func(context.Context, []byte) error { return errFailed })
		letter := deadLetters + "/" + awaitNames(t, client, deadLetters, 1)[0]
		synctest.Wait()
		require.Equal(t, 1, strings.Count(log.String(), "dead letters"))
		require.Contains(t, log.String(), `msg="an item was moved to the dead letters" curator.path=`+path+"/queue-0000000000 letter="+letter+" error=")
	})
}

// An item whose attempts were written by hand is moved like others.
func TestItemWithTooManyAttemptsIsMoved(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	must.Get(client.Create(zktest.Context(t), path+"/queue-", append(queues.Encode([]byte("poison")), `{"attempts":[9223372036854775807]}`...),
		framework.WithMode(framework.PersistentSequential), framework.CreatingParentsIfNeeded()))(t)
	q := newQueue(t, client, withLock, queues.WithMaxAttempts(2, deadLetters))
	start(t, q, func(context.Context, []byte) error { return errFailed })
	awaitNames(t, client, deadLetters, 1)
	awaitNames(t, client, path, 0)
}

// Whatever is lost, a poison item becomes one dead letter.
func TestItemEveryLostRequestOfAMove(t *testing.T) {
	t.Parallel()
	for _, fault := range []zkserver.Fault{zkserver.LoseRequest, zkserver.LoseReply} {
		for k := 1; k <= 3; k++ {
			t.Run(fmt.Sprintf("transaction %d, %v", k, fault), func(t *testing.T) {
				t.Parallel()
				server := zktest.NewServer(t)
				t.Cleanup(func() { zktest.AssertClean(t, server) })
				client := zktest.Client(t, server)
				q := newQueue(t, client, withLock, queues.WithMaxAttempts(1, deadLetters))
				require.NoError(t, q.Put(zktest.Context(t), []byte("poison")))
				server.Intercept(zkserver.Nth(k, zkserver.OpMulti, fault))
				stop := start(t, q, func(context.Context, []byte) error { return errFailed })
				awaitNames(t, client, deadLetters, 1)
				awaitNames(t, client, path, 0)
				stop()
				awaitNames(t, client, deadLetters, 1)
				awaitNames(t, client, lockPath, 0)
			})
		}
	}
}

// An item that has ended its consumers is given no further.
func TestItemThatKillsItsConsumersIsMoved(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		client := zktest.Client(t, server)
		require.NoError(t, newQueue(t, client).Put(zktest.Context(t), []byte("poison")))
		for attempt := range 2 {
			dies := zktest.Client(t, server)
			require.Equal(t, attempt+1, zktest.Await(t, must.Get(newQueueItems(t, dies))(t), "the item").Attempt())
			zktest.KillSession(t, dies)
			awaitUnlocked(t, client)
		}
		require.NoError(t, newQueue(t, client).Put(zktest.Context(t), []byte("good")))
		got := consumed(t, newQueue(t, client, withLock, queues.WithMaxAttempts(2, deadLetters)))
		require.Equal(t, []string{"good"}, awaitItems(t, got, 1))
		name := awaitNames(t, client, deadLetters, 1)[0]
		data := must.Get(client.Get(zktest.Context(t), deadLetters+"/"+name))(t)
		require.Contains(t, string(data), `{"attempts":[2],"error":"no consumer has finished the item in 2 attempts"}`)
		awaitNames(t, client, path, 0)
	})
}

func awaitUnlocked(tb testing.TB, client *framework.Framework) {
	tb.Helper()
	for f, err := range client.FollowChildren(zktest.Context(tb), lockPath) {
		require.NoError(tb, err)
		if !strings.Contains(fmt.Sprint(f.Names), "queue-") {
			return
		}
	}
}

// An item that nearly fills a request is put back and moved with less of its error.
func TestItemLargeItemIsMoved(t *testing.T) {
	server := zktest.NewServer(t)
	client := zktest.Client(t, server, framework.WithMaxRequestSize(20<<10))
	large := bytes.Repeat([]byte("x"), 16<<10-100)
	q := newQueue(t, client, withLock, queues.WithMaxAttempts(2, deadLetters))
	require.NoError(t, q.Put(zktest.Context(t), large))
	start(t, q, func(context.Context, []byte) error { return errors.New(strings.Repeat("y", 1<<20)) })
	name := awaitNames(t, client, deadLetters, 1)[0]
	require.Contains(t, string(must.Get(client.Get(zktest.Context(t), deadLetters+"/"+name))(t)), "yyyy")
	awaitNames(t, client, path, 0)
}

func TestItemKeepsAKilobyteOfItsError(t *testing.T) {
	q := newQueue(t, zktest.Client(t, zktest.NewServer(t)), withLock)
	require.NoError(t, q.Put(zktest.Context(t), []byte("a")))
	for item, err := range q.Items(zktest.Context(t)) {
		require.NoError(t, err)
		if item.Attempt() == 2 {
			require.Equal(t, strings.Repeat("y", 1<<10), item.LastError())
			break
		}
		item.Fail(errors.New(strings.Repeat("y", 10<<10)))
	}
}

// Without the right to create in the folder of dead letters an item stays where it is.
func TestItemThatCannotBeMovedStays(t *testing.T) {
	server := zktest.NewServer(t)
	client := zktest.Client(t, server)
	must.Get(client.Create(zktest.Context(t), deadLetters, nil, framework.CreatingParentsIfNeeded(), framework.WithACL(framework.ReadACL()...)))(t)
	q := newQueue(t, client, withLock, queues.WithMaxAttempts(1, deadLetters))
	require.NoError(t, q.Put(zktest.Context(t), []byte("a")))
	tried := make(chan struct{}, 10)
	stop := start(t, q, func(context.Context, []byte) error { tried <- struct{}{}; return errFailed })
	zktest.Await(t, tried, "the attempt")
	stop()
	awaitNames(t, client, path, 1)
	awaitNames(t, client, lockPath, 0)
}

// It comes after a pause, and no pause is left once it is deleted.
func TestItemThatCannotBeDeletedComesAgain(t *testing.T) {
	onFakeTime(t, func(t *testing.T, server *zkserver.Server) {
		q := newQueue(t, zktest.Client(t, server), queues.WithLateRemoval())
		require.NoError(t, q.Put(t.Context(), []byte("a")))
		grant := server.Intercept(func(r zkserver.Request) zkserver.Fault {
			if r.Op == zkserver.OpMulti {
				return zkserver.FailWith(-102) // NoAuth
			}
			return zkserver.Pass
		})
		items := consumed(t, q)
		require.Equal(t, []string{"a", "a"}, awaitItems(t, items, 2))
		time.Sleep(time.Minute)
		require.LessOrEqual(t, len(items), 600)
		grant()
		time.Sleep(time.Minute)
		for len(items) > 0 {
			require.Equal(t, "a", <-items)
		}
		began := time.Now()
		for range 10 {
			require.NoError(t, q.Put(t.Context(), []byte("b")))
		}
		awaitItems(t, items, 10)
		require.Zero(t, time.Since(began))
	})
}

func TestItemOptionsThatContradict(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	for text, opts := range map[string][]queues.Option{
		"0 attempts":                         {withLock, queues.WithMaxAttempts(0, deadLetters)},
		"dead letter path":                   {withLock, queues.WithMaxAttempts(1, "dead")},
		"WithMaxAttempts without":            {queues.WithMaxAttempts(1, deadLetters)},
		"WithErrorMode(Delete)":              {withLock, queues.WithMaxAttempts(1, deadLetters), queues.WithErrorMode(queues.Delete)},
		"dead letters at " + path:            {withLock, queues.WithMaxAttempts(1, path)},
		"dead letters at " + path + "/dead":  {withLock, queues.WithMaxAttempts(1, path+"/dead")},
		"dead letters at " + lockPath + "/x": {withLock, queues.WithMaxAttempts(1, lockPath+"/x")},
		"WithLateRemoval and WithLockPath":   {withLock, queues.WithLateRemoval()},
		"WithErrorMode without WithLockPath": {queues.WithErrorMode(queues.Delete)},
	} {
		_, err := queues.NewDistributedQueue(client, path, opts...)
		require.ErrorContains(t, err, text)
	}
	must.Get(queues.NewDistributedQueue(client, path, queues.WithLateRemoval(), queues.WithErrorMode(queues.Delete)))(t)
}

// Attempts, errors and results are the same with compressed data.
func TestItemCompressedQueue(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		client := zktest.Client(t, server, framework.WithCompression())
		require.NoError(t, client.Mkdirs(zktest.Context(t), results))
		q := newQueue(t, client, withLock, queues.WithMaxAttempts(2, deadLetters))
		require.NoError(t, q.PutMulti(zktest.Context(t), []byte("a"), []byte("poison")))
		for item, err := range q.Items(zktest.Context(t)) {
			require.NoError(t, err)
			if string(item.Data) == "poison" {
				if item.Attempt() == 2 {
					require.Equal(t, errFailed.Error(), item.LastError())
					require.NoError(t, q.Put(zktest.Context(t), []byte("last")))
				}
				item.Fail(errFailed)
				continue
			}
			require.NoError(t, item.Transact(zktest.Context(t), result(item)))
			if string(item.Data) == "last" {
				break
			}
		}
		require.Equal(t, []string{"a", "last"}, awaitNames(t, client, results, 2))
		name := awaitNames(t, client, deadLetters, 1)[0]
		data := must.Get(zktest.Client(t, server).Get(zktest.Context(t), deadLetters+"/"+name, framework.Decompressed()))(t)
		require.Contains(t, string(data), errFailed.Error())
	})
}

// A consumer that copies the data when it puts an item back, as Curator's does, keeps the part of the
// count that is in the data.
func TestItemCopyKeepsItsAttempts(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		client := zktest.Client(t, server)
		q := newQueue(t, client, withLock)
		require.NoError(t, q.Put(zktest.Context(t), []byte("a")))
		for item, err := range q.Items(zktest.Context(t)) {
			require.NoError(t, err)
			if item.Attempt() == 3 {
				break // only the Stat has this one
			}
			item.Fail(errFailed)
		}
		old := framework.JoinPath(path, awaitNames(t, client, path, 1)[0])
		data := must.Get(client.Get(zktest.Context(t), old))(t)
		must.Get(client.Transact(zktest.Context(t), framework.DeleteOp(old),
			framework.CreateOp(path+"/queue-", data, framework.WithMode(framework.PersistentSequential))))(t)
		for item, err := range q.Items(zktest.Context(t)) {
			require.NoError(t, err)
			require.Equal(t, 3, item.Attempt())
			break
		}
	})
}

// What a consumer does to the data of an item does not become the item of the next consumer.
func TestItemIsPutBackAsItWasPut(t *testing.T) {
	for name, opt := range late {
		t.Run(name, func(t *testing.T) {
			client := zktest.Client(t, zktest.NewServer(t))
			q := newQueue(t, client, opt)
			require.NoError(t, q.PutMulti(zktest.Context(t), []byte("first"), []byte("second")))
			var got []string
			for item, err := range q.Items(zktest.Context(t)) {
				require.NoError(t, err)
				got = append(got, string(item.Data))
				clear(item.Data)
				if item.Attempt() == 1 {
					item.Fail(errFailed)
				}
				if len(got) == 3 {
					break
				}
			}
			require.Equal(t, []string{"first", "first", "second"}, got)
			require.Equal(t, []string{"second"}, awaitItems(t, consumed(t, q), 1), "it was left by break")
		})
	}
}

// noError is an error whose method panics on a nil pointer.
type noError struct{ text string }

func (e *noError) Error() string { return e.text }

// A function that returns a nil pointer as its error has failed like others.
func TestItemFailsWithANilPointer(t *testing.T) {
	for name, opt := range late {
		t.Run(name, func(t *testing.T) {
			client := zktest.Client(t, zktest.NewServer(t))
			q := newQueue(t, client, opt)
			require.NoError(t, q.Put(zktest.Context(t), []byte("a")))
			for item, err := range q.Items(zktest.Context(t)) {
				require.NoError(t, err)
				if item.Attempt() == 2 {
					require.Equal(t, "<nil>", item.LastError())
					break
				}
				item.Fail((*noError)(nil))
			}
		})
	}
}

// witnessOf returns the znode by which the only consumer learns what its transactions have done.
func witnessOf(tb testing.TB, client *framework.Framework) string {
	tb.Helper()
	names := must.Get(client.Children(zktest.Context(tb), lockPath))(tb)
	for _, name := range names {
		if strings.HasPrefix(name, "_consumer-") {
			return framework.JoinPath(lockPath, name)
		}
	}
	tb.Fatalf("no consumer among %v", names)
	return ""
}

// What belongs to the consumer may be written by nothing else: the transaction then applies nothing.
func TestItemTransactDependsOnWhatTheConsumerHas(t *testing.T) {
	for name, breaks := range map[string]func(client *framework.Framework, item *queues.Item, witness string) error{
		"its witness": func(client *framework.Framework, _ *queues.Item, witness string) error {
			return client.Set(t.Context(), witness, nil)
		},
		"its claim": func(client *framework.Framework, item *queues.Item, _ string) error {
			return client.DeleteChildren(t.Context(), item.Path())
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := zktest.NewServer(t)
			client := withResults(t, server)
			q := newQueue(t, zktest.Client(t, server), withLock)
			require.NoError(t, q.PutMulti(zktest.Context(t), []byte("a"), []byte("b")))
			for item, err := range q.Items(zktest.Context(t)) {
				require.NoError(t, err)
				witness := witnessOf(t, client)
				require.ErrorIs(t, item.Transact(zktest.Context(t), framework.SetDataOp(witness, nil)), framework.ErrInvalidOption)
				require.NoError(t, breaks(client, item, witness))
				require.Error(t, item.Transact(zktest.Context(t), result(item)))
				break
			}
			require.Empty(t, awaitNames(t, client, results, 0))
			require.Len(t, awaitNames(t, client, path, 1), 1)
		})
	}
}

// A loop that goes on during a Transact waits for its end, and then settles it.
func TestItemLoopWaitsForATransact(t *testing.T) {
	server := zktest.NewServer(t)
	client := withResults(t, server)
	q := newQueue(t, client, withLock)
	require.NoError(t, q.Put(zktest.Context(t), []byte("a")))
	reached, transactions := make(chan struct{}), 0
	server.Intercept(func(r zkserver.Request) zkserver.Fault {
		if r.Op == zkserver.OpMulti {
			transactions++ // the first one locks the item
			if transactions == 2 {
				close(reached)
				return zkserver.NeverAnswer
			}
		}
		return zkserver.Pass
	})
	answer := make(chan error, 1)
	ctx, stop := context.WithCancel(zktest.Context(t))
	defer stop()
	for item, err := range q.Items(ctx) {
		if err != nil {
			require.ErrorIs(t, err, context.Canceled)
			break
		}
		go func() {
			answer <- item.Transact(zktest.Context(t), result(item))
			stop()
		}()
		<-reached
	}
	require.Error(t, <-answer)
	awaitNames(t, client, path, 0)
	require.NotNil(t, must.Get(client.Exists(zktest.Context(t), results+"/a"))(t), "the item was removed without its result")
}
