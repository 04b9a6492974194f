// SPDX-License-Identifier: Apache-2.0

package locks_test

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// TestGateNumberByHand: a node that was created by name has a number that the server gives once more.
// The contender that gets it is not overlooked by the next one.
func TestGateNumberByHand(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		const path, crowd = "/locks/by-hand", 16 // whose newcomers are created without a list
		crowded, admin := zktest.Client(t, server.ConnectString()), zktest.Client(t, server.ConnectString())
		mutex, rival := newMutex(t, crowded, path, locks.WithQueuePlaces(0)), newMutex(t, zktest.Client(t, server.ConnectString()), path)
		first := acquire(t, newMutex(t, admin, path))
		waiting := queueUp(t, crowd, func(i int) { awaitQueue(t, mutex, i+2) }, mutex)
		block := fmt.Sprintf("%s/lock-%010d", path, crowd+2)
		must.Get(admin.Create(t.Context(), block, nil))(t)
		_, err := mutex.TryAcquire(t.Context())
		require.ErrorIs(t, err, locks.ErrNotAcquired, "it has listed the node")
		between := acquireLater(zktest.Context(t), rival)
		awaitQueue(t, mutex, crowd+3)
		last := acquireLater(zktest.Context(t), mutex)
		awaitQueue(t, mutex, crowd+4)

		release(t, first)
		for _, result := range waiting {
			release(t, await(t, result).lease)
		}
		// The node by hand stands beside the rival's, before or behind it.
		require.NoError(t, admin.Delete(t.Context(), block))
		held := await(t, between)
		require.NoError(t, held.err)
		require.Never(t, func() bool { return len(last) > 0 }, 50*time.Millisecond, time.Millisecond, "the rival holds the lock")
		release(t, held.lease)
		release(t, await(t, last).lease)
	})
}

// passage is a network that can be down: a dial then fails at once.
type passage struct {
	server *zkserver.Server
	down   atomic.Bool
}

func (g *passage) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if g.down.Load() {
		return nil, syscall.ECONNREFUSED
	}
	return g.server.Dial(ctx, network, addr)
}

// restore brings the backup back so that the client behind the passage gets no sign of it: before it
// dials, others come past the newest transaction that it has seen, under the same epoch.
func (g *passage) restore(t *testing.T, backup *zkserver.Backup, other *framework.Framework, meanwhile func()) {
	t.Helper()
	g.down.Store(true)
	require.NoError(t, g.server.Stop())
	require.NoError(t, g.server.Restore(backup, 0))
	require.NoError(t, g.server.Restart())
	_, err := other.Exists(t.Context(), "/") // over a connection again
	require.NoError(t, err)
	meanwhile()
	for range 5 {
		must.Get(other.Create(t.Context(), "/other-", nil, framework.WithMode(framework.PersistentSequential)))(t)
	}
	g.down.Store(false)
}

func restored(t *testing.T, test func(t *testing.T, g *passage, client, other *framework.Framework)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		g := &passage{server: zktest.NewServer(t, zkserver.WithoutListener())}
		client, other := zktest.Client(t, g.server, framework.WithDialer(g.dial)), zktest.Client(t, g.server)
		before := client.History()
		test(t, g, client, other)
		require.Equal(t, before, client.History(), "there was no sign")
	})
}

// TestGateRestoreWithoutASign: restored servers give numbers again. The next number after the last
// one of a client that was alone proves nothing then.
func TestGateRestoreWithoutASign(t *testing.T) {
	restored(t, func(t *testing.T, g *passage, client, other *framework.Framework) {
		mutex, rival := newMutex(t, client, "/lock"), newMutex(t, other, "/lock")
		release(t, acquire(t, rival))
		backup := g.server.Backup()
		release(t, acquire(t, mutex)) // 1
		release(t, acquire(t, mutex)) // 2
		var held *locks.Lease
		g.restore(t, backup, other, func() {
			held = acquire(t, rival)                               // 1
			_, err := other.Create(t.Context(), "/lock/node", nil) // 2
			require.NoError(t, err)
		})
		waiting := acquireLater(t.Context(), mutex) // 3
		time.Sleep(10 * time.Second)
		requireWaiting(t, waiting)
		require.NoError(t, held.Err())
		release(t, held)
		release(t, requireAtOnce(t, waiting))
	})
}

// TestGateRestoreWithoutASignUnderAWaiter: restored servers have a folder that was not changed since
// before the waiter's node, which they lack. The waiter queues again.
func TestGateRestoreWithoutASignUnderAWaiter(t *testing.T) {
	restored(t, func(t *testing.T, g *passage, client, other *framework.Framework) {
		must.Get(other.Create(t.Context(), "/lock/lock-0000000000", nil, framework.CreatingParentsIfNeeded()))(t)
		backup := g.server.Backup()
		waiting := acquireLater(t.Context(), newMutex(t, client, "/lock"))
		time.Sleep(10 * time.Millisecond) // too short for a watch on its own node
		sent := countRequests(t, g.server)
		g.restore(t, backup, other, func() {})
		time.Sleep(10 * time.Second)
		require.LessOrEqual(t, sent.since(zkserver.OpGetChildren2, zkserver.OpGetChildren), 3)
		requireWaiting(t, waiting)
		awaitQueue(t, newMutex(t, other, "/lock"), 2)
		require.NoError(t, other.Delete(t.Context(), "/lock/lock-0000000000"))
		release(t, requireAtOnce(t, waiting))
	})
}
