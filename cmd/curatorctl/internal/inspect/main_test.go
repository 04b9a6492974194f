// SPDX-License-Identifier: Apache-2.0

package inspect_test

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/cmd/curatorctl/internal/inspect"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zktest"
)

func TestMain(m *testing.M) { zktest.Main(sharing{m}) }

// awaitChildren waits until a folder has so many children.
func awaitChildren(tb testing.TB, client *framework.Framework, path string, n int) {
	tb.Helper()
	for f, err := range client.FollowChildren(zktest.Context(tb), path) {
		require.NoError(tb, err, "%s has %d children, expected %d", path, len(f.Names), n)
		if len(f.Names) == n {
			return
		}
	}
}

// hold acquires and keeps the lock until the test ends.
func hold(tb testing.TB, lock locks.InterProcessLock) *locks.Lease {
	tb.Helper()
	lease := must.Get(lock.Acquire(zktest.Context(tb)))(tb)
	tb.Cleanup(func() { require.NoError(tb, lease.Release(context.Background())) })
	return lease
}

// contend has another owner wait for the lock, and keep it then, until the test ends.
func contend(tb testing.TB, lock locks.InterProcessLock) {
	tb.Helper()
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		lease, err := lock.Acquire(ctx)
		if err != nil {
			assert.ErrorIs(tb, err, context.Canceled)
			return
		}
		<-ctx.Done()
		assert.NoError(tb, lease.Release(context.Background()))
	})
	tb.Cleanup(func() {
		stop()
		wg.Wait()
	})
}

// put creates persistent znodes without data.
func put(tb testing.TB, client *framework.Framework, paths ...string) {
	tb.Helper()
	putAs(tb, client, framework.Persistent, paths...)
}

// putAs creates znodes without data.
func putAs(tb testing.TB, client *framework.Framework, mode framework.CreateMode, paths ...string) {
	tb.Helper()
	for _, path := range paths {
		must.Get(client.Create(zktest.Context(tb), path, nil, framework.CreatingParentsIfNeeded(), framework.WithMode(mode)))(tb)
	}
}

// only returns the one recipe at a path.
func only(tb testing.TB, client *framework.Framework, path string, opts ...inspect.Option) inspect.Recipe {
	tb.Helper()
	recipes := must.Get(inspect.At(zktest.Context(tb), client, path, opts...))(tb)
	require.Len(tb, recipes, 1)
	require.Equal(tb, path, recipes[0].Path)
	return recipes[0]
}
