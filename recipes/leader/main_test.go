// SPDX-License-Identifier: Apache-2.0

package leader_test

import (
	"bytes"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/leader"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

func TestMain(m *testing.M) { zktest.Main(m) }

// election is the path of the election of a test.
const election = "/election"

// eachBackendNamed is zktest.EachBackend as a subtest.
func eachBackendNamed(t *testing.T, name string, test func(t *testing.T, server zktest.Backend)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { zktest.EachBackend(t, test) })
}

func newLatch(tb testing.TB, client *framework.Framework, opts ...leader.Option) *leader.LeaderLatch {
	tb.Helper()
	latch := must.Get(leader.NewLeaderLatch(client, election, opts...))(tb)
	tb.Cleanup(func() { require.NoError(tb, latch.Close()) })
	return latch
}

// started returns a latch that stands for election.
func started(tb testing.TB, client *framework.Framework, opts ...leader.Option) *leader.LeaderLatch {
	tb.Helper()
	latch := newLatch(tb, client, opts...)
	require.NoError(tb, latch.Start())
	return latch
}

func awaitLeadership(tb testing.TB, latch *leader.LeaderLatch) *locks.Lease {
	tb.Helper()
	lease := must.Get(latch.Await(zktest.Context(tb)))(tb)
	return lease
}

// awaitCandidates waits until so many stand for election.
func awaitCandidates(tb testing.TB, client *framework.Framework, n int) {
	tb.Helper()
	for f, err := range client.FollowChildren(zktest.Context(tb), election) {
		require.NoError(tb, err, "%d candidates, expected %d", len(f.Names), n)
		if len(f.Names) == n {
			return
		}
	}
}

// changesOf returns the changes of a latch from now on.
func changesOf(tb testing.TB, latch *leader.LeaderLatch) <-chan leader.Change {
	tb.Helper()
	changes := make(chan leader.Change, 100)
	registration := latch.OnChange(func(c leader.Change) { changes <- c })
	tb.Cleanup(func() {
		registration.Remove()
		<-registration.Done()
	})
	return changes
}

func newSelector(tb testing.TB, client *framework.Framework, opts ...leader.Option) *leader.LeaderSelector {
	tb.Helper()
	selector := must.Get(leader.NewLeaderSelector(client, election, opts...))(tb)
	return selector
}

// logging returns a client, and a function that closes it and returns its log.
func logging(t *testing.T, server *zkserver.Server) (client *framework.Framework, log func() string) {
	t.Helper()
	var text bytes.Buffer
	client = zktest.Client(t, server, framework.WithLogger(slog.New(slog.NewTextHandler(&text, nil))))
	return client, func() string {
		require.NoError(t, client.Close()) // which writes what is in the queue of the log
		return text.String()
	}
}
