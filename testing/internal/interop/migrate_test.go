// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"context"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zktest"
)

// What recipes/MIGRATING.md shows: the same work under a lock, before and after.

func reportWithZKLock(conn *zk.Conn, writeReport func() error) error {
	lock := zk.NewLock(conn, "/locks/report", zk.WorldACL(zk.PermAll))
	if err := lock.Lock(); err != nil {
		return err
	}
	defer lock.Unlock()
	return writeReport() // nothing tells it that the lock is lost
}

func reportWithMutex(ctx context.Context, client *framework.Framework, writeReport func(context.Context) error) error {
	mutex, err := locks.NewInterProcessMutex(client, "/locks/report")
	if err != nil {
		return err
	}
	return mutex.Do(ctx, writeReport) // the context of writeReport ends if the lock is lost
}

// TestMigrateBeforeAndAfterTheMigrationExclude starts each half of the migration while the other
// is inside: neither enters before the other has left.
func TestMigrateBeforeAndAfterTheMigrationExclude(t *testing.T) {
	server := zktest.NewServer(t)
	conn := newZKConn(t, zktest.Embedded(server))
	client := zktest.Client(t, server)
	observer := newMutex(t, client, "/locks/report")
	entered, ended := make(chan struct{}, 1), make(chan error, 1)
	awaitWaiter := func() {
		awaitQueue(t, observer, 2)
		require.Empty(t, entered, "inside beside the holder")
	}

	require.NoError(t, reportWithZKLock(conn, func() error {
		go func() {
			ended <- reportWithMutex(context.Background(), client, func(context.Context) error {
				entered <- struct{}{}
				return nil
			})
		}()
		awaitWaiter()
		return nil
	}))
	<-entered
	require.NoError(t, <-ended)

	require.NoError(t, reportWithMutex(t.Context(), client, func(context.Context) error {
		go func() {
			ended <- reportWithZKLock(conn, func() error {
				entered <- struct{}{}
				return nil
			})
		}()
		awaitWaiter()
		return nil
	}))
	<-entered
	require.NoError(t, <-ended)
}
