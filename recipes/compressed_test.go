// SPDX-License-Identifier: Apache-2.0

package recipes_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/barriers"
	"github.com/gocurator/curator/recipes/leader"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/recipes/queues"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// mixed is a program with WithCompression, and another without it, on fake time.
type mixed struct {
	server       *zkserver.Server
	compressed   *framework.Framework
	uncompressed *framework.Framework
}

// bad is data that is not compressed.
const bad = "10.0.0.1"

func onMixed(t *testing.T, test func(t *testing.T, m mixed)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		test(t, mixed{server, zktest.Client(t, server, framework.WithCompression()), zktest.Client(t, server)})
	})
}

// create makes a znode whose data is not compressed.
func (m mixed) create(t *testing.T, path string, mode framework.CreateMode) string {
	t.Helper()
	path = must.Get(m.uncompressed.Create(t.Context(), path, []byte(bad), framework.WithMode(mode), framework.CreatingParentsIfNeeded()))(t)
	return path
}

// waiting starts a call that must wait for the deletion of a znode, and for that alone.
func (m mixed) waiting(t *testing.T, blocker string, call func() error) {
	t.Helper()
	result := make(chan error, 1)
	go func() { result <- call() }()
	time.Sleep(time.Minute) // of fake time: long waits read the data of others
	select {
	case err := <-result:
		t.Fatalf("the call has returned %v, expected that it waits", err)
	default:
	}
	require.NoError(t, m.uncompressed.Delete(t.Context(), blocker))
	require.NoError(t, <-result)
}

