// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zktest"
)

func TestJavaAsksGo(t *testing.T) {
	eachBackend(t, func(t *testing.T, server zktest.Backend) {
		const path = "/locks/polite"
		told := make(chan *locks.Lease, 1)
		mutex := newMutex(t, zktest.Client(t, server.ConnectString()), path,
			locks.WithRevocationListener(func(lease *locks.Lease) { told <- lease }))
		java := newActor(t, server)
		java.do(t, "mutex", "m", path)

		for range 2 {
			lease, err := mutex.Acquire(zktest.Context(t))
			require.NoError(t, err)
			holder := java.do(t, "participants", "m")
			require.Equal(t, []string{lease.Path()}, holder)
			java.do(t, "revoke", holder[0])
			await(t, lease.Revoked(), "the request")
			require.Same(t, lease, <-told)
			require.NoError(t, lease.Err())
			require.Empty(t, java.do(t, "acquire", "m", "20"), "the owner decides when to release")

			turn := java.Begin("acquire", "m")
			awaitQueue(t, mutex, 2)
			require.NoError(t, lease.Release(zktest.Context(t)))
			hold, err := turn(zktest.Context(t))
			require.NoError(t, err)
			require.Len(t, hold, 2)
			java.do(t, "release", "m")
		}
	})
}

func TestRevokeGoAsksJava(t *testing.T) {
	eachBackend(t, func(t *testing.T, server zktest.Backend) {
		const path = "/locks/polite"
		client := zktest.Client(t, server.ConnectString())
		mutex := newMutex(t, client, path)
		java := newActor(t, server)
		java.do(t, "mutex", "m", path)
		java.do(t, "make-revocable", "m")
		node, _ := java.acquire(t, "m")
		queue := awaitQueue(t, mutex, 1)
		require.Equal(t, node, queue[0].Path)
		require.Empty(t, queue[0].Identity, "Curator's revocable nodes are empty")

		got := acquireLater(t, mutex)
		awaitQueue(t, mutex, 2)
		// Java misses a request that comes between its creation of the node and its look
		// at it, but acquire has returned, and with it that look.
		require.NoError(t, locks.AttemptRevoke(zktest.Context(t), client, queue[0].Path))
		java.do(t, "await-revocation", "m")
		require.True(t, awaitQueue(t, mutex, 2)[0].RevocationRequested())
		java.do(t, "release", "m")
		lease := <-got
		select {
		case <-lease.Revoked():
			t.Fatal("the request was to the one before")
		default:
		}
		require.NoError(t, lease.Release(zktest.Context(t)))
	})
}

// Curator's Revoker asks for any lock of ours, also for those that Curator's own side does
// not give back when asked.
func TestJavaAsksGoForEveryLock(t *testing.T) {
	eachBackend(t, func(t *testing.T, server zktest.Backend) {
		client, java := zktest.Client(t, server.ConnectString()), newActor(t, server)
		both := newReadWriteLock(t, client, "/locks/both")
		for _, lock := range []locks.InterProcessLock{
			both.ReadLock(), both.WriteLock(),
			newSemaphore(t, client, "/locks/v1"), newSemaphoreV2(t, client, "/locks/v2"), newSemaphoreMutex(t, client, "/locks/mutex"),
		} {
			lease, err := lock.Acquire(zktest.Context(t))
			require.NoError(t, err)
			java.do(t, "revoke", lease.Path())
			await(t, lease.Revoked(), "the request")
			require.NoError(t, lease.Err())
			require.NoError(t, lease.Release(zktest.Context(t)))
		}
	})
}

// Java's readers and writers hear of a request of ours. Its semaphores have nobody who
// would listen.
func TestRevokeGoAsksReadersAndWritersInJava(t *testing.T) {
	eachBackend(t, func(t *testing.T, server zktest.Backend) {
		client, java := zktest.Client(t, server.ConnectString()), newActor(t, server)
		both := newReadWriteLock(t, client, "/locks/both")
		java.do(t, "read-write", "m", "/locks/both")
		for _, side := range []string{"m.read", "m.write"} {
			java.do(t, "make-revocable", side)
			node, _ := java.acquire(t, side)
			require.NoError(t, locks.AttemptRevoke(zktest.Context(t), client, node))
			java.do(t, "await-revocation", side)
			require.True(t, awaitQueue(t, both, 1)[0].RevocationRequested())
			java.do(t, "release", side)
			require.Empty(t, awaitQueue(t, both, 0))
		}
	})
}

func await(t *testing.T, signal <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-signal:
	case <-zktest.Context(t).Done():
		t.Fatalf("%s has not come", what)
	}
}
