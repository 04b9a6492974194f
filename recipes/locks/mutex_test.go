// SPDX-License-Identifier: Apache-2.0

package locks_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zktest"
)

func TestMutexOneHolderAtATime(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		const clients, goroutines, turns = 4, 2, 25
		var wg sync.WaitGroup
		inside, held := 0, 0
		var lastToken int64
		for range clients {
			m := newMutex(t, zktest.Client(t, server.ConnectString()), "/locks/report")
			for range goroutines {
				wg.Go(func() {
					for range turns {
						lease, err := m.Acquire(zktest.Context(t))
						if err != nil {
							t.Errorf("acquire: %v", err)
							return
						}
						// Unprotected on purpose: the race detector is one more witness.
						if inside++; inside != 1 {
							t.Errorf("%d holders at once", inside)
						}
						if lease.Token() <= lastToken {
							t.Errorf("token %d after %d", lease.Token(), lastToken)
						}
						lastToken = lease.Token()
						held++
						inside--
						if err := lease.Release(zktest.Context(t)); err != nil {
							t.Errorf("release: %v", err)
						}
					}
				})
			}
		}
		wg.Wait()
		require.Equal(t, clients*goroutines*turns, held)
	})
}

func TestMutexQueueIsServedInOrder(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		holder := newMutex(t, zktest.Client(t, server.ConnectString()), "/locks/fifo")
		first := acquire(t, holder)
		order := make(chan int, 5)
		var released sync.WaitGroup
		for i := range 5 {
			m := newMutex(t, zktest.Client(t, server.ConnectString()), "/locks/fifo")
			result := acquireLater(zktest.Context(t), m)
			awaitQueue(t, holder, i+2)
			released.Go(func() {
				o := <-result
				if o.err != nil {
					t.Errorf("acquire: %v", o.err)
				}
				order <- i
				if err := o.lease.Release(context.Background()); err != nil {
					t.Errorf("release: %v", err)
				}
			})
		}
		release(t, first)
		for i := range 5 {
			select {
			case got := <-order:
				require.Equal(t, i, got)
			case <-time.After(limit):
				t.Fatalf("contender %d has not got the lock", i)
			}
		}
		released.Wait()
	})
}

func TestMutexReentrancyTravelsInTheContext(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		client := zktest.Client(t, server.ConnectString())
		m := newMutex(t, client, "/locks/again")
		same := newMutex(t, client, "/locks/again") // another object, the same lock
		outer := acquire(t, m)
		ctx := outer.Context(zktest.Context(t))

		inner := must.Get(m.Acquire(ctx))(t)
		third := must.Get(same.TryAcquire(ctx))(t)
		require.Equal(t, outer.Token(), inner.Token())
		require.Equal(t, outer.Path(), third.Path())
		require.Len(t, awaitQueue(t, m, 1), 1)

		_, err := m.TryAcquire(zktest.Context(t))
		require.ErrorIs(t, err, locks.ErrNotAcquired, "a context without ownership is another owner")
		_, err = newMutex(t, zktest.Client(t, server.ConnectString()), "/locks/again").TryAcquire(ctx)
		require.ErrorIs(t, err, locks.ErrNotAcquired, "another client is another owner")

		// In any order; the lock is held until the last.
		release(t, outer)
		require.ErrorIs(t, context.Cause(ctx), locks.ErrReleased)
		require.ErrorIs(t, outer.Err(), locks.ErrReleased, "although the hold goes on")
		require.NoError(t, inner.Err())
		release(t, third)
		awaitQueue(t, m, 1)
		release(t, inner)
		awaitQueue(t, m, 0)

		_, err = m.Acquire(context.WithoutCancel(ctx))
		require.ErrorIs(t, err, locks.ErrReleased, "ownership of an ended lease is an error")
	})
}

func TestMutexAcquireEndsWithItsContext(t *testing.T) {
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		m := newMutex(t, zktest.Client(t, server.ConnectString()), "/locks/bound")
		held := whileHeld(server.Counts(t))
		lease := acquire(t, m)

		cause := errors.New("the shop is closing")
		ctx, cancel := context.WithCancelCause(context.Background())
		result := acquireLater(ctx, m)
		awaitQueue(t, m, 2)
		cancel(cause)
		o := await(t, result)
		require.ErrorIs(t, o.err, locks.ErrNotAcquired)
		require.ErrorIs(t, o.err, cause)
		require.Nil(t, o.lease)

		ended, cancelEnded := context.WithCancel(context.Background())
		cancelEnded()
		_, err := m.Acquire(ended)
		require.ErrorIs(t, err, locks.ErrNotAcquired)
		require.ErrorIs(t, err, context.Canceled)

		server.AwaitCounts(t, held, limit)
		release(t, lease)
	})
}

