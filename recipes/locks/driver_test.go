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
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// wrongDriver is a mutex whose waiters have to wait for what wrong returns.
type wrongDriver struct {
	locks.StandardLockInternalsDriver

	wrong func(contenders []string, ours string) []string
}

func (d wrongDriver) GetsTheLock(contenders []string, ours string, maxLeases int) (locks.PredicateResults, error) {
	result, err := d.StandardLockInternalsDriver.GetsTheLock(contenders, ours, maxLeases)
	if err == nil && !result.GetsTheLock {
		result.PathsToWatch = d.wrong(contenders, ours)
	}
	return result, err
}

// TestDriverThatIsWrong gets an error that says so, and leaves no node.
func TestDriverThatIsWrong(t *testing.T) {
	for name, test := range map[string]struct {
		wrong func(contenders []string, ours string) []string
		want  string
	}{
		"nobody": {func([]string, string) []string { return []string{"nobody"} }, `has to wait for "nobody", expected one of the contenders`},
		"itself": {func(_ []string, ours string) []string { return []string{ours} }, "has to wait for itself"},
		"twice": {
			func(contenders []string, _ string) []string { return []string{contenders[0], contenders[0]} },
			"expected names that differ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			onFakeTime(t, func(t *testing.T, w longWait) {
				driver := wrongDriver{locks.StandardLockInternalsDriver{StandardLockInternalsSorter: mutexSorter}, test.wrong}
				lock := must.Get(locks.NewLockInternals(w.waiter, driver, "/lock", "lock-", 1))(t)
				held := acquire(t, newMutex(t, w.holder, "/lock"))
				_, err := lock.Acquire(withDeadline(t, time.Minute))
				require.ErrorContains(t, err, test.want)
				require.ErrorContains(t, err, "locks_test.wrongDriver")
				awaitQueue(t, newMutex(t, w.holder, "/lock"), 1)
				release(t, held)
			})
		})
	}
}

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
	internals := must.Get(locks.NewLockInternals(client, driver, path, "lock-", 1, opts...))(t)
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
