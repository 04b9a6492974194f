// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"context"
	"errors"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/leader"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zktest"
)

// latchLock is a latch as a lock: to acquire is to become the leader, to
// release is to resign.
type latchLock struct{ *leader.LeaderLatch }

func (l latchLock) Acquire(ctx context.Context) (*locks.Lease, error) { return l.Await(ctx) }

func (l latchLock) TryAcquire(context.Context) (*locks.Lease, error) {
	return nil, errors.New("a latch cannot try")
}

func newLatch(tb testing.TB, client *framework.Framework, path, id string) *leader.LeaderLatch {
	tb.Helper()
	latch, err := leader.NewLeaderLatch(client, path, leader.WithID(id))
	require.NoError(tb, err)
	return latch
}

// betweenKills leads so many turns, and ends the session of its client four times
// meanwhile: while it stands in the queue, or leads without anybody having asked.
func betweenKills(ctx context.Context, client *framework.Framework, turns int, lead func(turns int) error) error {
	const parts = 5
	for part := range parts {
		if part > 0 {
			session, err := zktest.EndSession(ctx, client)
			if err != nil {
				return err
			}
			select {
			case <-session.Done():
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if err := lead(turns*(part+1)/parts - turns*part/parts); err != nil {
			return err
		}
	}
	return nil
}

// Four latches in Go and four in Java: one leader at a time, in the
// order of the queue, while the sessions of those in Go end now and then.
func TestLeaderLatchContest(t *testing.T) {
	onZooKeeper(t, func(t *testing.T, server zktest.Backend) {
		const each = 4
		turns := *turns
		const path = "/leaders/contest"
		m := newMeeting(t, server)
		observer := newLatch(t, m.observer(t), path, "")
		for i := range each {
			m.java(t, turns, "contend", "m", "latch", path, "java"+strconv.Itoa(i))

			who := "go" + strconv.Itoa(i)
			m.holds[who], m.counter = turns, m.counter+turns
			m.ours(t, func(client *framework.Framework) func(context.Context) error {
				latch := newLatch(t, client, path, who)
				return func(ctx context.Context) error {
					lead := func(turns int) error { return m.contend(ctx, who, latchLock{latch}, turns) }
					return errors.Join(latch.Start(), betweenKills(ctx, client, turns, lead), latch.Close())
				}
			})
		}
		f := m.end(t, observer)
		require.Empty(t, f.overtook, "an older candidate was overtaken")
		require.Equal(t, 1, f.most)
	})
}

// Four selectors in Go and four in Java, one term at a time, with sessions that end.
func TestLeaderSelectorContest(t *testing.T) {
	onZooKeeper(t, func(t *testing.T, server zktest.Backend) {
		const each = 4
		turns := *turns
		const path = "/leaders/selectors"
		m := newMeeting(t, server)
		observer, err := leader.NewLeaderSelector(m.observer(t), path)
		require.NoError(t, err)
		for i := range each {
			m.java(t, turns, "contend", "m", "selector", path, "java"+strconv.Itoa(i))

			who := "go" + strconv.Itoa(i)
			m.holds[who], m.counter = turns, m.counter+turns
			m.ours(t, func(client *framework.Framework) func(context.Context) error {
				selector, err := leader.NewLeaderSelector(client, path, leader.WithID(who))
				require.NoError(t, err)
				return func(ctx context.Context) error {
					return betweenKills(ctx, client, turns, func(turns int) error {
						for range turns {
							if err := selector.Run(ctx, func(ctx context.Context) error {
								return m.exclusive(who, locks.LeaseFrom(ctx).Token())
							}); err != nil {
								return err
							}
						}
						return nil
					})
				}
			})
		}
		f := m.end(t, observer)
		require.Empty(t, f.overtook, "an older candidate was overtaken")
		require.Equal(t, 1, f.most)
	})
}

// Both sides see the same candidates, with their ids and the leader. Leadership
// passes from side to side when the session of a leader dies.
func TestLeaderLatchesOfBothSides(t *testing.T) {
	eachBackend(t, func(t *testing.T, server zktest.Backend) {
		const path = "/leaders/who"
		client := zktest.Client(t, server.ConnectString())
		first := newLatch(t, client, path, "go-0")
		require.NoError(t, first.Start())
		t.Cleanup(func() { require.NoError(t, first.Close()) })
		lease, err := first.Await(zktest.Context(t))
		require.NoError(t, err)
		java := newActor(t, server)
		java.do(t, "latch", "m", path, "java-0")
		turn := java.Begin("acquire", "m")
		queue := awaitQueue(t, first, 2)
		require.Equal(t, "go-0", queue[0].Identity)
		require.True(t, queue[0].Holds)
		require.Equal(t, "java-0", queue[1].Identity)
		watcher := newActor(t, server)
		watcher.do(t, "latch", "m", path, "watcher")
		require.Empty(t, watcher.do(t, "acquire", "m", "100"), "it does not lead in time")
		require.Equal(t, []string{"go-0 leads", "java-0"}, watcher.do(t, "participants", "m"))

		zktest.KillSession(t, client)

		node, err := turn(zktest.Context(t))
		require.NoError(t, err)
		zktest.Await(t, lease.Done(), "the end of our leadership")
		queue = awaitQueue(t, first, 2)
		require.Equal(t, node[0], queue[0].Path)
		require.Equal(t, "go-0", queue[1].Identity, "it stands again")
		java.close(t) // its session ends, and nothing else says so
		next, err := first.Await(zktest.Context(t))
		require.NoError(t, err)
		require.Equal(t, queue[1].Path, next.Path())
		require.Greater(t, next.Token(), queue[0].Token)
	})
}
