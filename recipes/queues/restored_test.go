// SPDX-License-Identifier: Apache-2.0

package queues_test

import (
	"context"
	"strings"
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

// The servers are restored with a lock that no consumer has any more, of a session that goes on. Servers before ZooKeeper 3.6 do not
// tell the client, which would end the session. Later ones do, but the client has not deleted the lock itself: the lock was gone
// with an older backup, and comes back with a newer one.
func TestRestoredLockThatNoConsumerHasIsDeleted(t *testing.T) {
	for name, test := range map[string]struct {
		version string
		older   bool // is restored first, while the item is consumed
	}{"ZooKeeper 3.5": {"3.5.9", false}, "an older backup first": {"3.8.0", true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := zktest.NewServer(t, zkserver.WithoutListener(), zkserver.WithVersion(test.version))
				require.NoError(t, newQueue(t, zktest.Client(t, server), withLock).Put(t.Context(), []byte("a")))
				client := zktest.Client(t, server, framework.WithSessionTimeout(time.Hour))
				session, older, epoch := client.Session(), server.Backup(), int32(0)
				restore := func(b *zkserver.Backup) {
					epoch++
					require.NoError(t, server.Stop())
					require.NoError(t, server.Restore(b, epoch))
					require.NoError(t, server.Restart())
					time.Sleep(time.Minute)
				}
				var deaf atomic.Bool // the client does not hear that the znode of a consumer is gone
				server.Intercept(func(r zkserver.Request) zkserver.Fault {
					if deaf.Load() && r.Op == zkserver.OpDelete && strings.HasPrefix(r.Path, lockPath) {
						return zkserver.NeverAnswer
					}
					return zkserver.Pass
				})
				items, consumed := make(chan string, 10), make(chan struct{})
				start(t, newQueue(t, client, withLock), func(_ context.Context, item []byte) error {
					items <- string(item)
					<-consumed
					return nil
				})
				require.Equal(t, "a", <-items)
				locked := server.Backup()
				if test.older {
					deaf.Store(true)
					restore(older)
				}
				consumed <- struct{}{}
				if test.older { // where it was not locked
					require.Equal(t, "a", <-items)
					deaf.Store(false)
				} else {
					require.Empty(t, awaitNames(t, client, path, 0))
				}

				restore(locked)
				close(consumed)
				time.Sleep(time.Minute)

				require.Empty(t, awaitNames(t, client, path, 0))
				require.Equal(t, session, client.Session(), "the session has gone on")
			})
		})
	}
}

// The list of servers that are restored begins with an item that was consumed.
func TestRestoredItemsComeInTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		producer := newQueue(t, zktest.Client(t, server))
		for _, item := range []string{"a", "b", "c"} {
			require.NoError(t, producer.Put(t.Context(), []byte(item)))
		}
		client := zktest.Client(t, server, framework.WithSessionTimeout(time.Hour))
		backup := server.Backup()
		items, goOn := make(chan string, 10), make(chan struct{})
		start(t, newQueue(t, client), func(_ context.Context, item []byte) error {
			items <- string(item)
			<-goOn
			return nil
		})
		require.Equal(t, "a", <-items)

		require.NoError(t, server.Stop())
		require.NoError(t, server.Restore(backup, 1))
		require.NoError(t, server.Restart())
		time.Sleep(time.Minute)
		close(goOn)

		for _, want := range []string{"a", "b", "c"} {
			require.Equal(t, want, <-items)
		}
	})
}

// Consumers wait for the one that has an item, which may be of their own client, of another one, and of another process.
func TestRestoredLockIsNotMistakenForOneThatAConsumerHas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		client, another, process := zktest.Client(t, server), zktest.Client(t, server), zktest.Client(t, server)
		require.NoError(t, newQueue(t, process, withLock).Put(t.Context(), []byte("theirs")))
		locked := awaitNames(t, process, path, 1)[0]
		const claim = "_consumer-00000000-0000-0000-0000-000000000000"
		ephemeral := framework.WithMode(framework.Ephemeral)
		must.Get(process.Transact(t.Context(), framework.CreateOp(framework.JoinPath(path, locked, claim), nil, ephemeral),
			framework.CreateOp(lockPath, nil), framework.CreateOp(framework.JoinPath(lockPath, locked), []byte(claim), ephemeral)))(t)
		require.NoError(t, newQueue(t, process, withLock).Put(t.Context(), []byte("ours")))
		items, consumed := make(chan string, 10), make(chan struct{})
		for _, client := range []*framework.Framework{client, client, another} {
			start(t, newQueue(t, client, withLock), func(_ context.Context, item []byte) error {
				items <- string(item)
				<-consumed
				return nil
			})
			synctest.Wait() // the first one has the item
		}

		time.Sleep(time.Minute)
		n := len(items)
		close(consumed)
		time.Sleep(time.Minute)

		require.Equal(t, 1, n)
		require.Equal(t, "ours", <-items)
		require.Empty(t, items)
		require.Equal(t, []string{locked}, awaitNames(t, client, path, 1))
	})
}

// A lock that no consumer has, and that may not be deleted, ends no consumer.
func TestRestoredLockThatMayNotBeDeletedStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		client := zktest.Client(t, server)
		const claim = "_consumer-00000000-0000-0000-0000-000000000000"
		item := must.Get(client.Create(t.Context(), path+"/queue-", queues.Encode([]byte("stuck")), framework.CreatingParentsIfNeeded(),
			framework.WithMode(framework.PersistentSequential),
			framework.WithACL(framework.ACL{Perms: framework.PermRead | framework.PermCreate, Scheme: "world", ID: "anyone"})))(t)
		_, locked := framework.SplitPath(item)
		ephemeral := framework.WithMode(framework.Ephemeral)
		must.Get(client.Transact(t.Context(), framework.CreateOp(framework.JoinPath(item, claim), nil, ephemeral),
			framework.CreateOp(lockPath, nil), framework.CreateOp(framework.JoinPath(lockPath, locked), []byte(claim), ephemeral)))(t)
		items := consumed(t, newQueue(t, client, withLock))
		time.Sleep(time.Minute)

		require.NoError(t, newQueue(t, client, withLock).Put(t.Context(), []byte("next")))

		require.Equal(t, []string{"next"}, awaitItems(t, items, 1))
	})
}
