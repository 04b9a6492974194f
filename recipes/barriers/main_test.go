package barriers_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/barriers"
	"github.com/gocurator/curator/testing/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(zktest.WithSharedServers(m)) }

// limit bounds what a test waits for, generously: a test that needs it has failed.
const limit = 30 * time.Second

// path is where the barrier of a test is.
const path = "/barriers/a"

// withLimit returns a context that ends with the test, or at the limit.
func withLimit(tb testing.TB) context.Context {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), limit)
	tb.Cleanup(cancel)
	return ctx
}

func newDouble(tb testing.TB, client *framework.Framework, members int) *barriers.DistributedDoubleBarrier {
	tb.Helper()
	b, err := barriers.NewDistributedDoubleBarrier(client, path, members)
	require.NoError(tb, err)
	return b
}

// later runs a call in the background.
func later(call func() error) <-chan error {
	result := make(chan error, 1)
	go func() { result <- call() }()
	return result
}

// awaitChildren waits until the barrier has so many children.
func awaitChildren(tb testing.TB, client *framework.Framework, n int) []string {
	tb.Helper()
	ctx := withLimit(tb)
	for {
		var watch *framework.Watch
		stat, err := client.Exists(ctx, path, framework.Watched(&watch))
		require.NoError(tb, err)
		var names []string
		if stat != nil {
			watch.Cancel()
			watch = nil
			names, err = client.Children(ctx, path, framework.Watched(&watch))
			require.NoError(tb, err)
		}
		if len(names) == n {
			watch.Cancel()
			return names
		}
		_, err = watch.Wait(ctx)
		require.NoError(tb, err, "%d children, expected %d", len(names), n)
	}
}
