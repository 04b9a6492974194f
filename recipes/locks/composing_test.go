// SPDX-License-Identifier: Apache-2.0

package locks_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zkproxy"
	"github.com/gocurator/curator/testing/zktest"
)

func newOperatorLocks(tb testing.TB, client *framework.Framework) (jobs, operators *locks.InterProcessMultiLock) {
	tb.Helper()
	jobs, err := newOperatorLock(client, "/locks/press", job)
	require.NoError(tb, err)
	operators, err = newOperatorLock(client, "/locks/press", operator)
	require.NoError(tb, err)
	return jobs, operators
}

// TestComposedLockExcludes has jobs and operators of two clients contend. What they
// change is protected by the lock and by nothing else. Nothing is left.
func TestComposedLockExcludes(t *testing.T) {
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		const workers, turns = 3, 8
		clients := []*framework.Framework{zktest.Client(t, server.ConnectString()), zktest.Client(t, server.ConnectString())}
		before := server.Counts(t)
		count := 0
		var wg sync.WaitGroup
		errs := make(chan error, 2*workers*len(clients))
		for _, client := range clients {
			jobs, operators := newOperatorLocks(t, client)
			for _, lock := range []*locks.InterProcessMultiLock{jobs, operators} {
				for range workers {
					wg.Go(func() {
						var err error
						for range turns {
							err = errors.Join(err, lock.Do(zktest.Context(t), func(context.Context) error {
								count++
								return nil
							}))
						}
						errs <- err
					})
				}
			}
		}
		wg.Wait()
		close(errs)
		for err := range errs {
			require.NoError(t, err)
		}
		require.Equal(t, len(clients)*2*workers*turns, count)
		server.AwaitCounts(t, before, limit)
	})
}

// TestComposedLockLetsOperatorsBy: those in the room are served by group and arrival,
// also when another operator comes while one has the lock.
func TestComposedLockLetsOperatorsBy(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		client := zktest.Client(t, server.ConnectString())
		jobs, operators := newOperatorLocks(t, client)
		holder, err := jobs.Acquire(zktest.Context(t))
		require.NoError(t, err)
		order := make(chan string)
		arrive := func(who string, lock *locks.InterProcessMultiLock, nodes int) {
			go func() {
				err := lock.Do(zktest.Context(t), func(context.Context) error {
					order <- who
					return nil
				})
				if err != nil {
					order <- fmt.Sprint(who, ": ", err)
				}
			}()
			awaitQueue(t, jobs, nodes)
		}
		arrive("job 1", jobs, 3)
		arrive("job 2", jobs, 4)
		arrive("operator 1", operators, 6)
		_, err = jobs.TryAcquire(zktest.Context(t))
		require.ErrorIs(t, err, locks.ErrNotAcquired)
		_, err = operators.TryAcquire(zktest.Context(t))
		require.ErrorIs(t, err, locks.ErrNotAcquired)
		require.NoError(t, holder.Release(zktest.Context(t)))
		awaitQueue(t, jobs, 4)             // operator 1 has the lock
		arrive("operator 2", operators, 5) // behind it in the room
		for _, want := range []string{"operator 1", "operator 2", "job 1", "job 2"} {
			require.Equal(t, want, <-order)
		}
		awaitQueue(t, jobs, 0)
	})
}

// TestComposedLockIsProtected: the reply to the creation of a node in the room is lost.
// The node is found again, and is the only one.
func TestComposedLockIsProtected(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		client, link := zktest.ClientViaProxy(t, server,
			framework.WithErrorPolicy(framework.SessionErrorPolicy))
		_, operators := newOperatorLocks(t, client)
		first, err := operators.Acquire(zktest.Context(t)) // makes the folders
		require.NoError(t, err)
		require.NoError(t, first.Release(zktest.Context(t)))
		var once sync.Once
		defer link.Intercept(func(frame zkproxy.Frame) zkproxy.Verdict {
			verdict := zkproxy.Verdict(zkproxy.Pass)
			if frame.Kind == zkproxy.Reply && frame.Op == opCreate2 {
				once.Do(func() { verdict = zkproxy.CutBefore })
			}
			return verdict
		})()
		lease, err := operators.Acquire(zktest.Context(t))
		require.NoError(t, err)
		require.Len(t, awaitQueue(t, operators, 2), 2, "one in the room and one at the mutex")
		require.NoError(t, lease.Release(zktest.Context(t)))
	})
}

// opCreate2 is the opcode of a creation that is answered with a Stat.
const opCreate2 = 15

// TestComposedLockOrderOfTheRoom is total, whatever the names are.
func TestComposedLockOrderOfTheRoom(t *testing.T) {
	name := rapid.Custom(func(t *rapid.T) string {
		return fmt.Sprintf("_c_%s-%s%010d", rapid.SampledFrom([]string{"a", "b"}).Draw(t, "uuid"),
			rapid.SampledFrom([]string{operator, job}).Draw(t, "group"), rapid.Int32Range(0, 9).Draw(t, "number"))
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := name.Draw(t, "a"), name.Draw(t, "b"), name.Draw(t, "c")
		order := room{}.Compare
		require.Equal(t, sign(order(a, b)), -sign(order(b, a)))
		require.Equal(t, a == b, order(a, b) == 0)
		if order(a, b) <= 0 && order(b, c) <= 0 {
			require.LessOrEqual(t, order(a, c), 0)
		}
		if isOf(operator, a) && isOf(job, b) {
			require.Negative(t, order(a, b))
		}
	})
}

func sign(n int) int { return min(1, max(-1, n)) }
