// SPDX-License-Identifier: Apache-2.0

package locks_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// failingDriver fails to decide.
type failingDriver struct {
	locks.StandardLockInternalsDriver

	fail func() error
}

func (d failingDriver) GetsTheLock([]string, string, int) (locks.PredicateResults, error) {
	return locks.PredicateResults{}, d.fail()
}

func newFailing(t *testing.T, client *framework.Framework, path string, fail func() error, opts ...locks.Option) *locks.LockInternals {
	t.Helper()
	driver := failingDriver{locks.StandardLockInternalsDriver{StandardLockInternalsSorter: mutexSorter}, fail}
	internals, err := locks.NewLockInternals(client, driver, path, "lock-", 1, opts...)
	require.NoError(t, err)
	return internals
}

// What comes after the creation fails: the error is told as it is, and the node is
// gone. For a node that is said to be missing it is tried again first.
//
// See zk-ruby#49, zk-ruby#51, aiozk#34, kazoo#429, CURATOR-315, CURATOR-335, CURATOR-462 and
// etcd#21128.
func TestDriverFailureAfterTheCreationLeavesNoNode(t *testing.T) {
	tryAtOnce(t, func(t *testing.T, server zktest.Backend, path string) {
		trouble := errors.New("trouble")
		client := zktest.Client(t, server.ConnectString(), framework.WithRetryPolicy(retry.NTimes(2, time.Millisecond)))
		for cause, want := range map[error]int{
			trouble: 1, fmt.Errorf("not there: %w", framework.ErrNoNode): 3,
		} {
			asked := 0
			_, err := newFailing(t, client, path, func() error { asked++; return cause }).Acquire(zktest.Context(t))
			require.ErrorIs(t, err, cause)
			require.Equal(t, want, asked)
			requireNoChildren(t, client, path)
		}
	})
}

// What comes after the creation fails, and so does the deletion of the node, as the
// connection and then the session end: the first failure is the one that is told.
func TestDriverFirstFailureIsTold(t *testing.T) {
	tryAtOnce(t, func(t *testing.T, server zktest.Backend, path string) {
		trouble := errors.New("trouble")
		link := zktest.NewProxy(t, server.Addr())
		client := zktest.Client(t, server.ConnectStringVia(link.Addr()),
			framework.WithRetryPolicy(retry.None()), framework.WithConnectionTimeout(time.Second/2))
		internals := newFailing(t, client, path, func() error {
			link.Refuse(true)
			link.Cut()
			zktest.KillSession(t, client, server.Addr())
			return trouble
		})
		_, err := internals.Acquire(zktest.Context(t))
		require.ErrorIs(t, err, trouble)
		awaitQueue(t, newMutex(t, zktest.Client(t, server.ConnectString()), path), 0)
	})
}

// TestWithCleanupTimeoutWaitsForTheDeletion: the context of the caller ends while the node of a
// failed acquisition is being deleted.
func TestWithCleanupTimeoutWaitsForTheDeletion(t *testing.T) {
	onFakeTime(t, func(t *testing.T, w longWait) {
		trouble, answer := errors.New("trouble"), make(chan struct{})
		w.server.Intercept(zkserver.Nth(1, zkserver.OpDelete, zkserver.HoldUntil(answer)))
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		result := acquireLater(ctx, newFailing(t, w.waiter, "/lock", func() error { return trouble }, locks.WithCleanupTimeout(10*time.Second)))
		time.Sleep(time.Second)
		cancel()
		time.Sleep(time.Second)
		require.Empty(t, result, "it waits")
		close(answer)
		require.ErrorIs(t, await(t, result).err, trouble)
		requireNoChildren(t, w.holder, "/lock")
	})
}
