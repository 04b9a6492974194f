// SPDX-License-Identifier: Apache-2.0

package queues_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/queues"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// A folder that is cleared and used again has items of the same names. A consumer that has
// had an item all the while leaves them alone, whatever becomes of its own.
func TestLateConsumerSparesTheItemsOfANewFolder(t *testing.T) {
	t.Parallel()
	for name, late := range map[string]func(item *queues.Item) (leave bool){
		"it is consumed":       func(*queues.Item) bool { return false },
		"it is put back":       func(item *queues.Item) bool { item.Fail(errors.New("no")); return false },
		"the rest is put back": func(item *queues.Item) bool { return string(item.Data) == "old 2" },
	} {
		t.Run(name, func(t *testing.T) {
			zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
				operator := zktest.Client(t, server)
				consumer, producer := newQueue(t, zktest.Client(t, server), withLock), newQueue(t, operator, withLock)
				require.NoError(t, producer.PutMulti(zktest.Context(t), []byte("old 1"), []byte("old 2")))
				cleared := false
				for item, err := range consumer.Items(zktest.Context(t)) {
					require.NoError(t, err)
					if !cleared {
						cleared = true
						require.NoError(t, operator.Delete(zktest.Context(t), path, framework.DeletingChildrenIfNeeded()))
						require.NoError(t, producer.PutMulti(zktest.Context(t), []byte("new 1"), []byte("new 2")))
					}
					if string(item.Data) == "new 1" || late(item) {
						break
					}
				}
				require.Equal(t, []string{"new 1", "new 2"}, awaitItems(t, consumed(t, producer), 2))
				awaitNames(t, operator, lockPath, 1) // the witness
			})
		})
	}
}

// An item that another consumer has got, as its lock was deleted by hand, stays locked for that one.
func TestLateConsumerWhoseLockWasDeletedSparesTheNextOne(t *testing.T) {
	server := zktest.NewServer(t)
	operator := zktest.Client(t, server)
	require.NoError(t, newQueue(t, operator, withLock).Put(zktest.Context(t), []byte("a")))
	had := make(chan chan struct{}, 10)
	consume := func(context.Context, []byte) error {
		goOn := make(chan struct{})
		had <- goOn
		<-goOn
		return nil
	}
	stop := start(t, newQueue(t, zktest.Client(t, server), withLock), consume)
	first := zktest.Await(t, had, "the first consumer")
	lock := framework.JoinPath(lockPath, "queue-0000000000")
	require.NoError(t, operator.Delete(zktest.Context(t), lock))
	start(t, newQueue(t, zktest.Client(t, server), withLock), consume)
	second := zktest.Await(t, had, "the second consumer")
	close(first)
	stop()
	require.NotNil(t, must.Get(operator.Exists(zktest.Context(t), lock))(t), "the lock of the second consumer")
	close(second)
	awaitNames(t, operator, path, 0)
}

// A znode that is longer than a reply may be, or that may not be read, costs no other item. When
// it changes, it is consumed.
func TestLateItemThatCannotBeReadIsLeftOut(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]queues.Option{"at once": nil, "locked": {withLock}} {
		t.Run(name, func(t *testing.T) {
			zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
				operator := zktest.Client(t, server)
				producer := must.Get(queues.NewDistributedPriorityQueue(operator, path, opts...))(t)
				require.NoError(t, producer.Put(zktest.Context(t), []byte("1"), 1))
				require.NoError(t, producer.Put(zktest.Context(t), bytes.Repeat([]byte("x"), 100<<10), 2))
				require.NoError(t, producer.Put(zktest.Context(t), []byte("3"), 3))
				consumer := must.Get(queues.NewDistributedPriorityQueue(
					zktest.Client(t, server, framework.WithMaxReplySize(10<<10)), path, opts...))(t)
				items := consumed(t, consumer)
				require.Equal(t, []string{"1", "3"}, awaitItems(t, items, 2))
				long := awaitNames(t, operator, path, 1)[0]
				require.NoError(t, producer.Put(zktest.Context(t), []byte("4"), 4))
				require.Equal(t, []string{"4"}, awaitItems(t, items, 1))
				require.NoError(t, operator.Set(zktest.Context(t), framework.JoinPath(path, long), queues.Encode([]byte("2"))))
				require.Equal(t, []string{"2"}, awaitItems(t, items, 1))
			})
		})
	}
}

