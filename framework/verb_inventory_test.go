// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/testing/ensemble"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

func TestEphemeralsAndAllChildrenNumber(t *testing.T) {
	t.Parallel()
	onEachBackend(t, func(t *testing.T, server zktest.Backend, f *framework.Framework) {
		server.Requires(t, ensemble.GetEphemerals, ensemble.GetAllChildren)
		ctx := t.Context()
		ephemeral := framework.WithMode(framework.Ephemeral)
		for _, path := range []string{"/a/y", "/a/x", "/ab"} {
			mustCreate(t, f, path, ephemeral, framework.CreatingParentsIfNeeded())
		}
		other := zktest.Client(t, server.ConnectString())
		mustCreate(t, other, "/a/theirs", ephemeral)
		sibling := zktest.Client(t, server.ConnectString()+"x") // a chroot that begins like ours
		mustCreate(t, sibling, "/e", ephemeral, framework.CreatingParentsIfNeeded())

		for path, want := range map[string][]string{
			"/": {"/a/x", "/a/y", "/ab"}, "/a": {"/a/x", "/a/y"}, "/a/x": {"/a/x"}, "/none": {},
		} {
			found, err := f.Ephemerals(ctx, path)
			require.NoError(t, err, path)
			require.Equal(t, want, found, path)
		}
		for path, want := range map[string]int{"/": 6, "/a": 3, "/ab": 0} {
			n, err := f.AllChildrenNumber(ctx, path)
			require.NoError(t, err, path)
			require.Equal(t, want, n, path)
		}
		_, err := f.AllChildrenNumber(ctx, "/none")
		require.ErrorIs(t, err, framework.ErrNoNode)
		_, err = f.AllChildrenNumber(ctx, "")
		require.ErrorIs(t, err, framework.ErrInvalidPath)
		_, err = f.Ephemerals(ctx, "")
		require.ErrorIs(t, err, framework.ErrInvalidPath)
	})
}

// TestInventoryOldServersAreNotAskedForDescendants: a request that a server does not know costs
// the connection, and whatever is held with it.
func TestInventoryOldServersAreNotAskedForDescendants(t *testing.T) {
	server := zktest.NewServer(t, zkserver.WithVersion("3.5.9"))
	f := zktest.Client(t, server.Addr())
	held := f.Session().Context(framework.StandardErrorPolicy)
	_, err := f.Ephemerals(t.Context(), "/")
	require.ErrorIs(t, err, framework.ErrUnsupported)
	_, err = f.AllChildrenNumber(t.Context(), "/")
	require.ErrorIs(t, err, framework.ErrUnsupported)
	require.ErrorContains(t, err, "all children number /: ")
	require.ErrorContains(t, err, "the version of "+server.Addr()+" is 3.5.9")
	require.NoError(t, f.Sync(t.Context(), "/"))
	require.NoError(t, held.Err())
}

func TestConfigAndReconfig(t *testing.T) {
	t.Parallel()
	onEachBackend(t, func(t *testing.T, _ zktest.Backend, f *framework.Framework) {
		var stat framework.Stat
		_, err := f.Config(t.Context(), framework.StoringStatIn(&stat))
		require.NoError(t, err, "whatever the chroot")
		_, err = f.Reconfig(t.Context(), framework.Reconfiguration{Joining: []string{"5=127.0.0.1:1:2:observer;3"}, Leaving: []string{"4"}, From: 7})
		require.ErrorIs(t, err, framework.ServerError(-123), "reconfiguration is disabled by default")
		require.False(t, framework.OutcomeUnknown(err))
	})
	f := unstarted(t)
	for name, change := range map[string]framework.Reconfiguration{
		"nothing":       {From: 1},
		"contradiction": {Members: []string{"1=a"}, Leaving: []string{"2"}},
		"a list":        {Joining: []string{"1=a,2=b"}},
		"empty":         {Joining: []string{""}},
	} {
		_, err := f.Reconfig(t.Context(), change)
		require.ErrorIs(t, err, framework.ErrInvalidOption, name)
	}
}
