// SPDX-License-Identifier: Apache-2.0

package locks_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/testing/zktest"
)

// lasting is the driver of a mutex whose nodes are not ephemeral.
type lasting struct {
	locks.StandardLockInternalsDriver

	admits bool // that they are not
}

func (d lasting) CreatesTheLock(
	ctx context.Context, client *framework.Framework, session *framework.Session, path string, data []byte,
) (locks.LockNode, error) {
	node := locks.LockNode{Persistent: d.admits}
	var err error
	node.Path, err = client.Create(ctx, path, data,
		framework.CreatingParentContainersIfNeeded(), framework.WithProtection(),
		framework.WithMode(framework.PersistentSequential), framework.InSession(session),
		framework.StoringStatIn(&node.Stat), framework.ListingSiblingsIn(&node.Children))
	return node, err
}

func newLasting(tb testing.TB, client *framework.Framework, admits bool) *locks.LockInternals {
	tb.Helper()
	driver := lasting{locks.StandardLockInternalsDriver{
		StandardLockInternalsSorter: locks.StandardLockInternalsSorter{LockName: "lock-"},
	}, admits}
	l, err := locks.NewLockInternals(client, driver, "/locks/lasting", "lock-", 1)
	require.NoError(tb, err)
	return l
}

// TestPersistentLockThatOutlivesItsHolder is testPersistentLock of Curator's
// TestInterProcessMutex: nobody gets in until the node is deleted by hand.
func TestPersistentLockThatOutlivesItsHolder(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		dying, heir := zktest.Client(t, server.ConnectString()), zktest.Client(t, server.ConnectString())
		lease := acquire(t, newLasting(t, dying, true))
		require.NoError(t, dying.Close())
		require.Error(t, lease.Err())
		require.Error(t, lease.Release(zktest.Context(t)))

		l := newLasting(t, heir, true)
		_, err := l.TryAcquire(zktest.Context(t))
		require.ErrorIs(t, err, locks.ErrNotAcquired)
		later := acquireLater(zktest.Context(t), l)
		participants := awaitQueue(t, l, 2)
		require.True(t, participants[0].Holds)
		require.Zero(t, participants[0].Session)
		require.Equal(t, lease.Token(), participants[0].Token)
		require.Empty(t, later)
		require.NoError(t, heir.Delete(zktest.Context(t), participants[0].Path))
		o := await(t, later)
		require.NoError(t, o.err)
		require.Greater(t, o.lease.Token(), lease.Token())
		release(t, o.lease)
		awaitQueue(t, l, 0)
	})
}

// TestPersistentLastingLockOutlivesTheClose: a client that has begun to close deletes nothing, also when
// it takes a while until all contexts have ended.
func TestPersistentLastingLockOutlivesTheClose(t *testing.T) {
	server := zktest.NewServer(t)
	other := zktest.Client(t, server)
	for range 200 {
		client := zktest.Client(t, server)
		lease := acquire(t, newLasting(t, client, true))
		session := client.Session().Context(framework.SessionErrorPolicy)
		ends := make([]context.CancelFunc, 1_000)
		for i := range ends {
			_, ends[i] = context.WithCancel(session)
		}

		require.NoError(t, client.Close())

		for _, end := range ends {
			end()
		}
		require.NoError(t, other.Delete(zktest.Context(t), lease.Path()), "the node is there")
	}
}

// TestPersistentLastingLockOfALostSession: the lease ends, and the client lets the next one in.
func TestPersistentLastingLockOfALostSession(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		client, other := zktest.Client(t, server.ConnectString()), zktest.Client(t, server.ConnectString())
		lease := acquire(t, newLasting(t, client, true))
		later := acquireLater(zktest.Context(t), newLasting(t, other, true))
		awaitQueue(t, newLasting(t, other, true), 2)
		zktest.KillSession(t, client, server.Addr())
		awaitDone(t, lease.Done(), "the loss")
		o := await(t, later)
		require.NoError(t, o.err)
		release(t, o.lease)
	})
}

// TestPersistentNodeThatIsNotOurs: a driver whose nodes are not ephemeral, and which does not say
// so, never gets a lock, and leaves nothing.
func TestPersistentNodeThatIsNotOurs(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		client := zktest.Client(t, server.ConnectString(),
			framework.WithRetryPolicy(retry.NTimes(1, time.Millisecond)))
		l := newLasting(t, client, false)
		_, err := l.Acquire(zktest.Context(t))
		require.ErrorContains(t, err, "belongs to session 0x0, ours is")
		awaitQueue(t, l, 0)
	})
}
