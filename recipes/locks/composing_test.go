// SPDX-License-Identifier: Apache-2.0

package locks_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zktest"
)

func newOperatorLocks(tb testing.TB, client *framework.Framework) (jobs, operators *locks.InterProcessMultiLock) {
	tb.Helper()
	jobs = must.Get(newOperatorLock(client, "/locks/press", job))(tb)
	operators = must.Get(newOperatorLock(client, "/locks/press", operator))(tb)
	return jobs, operators
}

// TestComposedLockLetsOperatorsBy: those in the room are served by group and arrival,
// also when another operator comes while one has the lock.
func TestComposedLockLetsOperatorsBy(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		client := zktest.Client(t, server.ConnectString())
		jobs, operators := newOperatorLocks(t, client)
		holder := must.Get(jobs.Acquire(zktest.Context(t)))(t)
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
		_, err := jobs.TryAcquire(zktest.Context(t))
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