func TestCompressionOfOneContenderConcernsNoOther(t *testing.T) {
	const path, foreign = "/lock", "/lock/_c_11111111-1111-1111-1111-111111111111-"
	locked := func(m interface {
		Acquire(ctx context.Context) (*locks.Lease, error)
	}, err error,
	) func() error {
		return func() error {
			if err != nil {
				return err
			}
			lease, err := m.Acquire(context.Background())
			if err != nil {
				return err
			}
			return lease.Release(context.Background())
		}
	}
	for name, test := range map[string]struct {
		blocker string
		call    func(c *framework.Framework) func() error
	}{
		"mutex": {foreign + "lock-", func(c *framework.Framework) func() error { return locked(locks.NewInterProcessMutex(c, path)) }},
		"write lock": {foreign + "__READ__", func(c *framework.Framework) func() error {
			rw := must.Get(locks.NewInterProcessReadWriteLock(c, path))(t)
			return locked(rw.WriteLock(), nil)
		}},
		"semaphore": {path + "/leases/_c_11111111-1111-1111-1111-111111111111-lease-", func(c *framework.Framework) func() error {
			return locked(locks.NewInterProcessSemaphoreV2(c, path, locks.FixedLeases(1)))
		}},
		"turn of a semaphore": {path + "/locks/_c_11111111-1111-1111-1111-111111111111-lock-", func(c *framework.Framework) func() error {
			return locked(locks.NewInterProcessSemaphoreV2(c, path, locks.FixedLeases(1)))
		}},
		"leadership": {foreign + "latch-", func(c *framework.Framework) func() error {
			latch := must.Get(leader.NewLeaderLatch(c, path))(t)
			require.NoError(t, latch.Start())
			return func() error {
				_, err := latch.Await(context.Background())
				if err == nil {
					err = latch.Close()
				}
				return err
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			onMixed(t, func(t *testing.T, m mixed) {
				m.waiting(t, m.create(t, test.blocker, framework.EphemeralSequential), test.call(m.compressed))
			})
		})
	}
}

func TestCompressionOfParticipantsIsTheirOwn(t *testing.T) {
	onMixed(t, func(t *testing.T, m mixed) {
		ctx := t.Context()
		m.create(t, "/leaders/_c_11111111-1111-1111-1111-111111111111-latch-", framework.EphemeralSequential)
		latch := must.Get(leader.NewLeaderLatch(m.compressed, "/leaders", leader.WithID("ours")))(t)
		require.NoError(t, latch.Start())
		defer func() { require.NoError(t, latch.Close()) }()
		time.Sleep(time.Second)
		participants := must.Get(latch.Participants(ctx))(t)
		require.Len(t, participants, 2)
		require.Equal(t, []string{bad, "ours"}, []string{participants[0].Identity, participants[1].Identity})
		for first, err := range latch.Observe(ctx) {
			require.NoError(t, err)
			require.Equal(t, bad, first.Identity)
			break
		}
	})
}

func TestCompressionOfARevocationDoesNotHideIt(t *testing.T) {
	onMixed(t, func(t *testing.T, m mixed) {
		ctx := t.Context()
		mutex := must.Get(locks.NewInterProcessMutex(m.compressed, "/lock"))(t)
		lease := must.Get(mutex.Acquire(ctx))(t)
		time.Sleep(time.Minute)
		require.NoError(t, m.uncompressed.Set(ctx, lease.Path(), []byte("anything"))) // which asks for nothing
		time.Sleep(time.Minute)
		require.NoError(t, lease.Err())
		require.NoError(t, m.uncompressed.Set(ctx, lease.Path(), []byte("__REVOKE__")))
		<-lease.Revoked()
		require.NoError(t, m.uncompressed.Delete(ctx, lease.Path()))
		<-lease.Done()
	})
}

func TestCompressionOfARequestToResignDoesNotHideIt(t *testing.T) {
	onMixed(t, func(t *testing.T, m mixed) {
		latch := must.Get(leader.NewLeaderLatch(m.compressed, "/leaders"))(t)
		require.NoError(t, latch.Start())
		require.NoError(t, m.uncompressed.Set(t.Context(), must.Get(latch.Await(t.Context()))(t).Path(), []byte("__REVOKE__")))
		require.ErrorIs(t, latch.Proclaim(t.Context(), []byte("value")), leader.ErrRevoked)
		require.NoError(t, latch.Close())
	})
}

func TestCompressionOfTheMarkerOfALostHolderDoesNotMatter(t *testing.T) {
	onMixed(t, func(t *testing.T, m mixed) {
		const delay = 7 * time.Second
		for i, client := range []*framework.Framework{m.uncompressed, m.compressed} {
			mutex := must.Get(locks.NewInterProcessMutex(client, "/lock", locks.WithLockDelay(delay)))(t)
			began := time.Now()
			lease := must.Get(mutex.Acquire(t.Context()))(t)
			require.Equal(t, time.Duration(i)*(delay+time.Millisecond), time.Since(began), "the servers' times are in milliseconds")
			require.NoError(t, client.Close()) // with the lease
			require.Error(t, lease.Err())
		}
	})
}

func TestCompressionOfABarrierDoesNotMatter(t *testing.T) {
	t.Run("barrier", func(t *testing.T) {
		onMixed(t, func(t *testing.T, m mixed) {
			barrier := must.Get(barriers.NewDistributedBarrier(m.compressed, "/barrier"))(t)
			m.waiting(t, m.create(t, "/barrier", framework.Persistent), func() error { return barrier.WaitOnBarrier(context.Background()) })
		})
	})
	t.Run("double barrier", func(t *testing.T) {
		onMixed(t, func(t *testing.T, m mixed) {
			m.create(t, "/barrier", framework.Persistent)
			ended := make(chan error, 2)
			for _, client := range []*framework.Framework{m.compressed, m.uncompressed} {
				barrier := must.Get(barriers.NewDistributedDoubleBarrier(client, "/barrier", 2))(t)
				go func() {
					err := barrier.Enter(context.Background())
					if err == nil {
						err = barrier.Leave(context.Background())
					}
					ended <- err
				}()
			}
			require.NoError(t, <-ended)
			require.NoError(t, <-ended)
			data := must.Get(m.uncompressed.Get(t.Context(), "/barrier"))(t)
			require.Equal(t, bad, string(data), "the data of the folder stays what it was")
		})
	})
}

func TestCompressionOfOneItemConcernsNoOther(t *testing.T) {
	t.Run("simple", func(t *testing.T) {
		onMixed(t, func(t *testing.T, m mixed) {
			ctx := t.Context()
			q := must.Get(queues.NewSimpleDistributedQueue(m.compressed, "/queue"))(t)
			foreign := m.create(t, "/queue/qn-", framework.PersistentSequential)
			_, err := q.Poll(ctx)
			require.ErrorIs(t, err, queues.ErrEmpty)
			taken := make(chan string, 1)
			go func() {
				data, err := q.Take(context.Background())
				if err != nil {
					data = []byte(err.Error())
				}
				taken <- string(data)
			}()
			synctest.Wait()
			for _, item := range []string{"a", "b", "c"} {
				require.NoError(t, q.Offer(ctx, []byte(item)))
			}
			require.Equal(t, "a", <-taken)
			for _, want := range []string{"b", "c"} {
				data := must.Get(q.Peek(ctx))(t)
				require.Equal(t, want, string(data))
				data = must.Get(q.Poll(ctx))(t)
				require.Equal(t, want, string(data))
			}
			_, err = q.Peek(ctx)
			require.ErrorIs(t, err, queues.ErrEmpty)
			require.NotNil(t, must.Get(m.uncompressed.Exists(ctx, foreign))(t))
		})
	})
	t.Run("lock of an item", func(t *testing.T) {
		onMixed(t, func(t *testing.T, m mixed) {
			q := must.Get(queues.NewDistributedQueue(m.compressed, "/queue", queues.WithLockPath("/locks")))(t)
			require.NoError(t, q.Put(t.Context(), []byte("a")))
			lock := m.create(t, "/locks/queue-0000000000", framework.Ephemeral)
			m.waiting(t, lock, func() error {
				for item, err := range q.Items(context.Background()) {
					if err != nil {
						return err
					}
					require.Equal(t, "a", string(item.Data))
					return nil
				}
				return nil
			})
		})
	})
}
