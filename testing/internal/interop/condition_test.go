// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"context"
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zktest"
)

// Java takes its turns at a mutex while somebody in Go waits for a condition of it: a
// waiter holds nothing and is no contender. Each side sees who the other is.
func TestJavaDoesNotSeeWhoWaitsForACondition(t *testing.T) {
	eachBackend(t, func(t *testing.T, server zktest.Backend) {
		const path = "/locks/shelf"
		client := zktest.Client(t, server.ConnectString())
		mutex := newMutex(t, client, path, locks.WithLabel("baker"))
		condition, err := mutex.NewCondition("/locks/shelf-filled")
		require.NoError(t, err)
		java := newActor(t, server)
		java.do(t, "mutex", "m", path)

		lease, err := mutex.Acquire(zktest.Context(t))
		require.NoError(t, err)
		require.Contains(t, java.do(t, "get", lease.Path())[0], " baker")
		got := make(chan *locks.Lease, 1)
		go func() {
			again, err := condition.Await(zktest.Context(t), lease)
			if err != nil {
				t.Errorf("await: %v", err)
			}
			got <- again
		}()
		node, _ := java.acquire(t, "m")
		queue := awaitQueue(t, mutex, 1)
		require.Equal(t, node, queue[0].Path)
		require.NotNil(t, net.ParseIP(queue[0].Host), "%q", queue[0].Identity)
		require.Equal(t, []string{node}, java.do(t, "participants", "m"))
		java.do(t, "release", "m")

		require.NoError(t, mutex.Do(zktest.Context(t), func(context.Context) error { return nil }))
		signaller, err := mutex.Acquire(zktest.Context(t))
		require.NoError(t, err)
		require.NoError(t, condition.Signal(zktest.Context(t), signaller))
		awaitQueue(t, mutex, 2) // the signalled one has joined the queue
		javasTurn := java.Begin("acquire", "m")
		awaitQueue(t, mutex, 3)
		require.NoError(t, signaller.Release(zktest.Context(t)))
		again := <-got
		require.NotNil(t, again)
		require.NoError(t, again.Release(zktest.Context(t)))
		_, err = javasTurn(zktest.Context(t))
		require.NoError(t, err)
		java.do(t, "release", "m")
		awaitQueue(t, mutex, 0)
	})
}
