// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zktest"
)

// silentZK keeps go-zookeeper from writing to the standard logger.
type silentZK struct{}

func (silentZK) Printf(string, ...any) {}

// newZKConn returns a client of go-zookeeper over TCP, which is closed when the test ends.
func newZKConn(t *testing.T, server zktest.Backend) *zk.Conn {
	t.Helper()
	conn, events, err := zk.Connect([]string{server.Addr()}, 10*time.Second, zk.WithLogger(silentZK{}))
	require.NoError(t, err)
	t.Cleanup(func() {
		conn.Close()
		for range events { // closed when its goroutines are done
		}
	})
	return conn
}

// TestZKLockInOneQueue is a rolling migration from go-zookeeper's zk.Lock, half way
// through: two clients with zk.Lock and two with InterProcessMutex take turns at one path.
func TestZKLockInOneQueue(t *testing.T) {
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		const path, each = "/locks/migrated", 50
		var inside atomic.Int64
		var mu sync.Mutex
		var order []string
		turn := func(kind string) {
			if n := inside.Add(1); n != 1 {
				t.Errorf("%d inside at once", n)
			}
			mu.Lock()
			order = append(order, kind)
			mu.Unlock()
			inside.Add(-1)
		}
		var wg sync.WaitGroup
		for range 2 {
			old := zk.NewLock(newZKConn(t, server), server.Root()+path, zk.WorldACL(zk.PermAll))
			wg.Go(func() {
				for range each {
					if err := old.Lock(); err != nil {
						t.Error(err)
						return
					}
					turn("zk.Lock")
					if err := old.Unlock(); err != nil {
						t.Error(err)
						return
					}
				}
			})
			mutex := newMutex(t, zktest.Client(t, server.ConnectString()), path)
			wg.Go(func() {
				for range each {
					if err := mutex.Do(t.Context(), func(context.Context) error { turn("mutex"); return nil }); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
		require.Len(t, order, 4*each)
		changes := 0
		for i, kind := range order[1:] {
			if kind != order[i] {
				changes++
			}
		}
		require.Greater(t, changes, each, "they did not queue together: %v", order)
	})
}

// TestZKLockAmongTheParticipants: each kind waits for the other, and is seen in the queue.
// What zk.Lock does not write is empty: host, process and label.
func TestZKLockAmongTheParticipants(t *testing.T) {
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		const path = "/locks/migrated"
		conn := newZKConn(t, server)
		old := zk.NewLock(conn, server.Root()+path, zk.WorldACL(zk.PermAll))
		mutex := newMutex(t, zktest.Client(t, server.ConnectString()), path, locks.WithLabel("new"))
		require.NoError(t, old.Lock())
		_, err := mutex.TryAcquire(zktest.Context(t))
		require.ErrorIs(t, err, locks.ErrNotAcquired)

		next := acquireLater(t, mutex)
		queue := awaitQueue(t, mutex, 2)
		require.True(t, queue[0].Holds)
		require.Equal(t, conn.SessionID(), queue[0].Session)
		require.Empty(t, queue[0].Identity+queue[0].Host+queue[0].Label)
		require.Equal(t, "new", queue[1].Label)
		require.Equal(t, []string{queue[0].Path}, queue[1].WaitsFor)

		require.NoError(t, old.Unlock())
		lease := <-next
		require.NotNil(t, lease)
		again := make(chan error, 1)
		go func() { again <- old.Lock() }()
		queue = awaitQueue(t, mutex, 2)
		require.Equal(t, lease.Token(), queue[0].Token)
		require.Equal(t, conn.SessionID(), queue[1].Session)
		require.Empty(t, again, "zk.Lock is held beside the mutex")
		require.NoError(t, lease.Release(zktest.Context(t)))
		require.NoError(t, zktest.Await(t, again, "zk.Lock"))
		require.NoError(t, old.Unlock())
		awaitQueue(t, mutex, 0)
	})
}
