// SPDX-License-Identifier: Apache-2.0

package locks_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zktest"
)

// lasting is the driver of a mutex whose nodes are not ephemeral.
type lasting struct {
	locks.StandardLockInternalsDriver

	created *int
}

func (d lasting) CreatesTheLock(
	ctx context.Context, client *framework.Framework, session *framework.Session, path string, data []byte,
) (node locks.LockNode, err error) {
	*d.created++
	node.Path, err = client.Create(ctx, path, data,
		framework.CreatingParentContainersIfNeeded(), framework.WithProtection(),
		framework.WithMode(framework.PersistentSequential), framework.InSession(session),
		framework.StoringStatIn(&node.Stat), framework.ListingSiblingsIn(&node.Children))
	return node, err
}

// TestDriverMustMakeEphemeralNodes, or each acquisition fails at once, and leaves nothing.
func TestDriverMustMakeEphemeralNodes(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		client := zktest.Client(t, server.ConnectString())
		created := 0
		l, err := locks.NewLockInternals(client, lasting{locks.StandardLockInternalsDriver{
			StandardLockInternalsSorter: locks.StandardLockInternalsSorter{LockName: "lock-"},
		}, &created}, "/locks/lasting", "lock-", 1)
		require.NoError(t, err)
		_, err = l.Acquire(zktest.Context(t))
		require.ErrorContains(t, err, "driver locks_test.lasting: the node /locks/lasting/_c_")
		require.ErrorContains(t, err, "has owner 0x0, must be ephemeral, of the given session")
		_, err = l.TryAcquire(zktest.Context(t))
		require.ErrorContains(t, err, "must be ephemeral, of the given session")
		require.Equal(t, 2, created, "it has not begun again")
		awaitQueue(t, l, 0)
	})
}
