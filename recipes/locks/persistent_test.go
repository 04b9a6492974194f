// SPDX-License-Identifier: Apache-2.0

package locks_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/testing/zktest"
)

// lasting is the driver of a mutex whose nodes are not ephemeral.
type lasting struct {
	locks.StandardLockInternalsDriver
}

func (d lasting) CreatesTheLock(
	ctx context.Context, client *framework.Framework, session *framework.Session, path string, data []byte,
) (node locks.LockNode, err error) {
	node.Path, err = client.Create(ctx, path, data,
		framework.CreatingParentContainersIfNeeded(), framework.WithProtection(),
		framework.WithMode(framework.PersistentSequential), framework.InSession(session),
		framework.StoringStatIn(&node.Stat), framework.ListingSiblingsIn(&node.Children))
	return node, err
}

// TestPersistentNodeThatIsNotOurs: a driver whose nodes are not ephemeral never gets a lock, and leaves nothing.
func TestPersistentNodeThatIsNotOurs(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		client := zktest.Client(t, server.ConnectString(),
			framework.WithRetryPolicy(retry.NTimes(1, time.Millisecond)))
		l, err := locks.NewLockInternals(client, lasting{locks.StandardLockInternalsDriver{
			StandardLockInternalsSorter: locks.StandardLockInternalsSorter{LockName: "lock-"},
		}}, "/locks/lasting", "lock-", 1)
		require.NoError(t, err)
		_, err = l.Acquire(zktest.Context(t))
		require.ErrorContains(t, err, "belongs to session 0x0, ours is")
		awaitQueue(t, l, 0)
	})
}
