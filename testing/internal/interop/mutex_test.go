// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"context"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zktest"
)

// Four clients in Go and four in Java: one hold at a time, and in the
// order in which the server has created their nodes.
func TestMutexContest(t *testing.T) {
	onZooKeeper(t, func(t *testing.T, server zktest.Backend) {
		const each = 4
		turns := *turns
		const path = "/locks/contest"
		m := newMeeting(t, server)
		observer := newMutex(t, m.observer(t), path)
		for i := range each {
			m.java(t, turns, "contend", "m", "mutex", path)

			who := "go" + strconv.Itoa(i)
			m.holds[who], m.counter = turns, m.counter+turns
			m.ours(t, func(client *framework.Framework) func(context.Context) error {
				mutex := newMutex(t, client, path)
				return func(ctx context.Context) error { return m.contend(ctx, who, mutex, turns) }
			})
		}
		f := m.end(t, observer)
		require.Empty(t, f.overtook, "an older contender was overtaken")
		require.Equal(t, 1, f.most)
	})
}

// Both sides see one queue, with everybody in it once, in the same order.
func TestMutexParticipantsOfBothSides(t *testing.T) {
	eachBackend(t, func(t *testing.T, server zktest.Backend) {
		const path = "/locks/who"
		client := zktest.Client(t, server.ConnectString())
		mutex := newMutex(t, client, path, locks.WithLockData([]byte("replica 1")))
		alice, bob := newActor(t, server), newActor(t, server)
		alice.do(t, "mutex", "m", path)
		bob.do(t, "mutex", "m", path)

		node, czxid := alice.acquire(t, "m")
		again, _ := alice.acquire(t, "m")
		require.Equal(t, node, again, "a re-entrant hold has one node")
		got := acquireLater(t, mutex)
		awaitQueue(t, mutex, 2)
		bobsTurn := bob.Begin("acquire", "m")
		queue := awaitQueue(t, mutex, 3)

		require.Equal(t, node, queue[0].Path)
		require.Equal(t, czxid, queue[0].Token)
		require.NotEmpty(t, queue[0].Identity, "Curator's default data is an address")
		require.Equal(t, "replica 1", queue[1].Identity)
		require.Equal(t, client.Session().ID(), queue[1].Session)
		var paths []string
		for _, p := range queue {
			paths = append(paths, p.Path)
		}
		require.Equal(t, paths, alice.do(t, "participants", "m"))
		require.Equal(t, "replica 1", alice.do(t, "get", queue[1].Path)[0])

		alice.do(t, "release", "m")
		require.Equal(t, node, awaitQueue(t, mutex, 3)[0].Path, "held until the last release")
		_, err := mutex.TryAcquire(zktest.Context(t))
		require.ErrorIs(t, err, locks.ErrNotAcquired)
		require.Empty(t, bob.queued(t, server, path), "Java's timeout, at a lock that Go waits for")
		alice.do(t, "release", "m")
		lease := <-got
		require.Equal(t, queue[1].Token, lease.Token())
		require.Empty(t, bob.queued(t, server, path), "Java's timeout, at a lock that Go holds")
		require.NoError(t, lease.Release(zktest.Context(t)))
		hold, err := bobsTurn(zktest.Context(t))
		require.NoError(t, err)
		require.Equal(t, queue[2].Path, hold[0])
		bob.do(t, "release", "m")
		awaitQueue(t, mutex, 0)
	})
}

// queued has another actor try to acquire the mutex for a moment.
func (actor) queued(t *testing.T, server zktest.Backend, path string) []string {
	t.Helper()
	other := newActor(t, server)
	other.do(t, "mutex", "m", path)
	return other.do(t, "acquire", "m", "20")
}

// Each side gets the lock when the session of a holder on the other side dies.
func TestMutexOtherSideDies(t *testing.T) {
	eachBackend(t, func(t *testing.T, server zktest.Backend) {
		const path = "/locks/death"
		client := zktest.Client(t, server.ConnectString())
		mutex := newMutex(t, client, path)
		java := newActor(t, server)
		java.do(t, "mutex", "m", path)

		lease, err := mutex.Acquire(zktest.Context(t))
		require.NoError(t, err)
		turn := java.Begin("acquire", "m")
		awaitQueue(t, mutex, 2)
		zktest.KillSession(t, client)
		hold, err := turn(zktest.Context(t))
		require.NoError(t, err)
		require.Len(t, hold, 2)
		<-lease.Done()
		require.Error(t, lease.Err())

		got := acquireLater(t, mutex)
		awaitQueue(t, mutex, 2)
		java.close(t)
		next := <-got
		require.Greater(t, next.Token(), lease.Token())
		require.NoError(t, next.Release(zktest.Context(t)))
	})
}
