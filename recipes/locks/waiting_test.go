// SPDX-License-Identifier: Apache-2.0

package locks_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zkproxy"
	"github.com/gocurator/curator/testing/zktest"
)

// The session of a waiter ends while nobody tells it, then its turn comes: what it
// gets is the lock with a node of its next session, not the turn of the old one.
//
// See etcd#11456 and etcd#9921.
func TestWaitTurnOfAnEndedSessionIsNotTaken(t *testing.T) {
	tryAtOnce(t, func(t *testing.T, server zktest.Backend, path string) {
		admin := zktest.Client(t, server.ConnectString())
		holder := newMutex(t, admin, path)
		lease := acquire(t, holder)
		link := zktest.NewProxy(t, server.Addr())
		client := zktest.Client(t, server.ConnectStringVia(link.Addr()))
		waiting := acquireLater(zktest.Context(t), newMutex(t, client, path))
		old := awaitQueue(t, holder, 2)[1]

		link.Blackhole(zkproxy.Both)
		zktest.KillSession(t, client, server.Addr())
		release(t, lease)
		third := acquire(t, holder) // the waiter's turn has come and gone
		link.Heal()
		next := awaitOther(t, holder, old)
		select {
		case o := <-waiting:
			t.Fatalf("the waiter got %+v while another has the lock", o)
		default:
		}
		release(t, third)
		o := await(t, waiting)
		require.NoError(t, o.err)
		require.Equal(t, next.Token, o.lease.Token())
		require.NotEqual(t, old.Session, next.Session)
		stat, err := admin.Exists(zktest.Context(t), o.lease.Path())
		require.NoError(t, err)
		require.Equal(t, client.Session().ID(), stat.EphemeralOwner)
		release(t, o.lease)
	})
}

// A reader or a writer that waits, and whose node is taken away, joins the queue
// again, in which it is not found at first.
//
// See CURATOR-211 and CURATOR-307.
func TestWaitReaderOrWriterJoinsTheQueueAgain(t *testing.T) {
	tryAtOnce(t, func(t *testing.T, server zktest.Backend, path string) {
		admin := zktest.Client(t, server.ConnectString())
		rw := newReadWrite(t, admin, path)
		other := newReadWrite(t, zktest.Client(t, server.ConnectString()), path)
		for _, side := range []locks.InterProcessLock{other.ReadLock(), other.WriteLock()} {
			lease := acquire(t, rw.WriteLock())
			waiting := acquireLater(zktest.Context(t), side)
			first := awaitQueue(t, rw, 2)[1]
			require.NoError(t, admin.Delete(zktest.Context(t), first.Path))
			second := awaitOther(t, rw, first)
			select {
			case o := <-waiting:
				t.Fatalf("the waiter got %+v while there is a writer", o)
			default:
			}
			release(t, lease)
			o := await(t, waiting)
			require.NoError(t, o.err)
			require.Equal(t, second.Token, o.lease.Token())
			release(t, o.lease)
		}
	})
}

// Somebody who may has made the holder's node unreadable. The hold goes on, for the
// node is there; who would have to watch it is told at once, and leaves nothing.
func TestWaitHoldersNodeIsMadeUnreadable(t *testing.T) {
	tryOften(t, func(t *testing.T, server zktest.Backend) {
		admin := zktest.Client(t, server.ConnectString())
		holder := newMutex(t, admin, "/locks/denied")
		lease := acquire(t, holder)
		children := func() []string {
			names, err := admin.Children(zktest.Context(t), "/locks/denied")
			require.NoError(t, err)
			return names
		}
		before := children()
		require.NoError(t, admin.SetACL(zktest.Context(t), lease.Path(),
			[]framework.ACL{{Perms: permDelete, Scheme: "world", ID: "anyone"}}))
		require.NoError(t, lease.Err())
		_, err := newMutex(t, zktest.Client(t, server.ConnectString()), "/locks/denied").Acquire(zktest.Context(t))
		require.ErrorIs(t, err, framework.ErrNoAuth)
		require.Equal(t, before, children())
		require.NoError(t, lease.Err())

		// Of its deletion the server tells nobody who may not read it. What is left is
		// what the server itself refuses, and the token.
		require.NoError(t, admin.Delete(zktest.Context(t), lease.Path()))
		next := acquire(t, newMutex(t, admin, "/locks/denied"))
		require.Greater(t, next.Token(), lease.Token())
		_, err = lease.Transact(zktest.Context(t), framework.CheckOp("/", framework.AnyVersion))
		require.Error(t, err)
		var lost *locks.LostError
		require.ErrorAs(t, lease.Release(zktest.Context(t)), &lost)
		require.NoError(t, next.Err())
		release(t, next)
	})
}

const permDelete = 1 << 3
