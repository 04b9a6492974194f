// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zktest"
)

// permits is the number of leases of the semaphores here.
const permits = 3

// Four clients in Go and four in Java never have more leases together than there
// are.
func TestSemaphoreContest(t *testing.T) {
	onZooKeeper(t, func(t *testing.T, server zktest.Backend) {
		const each = 4
		turns := *turns
		const path = "/locks/contest"
		m := newMeeting(t, server)
		observer := newSemaphore(t, m.observer(t), path)
		for i := range each {
			m.java(t, turns, "share", "m", "semaphore-v1", path, strconv.Itoa(permits))

			who := "go" + strconv.Itoa(i)
			m.holds[nth(who, 0)] = turns
			m.ours(t, func(client *framework.Framework) func(context.Context) error {
				semaphore := newSemaphore(t, client, path)
				return func(ctx context.Context) error { return m.share(ctx, who, once(semaphore), turns) }
			})
		}
		f := m.end(t, observer)
		require.LessOrEqual(t, f.most, permits, "leases at one time")
	})
}

// untilFree acquires by tries alone.
func untilFree(lock locks.InterProcessLock) func(context.Context) ([]*locks.Lease, error) {
	return func(ctx context.Context) ([]*locks.Lease, error) {
		for {
			lease, err := lock.TryAcquire(ctx)
			if err == nil || !errors.Is(err, locks.ErrNotAcquired) {
				return []*locks.Lease{lease}, err
			}
			select {
			case <-time.After(time.Millisecond):
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
	}
}

// As TestSemaphoreContest, and every other client in Go takes two leases together. Another
// one never waits: its tries take no turn.
func TestSemaphoreV2Contest(t *testing.T) {
	onZooKeeper(t, func(t *testing.T, server zktest.Backend) {
		const each = 4
		turns := *turns
		const path = "/locks/contest"
		m := newMeeting(t, server)
		observer := newSemaphoreV2(t, m.observer(t), path)
		for i := range each {
			m.java(t, turns, "share", "m", "semaphore", path, strconv.Itoa(permits))

			who, together := "go"+strconv.Itoa(i), 1+i%2
			for n := range together {
				m.holds[nth(who, n)] = turns
			}
			m.ours(t, func(client *framework.Framework) func(context.Context) error {
				semaphore := newSemaphoreV2(t, client, path)
				acquire := func(ctx context.Context) ([]*locks.Lease, error) { return semaphore.AcquireN(ctx, together) }
				return func(ctx context.Context) error { return m.share(ctx, who, acquire, turns) }
			})
		}
		m.holds[nth("tries", 0)] = turns / 5
		m.ours(t, func(client *framework.Framework) func(context.Context) error {
			semaphore := newSemaphoreV2(t, client, path)
			return func(ctx context.Context) error { return m.share(ctx, "tries", untilFree(semaphore), turns/5) }
		})
		f := m.end(t, observer)
		require.LessOrEqual(t, f.most, permits, "leases at one time")
		require.GreaterOrEqual(t, f.most, 2, "those that were acquired together")
	})
}

// One lease at a time, in the order in which the server has created them.
func TestSemaphoreMutexContest(t *testing.T) {
	onZooKeeper(t, func(t *testing.T, server zktest.Backend) {
		const each = 4
		turns := *turns
		const path = "/locks/contest"
		m := newMeeting(t, server)
		observer := newSemaphoreMutex(t, m.observer(t), path)
		for i := range each {
			m.java(t, turns, "contend", "m", "semaphore-mutex", path)

			who := "go" + strconv.Itoa(i)
			m.holds[who], m.counter = turns, m.counter+turns
			m.ours(t, func(client *framework.Framework) func(context.Context) error {
				mutex := newSemaphoreMutex(t, client, path)
				return func(ctx context.Context) error { return m.contend(ctx, who, mutex, turns) }
			})
		}
		f := m.end(t, observer)
		require.Empty(t, f.overtook, "an older contender was overtaken")
		require.Equal(t, 1, f.most)
	})
}

// Either side counts the leases of the other: with all of them taken, nobody gets
// one; and Go sees what Java has.
func TestSemaphoreLeasesOfBothSides(t *testing.T) {
	type semaphore interface {
		locks.InterProcessLock
		queue
	}
	eachBackend(t, func(t *testing.T, server zktest.Backend) {
		client := zktest.Client(t, server.ConnectString())
		for _, test := range []struct {
			command string
			args    []string
			lock    semaphore
			max     int
		}{
			{"semaphore-v1", []string{"/v1", strconv.Itoa(permits)}, newSemaphore(t, client, "/v1"), permits},
			{"semaphore", []string{"/v2", strconv.Itoa(permits)}, newSemaphoreV2(t, client, "/v2"), permits},
			{"semaphore-mutex", []string{"/mutex"}, newSemaphoreMutex(t, client, "/mutex"), 1},
		} {
			t.Run(test.command, func(t *testing.T) {
				java := newActor(t, server)
				java.do(t, test.command, append([]string{"m"}, test.args...)...)
				node, czxid := java.acquire(t, "m")
				var leases []*locks.Lease
				for range test.max - 1 {
					lease, err := test.lock.TryAcquire(zktest.Context(t))
					require.NoError(t, err)
					leases = append(leases, lease)
				}
				contenders := awaitQueue(t, test.lock, test.max)
				require.Equal(t, node, contenders[0].Path)
				require.Equal(t, czxid, contenders[0].Token)
				require.NotEmpty(t, contenders[0].Identity, "Curator's default data is an address")
				require.True(t, contenders[0].Holds)
				for i, lease := range leases {
					require.Equal(t, lease.Path(), contenders[i+1].Path)
					require.True(t, contenders[i+1].Holds)
				}
				_, err := test.lock.TryAcquire(zktest.Context(t))
				require.ErrorIs(t, err, locks.ErrNotAcquired)

				java.do(t, "release", "m")
				lease, err := test.lock.Acquire(zktest.Context(t))
				require.NoError(t, err)
				require.Empty(t, java.do(t, "acquire", "m", "20"), "Go has all of them")
				for _, lease := range append(leases, lease) {
					require.NoError(t, lease.Release(zktest.Context(t)))
				}
				require.Empty(t, awaitQueue(t, test.lock, 0))
			})
		}
	})
}

// once acquires one lease, as share wants it.
func once(lock locks.InterProcessLock) func(context.Context) ([]*locks.Lease, error) {
	return func(ctx context.Context) ([]*locks.Lease, error) {
		lease, err := lock.Acquire(ctx)
		return []*locks.Lease{lease}, err
	}
}

func newSemaphore(tb testing.TB, client *framework.Framework, path string) *locks.InterProcessSemaphore {
	tb.Helper()
	s, err := locks.NewInterProcessSemaphore(client, path, locks.FixedLeases(permits))
	require.NoError(tb, err)
	return s
}

func newSemaphoreV2(tb testing.TB, client *framework.Framework, path string) *locks.InterProcessSemaphoreV2 {
	tb.Helper()
	s, err := locks.NewInterProcessSemaphoreV2(client, path, locks.FixedLeases(permits))
	require.NoError(tb, err)
	return s
}

func newSemaphoreMutex(tb testing.TB, client *framework.Framework, path string) *locks.InterProcessSemaphoreMutex {
	tb.Helper()
	m, err := locks.NewInterProcessSemaphoreMutex(client, path)
	require.NoError(tb, err)
	return m
}