// See CURATOR-376 and redsync#125.
func TestMutexReleaseIsIdempotentAndSafeOnNil(t *testing.T) {
	tryOften(t, func(t *testing.T, server zktest.Backend) {
		m := newMutex(t, zktest.Client(t, server.ConnectString()), "/locks/idempotent")
		var none *locks.Lease
		require.NoError(t, none.Release(context.Background()))

		lease := acquire(t, m)
		inner := must.Get(m.Acquire(lease.Context(zktest.Context(t))))(t)
		release(t, inner)
		release(t, inner) // must not take the other lease away
		require.NoError(t, lease.Err())
		awaitQueue(t, m, 1)
		release(t, lease)
		require.ErrorIs(t, lease.Err(), locks.ErrReleased)
		next := acquire(t, m)
		release(t, lease) // must not take the next hold away
		awaitQueue(t, m, 1)
		release(t, next)
	})
}

// TestMutexReleaseWithAnEndedContext, or with one of the lease's own, is a release like any
// other: confirmed when it returns.
func TestMutexReleaseWithAnEndedContext(t *testing.T) {
	tryInTurn(t, func(t *testing.T, server zktest.Backend) {
		before := server.Counts(t)
		client := zktest.Client(t, server.ConnectString())
		m := newMutex(t, client, "/locks/late")
		before.Sessions++
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		passed, cancel := context.WithDeadline(context.Background(), time.Now())
		defer cancel()
		for _, release := range []func(*locks.Lease) error{
			func(l *locks.Lease) error { return l.Release(ended) },
			func(l *locks.Lease) error { return l.Release(passed) },
			func(l *locks.Lease) error { return l.Release(l.Context(ended)) },
			func(l *locks.Lease) error { return l.Release(l.Context(context.Background())) },
			func(l *locks.Lease) error { return l.Release(l.Context(zktest.Context(t))) },
			func(l *locks.Lease) error {
				ctx, cancel := context.WithCancel(l.Context(zktest.Context(t)))
				defer cancel()
				return l.Release(ctx)
			},
		} {
			lease := acquire(t, m)
			require.NoError(t, release(lease))
			require.ErrorIs(t, lease.Err(), locks.ErrReleased)
			require.Zero(t, client.Health().PendingCleanups)
			require.LessOrEqual(t, server.Counts(t).Ephemerals, before.Ephemerals)
			server.AwaitCounts(t, before, limit) // a server may drop watches a moment later
		}
	})
}

func TestDo(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		m := newMutex(t, zktest.Client(t, server.ConnectString()), "/locks/do")
		trouble := errors.New("trouble")
		ctx, cancel := context.WithCancel(zktest.Context(t))
		err := m.Do(ctx, func(ctx context.Context) error {
			lease := must.Get(m.Acquire(ctx))(t)
			require.Len(t, awaitQueue(t, m, 1), 1)
			cancel() // the release does not depend on it
			require.NoError(t, lease.Release(context.WithoutCancel(ctx)))
			return trouble
		})
		require.Equal(t, trouble.Error(), err.Error(), "the release has nothing to add")
		require.ErrorIs(t, err, trouble)
		awaitQueue(t, m, 0)

		require.PanicsWithValue(t, "boom", func() {
			_ = m.Do(zktest.Context(t), func(context.Context) error { panic("boom") })
		})
		awaitQueue(t, m, 0)

		err = m.Do(ctx, func(context.Context) error { t.Error("fn ran without the lock"); return nil })
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, locks.ErrNotAcquired, "nothing was in the way")
	})
}

func TestMutexTransactOnlyWhileHeld(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		client := zktest.Client(t, server.ConnectString())
		ctx := zktest.Context(t)
		must.Get(client.Create(ctx, "/report", []byte("draft"), framework.CreatingParentsIfNeeded()))(t)
		lease := acquire(t, newMutex(t, client, "/locks/transact"))
		results := must.Get(lease.Transact(ctx, framework.SetDataOp("/report", []byte("final"))))(t)
		require.Len(t, results, 1)
		require.EqualValues(t, 1, results[0].Stat.Version)

		// The node goes away without the holder's client being asked first: the server
		// must refuse, whatever the holder believes.
		admin := zktest.Client(t, server.ConnectString())
		stale := make(chan error, 1)
		require.NoError(t, admin.Delete(ctx, lease.Path()))
		go func() {
			_, err := lease.Transact(ctx, framework.SetDataOp("/report", []byte("stale")))
			stale <- err
		}()
		require.Error(t, <-stale)
		require.Equal(t, "final", string(must.Get(admin.Get(ctx, "/report"))(t)))
		awaitDone(t, lease.Done(), "the loss")
	})
}

func TestMutexOfAClientThatIsNotUsable(t *testing.T) {
	client := must.Get(framework.New("127.0.0.1:1"))(t)
	_, err := newMutex(t, client, "/a").Acquire(context.Background())
	require.ErrorIs(t, err, framework.ErrNotStarted)
	require.NoError(t, client.Close())
	_, err = newMutex(t, client, "/a").Acquire(context.Background())
	require.ErrorIs(t, err, framework.ErrClosed)
}
