// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/testing/ensemble"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// TestReadOnlyMode takes the quorum from a server and gives it back. Curator's tests of
// the same are testReadOnly and testConnectionStateNewClient of TestReadOnly.
//
// Curator: TestReadOnly.testReadOnly, testConnectionStateNewClient.
func TestReadOnlyMode(t *testing.T) {
	if testing.Short() {
		t.Skip("takes three real servers")
	}
	t.Parallel() // with servers of its own
	ctx := t.Context()
	servers := zktest.NewEnsemble(t, 3, ensemble.WithProperty("readonlymode.enabled", "true"),
		ensemble.WithConfig("localSessionsEnabled", "true"), ensemble.WithConfig("localSessionsUpgradingEnabled", "true"), ensemble.WithSyncLimit(20))
	followers := must.Get(servers.Followers(ctx))(t)
	last := followers[0]
	options := []framework.Option{framework.WithReadOnly(), framework.WithSessionTimeout(6 * time.Second)}
	f := zktest.Client(t, servers.ConnectString(), options...)
	must.Get(f.Create(ctx, "/a", []byte("before")))(t)
	mustCreate(t, f, "/todo")
	require.NoError(t, zktest.Client(t, last.Addr()).Sync(ctx, "/a"), "so that it knows, too")
	session, told := f.Session(), recordStates(f)

	for _, s := range servers.Servers() {
		if s != last {
			require.NoError(t, s.Kill())
		}
	}
	require.Contains(t, told.until(t, framework.ReadOnly), framework.Lost)
	require.True(t, f.State().IsConnected())
	require.NoError(t, f.Health().Err)
	require.NotEqual(t, session.ID(), f.Session().ID())
	require.Error(t, session.Err())
	data := must.Get(f.Get(ctx, "/a"))(t)
	require.Equal(t, "before", string(data))
	err := f.Set(ctx, "/a", nil)
	require.ErrorIs(t, err, framework.ErrNotReadOnly)
	require.False(t, framework.OutcomeUnknown(err))
	require.False(t, framework.Retryable(err))
	require.ErrorIs(t, f.Delete(ctx, "/todo", framework.Guaranteed()), framework.ErrCleanupPending)

	fresh := must.Get(framework.New(servers.ConnectString(), options...))(t)
	freshTold := recordStates(fresh)
	require.NoError(t, fresh.Start())
	defer fresh.Close()
	require.NotContains(t, freshTold.until(t, framework.ReadOnly), framework.Connected)
	require.NoError(t, zktest.Client(t, last.Addr(), options...).Close(), "of a session that nobody else knows")
	short, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_, err = framework.Connect(short, last.Addr())
	require.ErrorIs(t, err, context.DeadlineExceeded, "without the option")

	require.NoError(t, followers[1].Restart(ctx))
	require.Contains(t, told.until(t, framework.Reconnected), framework.Suspended)
	require.Contains(t, freshTold.until(t, framework.Connected), framework.Suspended)
	require.NoError(t, f.Set(ctx, "/a", []byte("after")))
	require.Eventually(t, func() bool {
		stat, err := f.Exists(ctx, "/todo")
		return err == nil && stat == nil
	}, patience, 10*time.Millisecond, "what is guaranteed")
	require.NoError(t, fresh.Sync(ctx, "/a"))
	data = must.Get(fresh.Get(ctx, "/a"))(t)
	require.Equal(t, "after", string(data))
}

// TestReadOnlyModeOfOneServer is the same on a fake clock, with a server that has nobody
// else to ask.
func TestReadOnlyModeOfOneServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		t.Cleanup(func() { zktest.AssertClean(t, server) })
		// The session that it gives up expires before the server is found unclean.
		f := zktest.Client(t, server, framework.WithReadOnly(), framework.WithSessionTimeout(5*time.Second))
		mustCreate(t, f, "/a")
		told := recordStates(f)

		regain := server.LoseQuorum()
		require.Contains(t, told.until(t, framework.ReadOnly), framework.Lost)
		must.Get(f.Get(t.Context(), "/a"))(t)
		require.ErrorIs(t, f.Set(t.Context(), "/a", nil), framework.ErrNotReadOnly)

		regain()
		require.Contains(t, told.until(t, framework.Reconnected), framework.Suspended)
		require.NoError(t, f.Set(t.Context(), "/a", nil))
	})
}
