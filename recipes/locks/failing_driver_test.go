package locks_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/retry"
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

func newFailing(t *testing.T, client *framework.Framework, path string, fail func() error) *locks.LockInternals {
	t.Helper()
	driver := failingDriver{locks.StandardLockInternalsDriver{StandardLockInternalsSorter: mutexSorter}, fail}
	internals, err := locks.NewLockInternals(client, driver, path, "lock-", 1)
	require.NoError(t, err)
	return internals
}

// What comes after the creation fails: the error is told as it is, and the node is
// gone. For a node that is said to be missing it is tried again first.
func TestAFailureAfterTheCreationLeavesNoNode(t *testing.T) {
	twentyAtOnce(t, func(t *testing.T, server zktest.Backend, path string) {
		trouble := errors.New("trouble")
		client := zktest.Client(t, server.ConnectString(), framework.WithRetryPolicy(retry.NTimes(2, time.Millisecond)))
		for cause, want := range map[error]int{
			trouble: 1, fmt.Errorf("not there: %w", framework.ErrNoNode): 3,
		} {
			asked := 0
			_, err := newFailing(t, client, path, func() error { asked++; return cause }).Acquire(withLimit(t))
			require.ErrorIs(t, err, cause)
			require.Equal(t, want, asked)
			requireNoChildren(t, client, path)
		}
	})
}

// What comes after the creation fails, and so does the deletion of the node, as the
// connection and then the session end: the first failure is the one that is told.
func TestTheFirstFailureIsTold(t *testing.T) {
	twentyAtOnce(t, func(t *testing.T, server zktest.Backend, path string) {
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
		_, err := internals.Acquire(withLimit(t))
		require.ErrorIs(t, err, trouble)
		awaitQueue(t, newMutex(t, zktest.Client(t, server.ConnectString()), path), 0)
	})
}
