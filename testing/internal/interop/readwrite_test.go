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

// Writers exclude everybody, and nobody is let in before a writer, or as a writer
// before anybody, who is older. Writers in Go also go on to read what they have
// written. Curator 5.4 gives such a reader a new place at the end of the queue.
func TestReadWriteContest(t *testing.T) {
	onZooKeeper(t, func(t *testing.T, server zktest.Backend) {
		const pairs = 2
		turns := *turns
		const path = "/locks/contest"
		m := newMeeting(t, server)
		observer := newReadWriteLock(t, m.observer(t), path)
		for i := range pairs {
			m.java(t, turns, "share", "m.read", "read-write", path)
			m.java(t, turns, "contend", "m.write", "read-write", path)

			reader := "reader" + strconv.Itoa(i)
			m.holds[nth(reader, 0)] = turns
			m.ours(t, func(client *framework.Framework) func(context.Context) error {
				reading := newReadWriteLock(t, client, path).ReadLock()
				return func(ctx context.Context) error { return m.share(ctx, reader, once(reading), turns) }
			})

			writer := "writer" + strconv.Itoa(i)
			m.holds[writer], m.counter = turns, m.counter+turns
			m.ours(t, func(client *framework.Framework) func(context.Context) error {
				writing := newReadWriteLock(t, client, path).WriteLock()
				return func(ctx context.Context) error { return m.contend(ctx, writer, writing, turns) }
			})

			downgrader := "downgrader" + strconv.Itoa(i)
			m.holds[downgrader], m.counter = 2*turns, m.counter+turns
			m.ours(t, func(client *framework.Framework) func(context.Context) error {
				both := newReadWriteLock(t, client, path)
				return func(ctx context.Context) error { return m.downgrade(ctx, downgrader, both, turns) }
			})
		}
		f := m.end(t, observer)
		require.Empty(t, f.overtook, "an older contender was overtaken")
	})
}

// Both sides see the readers and the writers of both, and Go tells who waits for
// whom.
func TestReadwriteReadersAndWritersOfBothSides(t *testing.T) {
	eachBackend(t, func(t *testing.T, server zktest.Backend) {
		const path = "/locks/who"
		lock := newReadWriteLock(t, zktest.Client(t, server.ConnectString()), path)
		alice, bob := newActor(t, server), newActor(t, server)
		alice.do(t, "read-write", "m", path)
		bob.do(t, "read-write", "m", path)

		lease, err := lock.WriteLock().Acquire(zktest.Context(t))
		require.NoError(t, err)
		read, err := lock.ReadLock().Acquire(lease.Context(zktest.Context(t)))
		require.NoError(t, err)
		require.NoError(t, lease.Release(zktest.Context(t)))
		alicesNode, alicesToken := alice.acquire(t, "m.read")
		bobsTurn := bob.Begin("acquire", "m.write")
		contenders := awaitQueue(t, lock, 3)

		require.Equal(t, []string{read.Path(), alicesNode}, []string{contenders[0].Path, contenders[1].Path})
		require.Equal(t, alicesToken, contenders[1].Token)
		require.Equal(t, "__READ__", contenders[1].LockName)
		require.True(t, contenders[1].Holds)
		require.Equal(t, "__WRIT__", contenders[2].LockName)
		require.NotEmpty(t, contenders[2].Identity, "Curator's default data is an address")
		require.False(t, contenders[2].Holds)
		require.Equal(t, []string{alicesNode}, contenders[2].WaitsFor)
		require.Equal(t, []string{read.Path(), alicesNode}, alice.do(t, "participants", "m.read"))
		require.Equal(t, []string{contenders[2].Path}, alice.do(t, "participants", "m.write"))
		_, err = lock.ReadLock().TryAcquire(zktest.Context(t))
		require.ErrorIs(t, err, locks.ErrNotAcquired, "a writer in Java waits")

		alice.do(t, "release", "m.read")
		require.Equal(t, []string{read.Path()}, awaitQueue(t, lock, 2)[1].WaitsFor)
		require.NoError(t, read.Release(zktest.Context(t)))
		hold, err := bobsTurn(zktest.Context(t))
		require.NoError(t, err)
		require.Equal(t, contenders[2].Path, hold[0])
		bob.do(t, "release", "m.write")
		require.Empty(t, awaitQueue(t, lock, 0))
	})
}

func newReadWriteLock(tb testing.TB, client *framework.Framework, path string) *locks.InterProcessReadWriteLock {
	tb.Helper()
	l, err := locks.NewInterProcessReadWriteLock(client, path)
	require.NoError(tb, err)
	return l
}
