// SPDX-License-Identifier: Apache-2.0

package locks_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// TestDeadlockDetectionEndsTheWait: a lock is searched for when it is waited for with the context of a lease, after each d,
// and the deadlock that is found is its error.
func TestDeadlockDetectionEndsTheWait(t *testing.T) {
	const d = time.Minute
	errCycle := errors.New("a waits for b, which waits for a")
	for name, open := range map[string]func(t *testing.T, client *framework.Framework, opts ...locks.Option) locks.InterProcessLock{
		"mutex": func(t *testing.T, client *framework.Framework, opts ...locks.Option) locks.InterProcessLock {
			t.Helper()
			return newMutex(t, client, "/b", opts...)
		},
		"semaphore": func(t *testing.T, client *framework.Framework, opts ...locks.Option) locks.InterProcessLock {
			t.Helper()
			s, err := locks.NewInterProcessSemaphoreV2(client, "/b", locks.FixedLeases(1), opts...)
			require.NoError(t, err)
			return s
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := zktest.NewServer(t, zkserver.WithoutListener())
				client, other := zktest.Client(t, server), zktest.Client(t, server)
				var searches atomic.Int64
				lock := open(t, client, locks.WithDeadlockDetection(d, func(_ context.Context, of *framework.Framework, token int64, after time.Duration) (error, error) {
					if of != client || token == 0 || after != d {
						return errors.New("another call"), nil
					}
					switch searches.Add(1) {
					case 1:
						return nil, errors.New("no server answers") // which is logged
					case 2:
						panic("the user's own fault")
					case 3:
						return nil, nil
					default:
						return errCycle, nil
					}
				}))
				first := acquire(t, open(t, other))
				outer := acquire(t, newMutex(t, client, "/a"))
				defer release(t, outer)

				plain, stop := context.WithCancel(t.Context())
				waits := acquireLater(plain, lock)
				time.Sleep(10 * d)
				synctest.Wait()
				stop()
				require.ErrorIs(t, await(t, waits).err, context.Canceled)
				require.Zero(t, searches.Load(), "it holds nothing that is known")

				begun := time.Now()
				_, err := lock.Acquire(outer.Context(t.Context()))
				require.ErrorIs(t, err, locks.ErrDeadlock)
				require.ErrorIs(t, err, locks.ErrNotAcquired)
				require.ErrorIs(t, err, errCycle)
				require.NotErrorIs(t, err, context.Canceled)
				require.Equal(t, 4*d, time.Since(begun))
				require.NoError(t, outer.Err())

				release(t, first)
				release(t, acquire(t, open(t, other))) // no node is left
				require.EqualValues(t, 4, searches.Load())

				lease, err := lock.Acquire(outer.Context(t.Context()))
				require.NoError(t, err)
				time.Sleep(10 * d)
				require.EqualValues(t, 4, searches.Load(), "it does not wait any more")
				release(t, lease)
			})
		})
	}
}

// TestDeadlockDetectionHoldsUpNoAcquisition: a search that does not heed its context delays neither the end of a wait nor a grant.
func TestDeadlockDetectionHoldsUpNoAcquisition(t *testing.T) {
	between(t, func(t *testing.T, _ *zkserver.Server, first, second *framework.Framework) {
		held := acquire(t, newMutex(t, second, "/b"))
		outer := acquire(t, newMutex(t, first, "/a"))
		done := make(chan struct{})
		defer close(done)
		mutex := newMutex(t, first, "/b", locks.WithDeadlockDetection(time.Second, func(context.Context, *framework.Framework, int64, time.Duration) (error, error) {
			<-done
			return nil, nil
		}))
		ctx, cancel := context.WithTimeout(outer.Context(t.Context()), time.Minute)
		defer cancel()
		_, err := mutex.Acquire(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		next := acquireLater(outer.Context(t.Context()), mutex)
		time.Sleep(time.Minute)
		release(t, held)
		release(t, await(t, next).lease)
	})
}

// panickingMax is a source whose third answer is a panic. It comes between two searches.
type panickingMax struct{ asked atomic.Int64 }

func (p *panickingMax) MaxLeases(context.Context) (n int, changed <-chan struct{}, err error) {
	if p.asked.Add(1) == 3 {
		panic("the third answer")
	}
	later := make(chan struct{})
	time.AfterFunc(5*time.Second/2, func() { close(later) })
	return 1, later, nil
}

func TestDeadlockDetectionEndsWithAnAcquisitionThatPanics(t *testing.T) {
	between(t, func(t *testing.T, _ *zkserver.Server, first, second *framework.Framework) {
		var searches atomic.Int64
		outer := acquire(t, newMutex(t, first, "/a"))
		held := acquire(t, newSemaphore(t, second, "/b", locks.FixedLeases(1)))
		s, err := locks.NewInterProcessSemaphoreV2(first, "/b", new(panickingMax),
			locks.WithDeadlockDetection(time.Second, func(context.Context, *framework.Framework, int64, time.Duration) (error, error) {
				searches.Add(1)
				return nil, nil
			}))
		require.NoError(t, err)

		require.Panics(t, func() { _, _ = s.Acquire(outer.Context(context.Background())) })

		before := searches.Load()
		require.Positive(t, before)
		time.Sleep(time.Minute)
		require.Equal(t, before, searches.Load())
		release(t, held)
		release(t, outer)
	})
}

// TestDeadlockDetectionBadInput is refused when the lock is made.
func TestDeadlockDetectionBadInput(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	none := func(context.Context, *framework.Framework, int64, time.Duration) (error, error) { return nil, nil }
	_, err := locks.NewInterProcessMutex(client, "/a", locks.WithDeadlockDetection(0, none))
	require.ErrorContains(t, err, "WithDeadlockDetection(0s), expected more than 0")
	_, err = locks.NewInterProcessMutex(client, "/a", locks.WithDeadlockDetection(time.Second, nil))
	require.ErrorContains(t, err, "with a nil function, expected one such as inspect.SearchDeadlock")
}
