// SPDX-License-Identifier: Apache-2.0

package barriers_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/barriers"
	"github.com/gocurator/curator/testing/zktest"
)

func TestMain(m *testing.M) { zktest.Main(m) }

// limit bounds what a test waits for, generously: a test that needs it has failed.
const limit = 2 * time.Minute

// shortSession is how often a call looks again by itself.
const shortSession = 8 * time.Second

// path is where the barrier of a test is.
const path = "/barriers/a"

func newDouble(tb testing.TB, client *framework.Framework, members int) *barriers.DistributedDoubleBarrier {
	tb.Helper()
	b := must.Get(barriers.NewDistributedDoubleBarrier(client, path, members))(tb)
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
	return awaitNames(tb, client, func(names []string) bool { return len(names) == n })
}

// awaitMembers waits until so many members, and nothing else, are at the barrier.
func awaitMembers(tb testing.TB, client *framework.Framework, n int) {
	tb.Helper()
	awaitNames(tb, client, func(names []string) bool { return len(names) == n && !slices.Contains(names, "ready") })
}

// awaitNames waits until the children of the barrier are as they should be.
func awaitNames(tb testing.TB, client *framework.Framework, match func(names []string) bool) []string {
	tb.Helper()
	for f, err := range client.FollowChildren(zktest.Context(tb), path) {
		require.NoError(tb, err, "the children are %v", f.Names)
		if match(f.Names) {
			return f.Names
		}
	}
	return nil
}