// A znode that may not be read cannot be watched either, so it is left out by its name. Another item has the
// name in a folder that is cleared and used again.
func TestLateItemOfANewFolderWithTheNameOfOneLeftOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		client, operator := zktest.Client(t, server), zktest.Client(t, server)
		require.NoError(t, newQueue(t, operator).Put(t.Context(), []byte("old")))
		var cleared atomic.Bool
		used := make(chan struct{})
		server.Intercept(func(r zkserver.Request) zkserver.Fault {
			switch {
			case r.SessionID != client.Session().ID():
			case cleared.Load():
				return zkserver.HoldUntil(used) // its next list is of the new folder
			case strings.HasPrefix(r.Path, path+"/"):
				return zkserver.FailWith(-102) // NoAuth
			}
			return zkserver.Pass
		})
		items := consumed(t, newQueue(t, client))
		synctest.Wait()

		cleared.Store(true)
		require.NoError(t, operator.Delete(t.Context(), path, framework.DeletingChildrenIfNeeded()))
		require.NoError(t, newQueue(t, operator).Put(t.Context(), []byte("new")))
		close(used)

		synctest.Wait()
		require.Len(t, items, 1)
		require.Equal(t, "new", <-items)
	})
}

// A producer may create its znode first and write the item then. A consumer that has read the znode
// in between does not miss the item.
func TestLateDataOfAnItemIsConsumed(t *testing.T) {
	for name, opts := range map[string][]queues.Option{"at once": nil, "locked": {withLock}} {
		t.Run(name, func(t *testing.T) {
			server := zktest.NewServer(t)
			producer := zktest.Client(t, server)
			item := must.Get(producer.Create(zktest.Context(t), path+"/queue-", nil,
				framework.WithMode(framework.PersistentSequential), framework.CreatingParentsIfNeeded()))(t)
			asked, written := make(chan struct{}), make(chan struct{})
			server.Intercept(func(r zkserver.Request) zkserver.Fault {
				if r.Op != zkserver.OpExists || r.Path != item {
					return zkserver.Pass
				}
				close(asked) // once: the item is read, and is consumed then
				return zkserver.HoldUntil(written)
			})
			items := consumed(t, newQueue(t, zktest.Client(t, server), opts...))
			zktest.Await(t, asked, "the watch on an item without data")
			require.NoError(t, producer.Set(zktest.Context(t), item, queues.Encode([]byte("a"))))
			close(written)

			require.Equal(t, []string{"a"}, awaitItems(t, items, 1))
		})
	}
}

// between is a compression that calls a function between the read of an item and its deletion.
type between struct{ call func() }

func (between) Compress(_ string, data []byte) ([]byte, error) { return data, nil }

func (b between) Decompress(_ string, data []byte) ([]byte, error) {
	b.call()
	return data, nil
}

// A consumer has read an item when the servers are restored. It deletes no item of theirs that has the same name.
func TestLateDeletionSparesTheItemOfRestoredServers(t *testing.T) {
	for name, next := range map[string]func(*testing.T, *framework.Framework) (string, error){
		"simple": func(t *testing.T, client *framework.Framework) (string, error) {
			q := must.Get(queues.NewSimpleDistributedQueue(client, path))(t)
			item, err := q.Take(t.Context())
			return string(item), err
		},
		"at once": func(t *testing.T, client *framework.Framework) (string, error) {
			for item, err := range newQueue(t, client).Items(t.Context()) {
				if err != nil {
					return "", err
				}
				return string(item.Data), nil
			}
			return "", nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, another := zktest.NewServer(t, zkserver.WithoutListener()), zktest.NewServer(t, zkserver.WithoutListener())
				for server, item := range map[*zkserver.Server]string{server: "old", another: "new"} {
					producer := zktest.Client(t, server)
					if name == "simple" {
						require.NoError(t, newSimple(t, producer).Offer(t.Context(), []byte(item)))
					} else {
						require.NoError(t, newQueue(t, producer).Put(t.Context(), []byte(item)))
					}
				}
				var once sync.Once
				var client *framework.Framework
				restored := func() {
					once.Do(func() {
						stopped := server.Stop()
						zktest.AwaitState(t, client, framework.Suspended)
						if err := errors.Join(stopped, server.Restore(another.Backup(), 0)); err != nil {
							t.Error(err) // not on the goroutine of the test
						}
						time.AfterFunc(time.Second, func() { assert.NoError(t, server.Restart()) })
					})
				}
				client = zktest.Client(t, server, framework.WithCompression(), framework.WithCompressionProvider(between{restored}),
					framework.WithRetryPolicy(retry.Forever(time.Second)))

				item, err := next(t, client)

				require.NoError(t, err)
				require.Equal(t, "new", item)
			})
		})
	}
}
