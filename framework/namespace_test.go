// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/testing/ensemble"
	"github.com/gocurator/curator/testing/zktest"
)

func namespaced(t *testing.T, f *framework.Framework, namespace string) *framework.Framework {
	t.Helper()
	view, err := f.UsingNamespace(namespace)
	require.NoError(t, err)
	require.Equal(t, namespace, view.Namespace())
	require.Same(t, f.WithoutNamespace(), view.WithoutNamespace())
	return view
}

// Curator: TestFrameworkEdges.testPathsFromProtectingInBackground; TestEnsureContainers,
// TestFramework.testCreateParentContainers, testNamespaceInBackground.
func TestNamespace(t *testing.T) {
	t.Parallel()
	onEachBackend(t, func(t *testing.T, server zktest.Backend, f *framework.Framework) {
		ctx := t.Context()
		view := namespaced(t, f, "team/orders")
		requireNone(t, f, "/team")
		require.Equal(t, "/a", mustCreate(t, view, "/a"))
		require.Equal(t, "/x/y", mustCreate(t, view, "/x/y", framework.CreatingParentsIfNeeded()))
		require.Equal(t, server.Root()+"/team/orders/a", view.FullPath("/a"))
		require.Equal(t, server.Root()+"/team/orders", view.FullPath("/"))
		names, err := f.Children(ctx, "/team/orders")
		require.NoError(t, err)
		require.ElementsMatch(t, []string{"a", "x"}, names)
		requireNone(t, f, "/a")

		results, err := view.Transact(ctx, framework.SetDataOp("/a", []byte("data")), framework.CreateOp("/b", nil))
		require.NoError(t, err)
		require.Equal(t, "/b", results[1].Path)
		data, err := f.Get(ctx, "/team/orders/a")
		require.NoError(t, err)
		require.Equal(t, "data", string(data))

		protected := mustCreate(t, view, "/p", framework.WithProtection(), framework.WithMode(framework.Ephemeral))
		require.Regexp(t, "^/_c_"+uuidPattern+"-p$", protected)
		t.Run("ephemerals", func(t *testing.T) {
			server.Requires(t, ensemble.GetEphemerals)
			found, err := view.Ephemerals(ctx, "/")
			require.NoError(t, err)
			require.Equal(t, []string{protected}, found)
		})

		var op *framework.OpError
		require.ErrorAs(t, view.Delete(ctx, "/none"), &op)
		require.Equal(t, "/none", op.Path)
		require.NoError(t, view.Delete(ctx, "/x", framework.DeletingChildrenIfNeeded(), framework.InBackground()))
		_, err = view.Config(ctx)
		require.NoError(t, err)

		// A view of a view is a view of the client, and / is not the end of a name.
		other := namespaced(t, view, "team/orders2")
		mustCreate(t, other, "/a")
		require.Equal(t, server.Root()+"/team/orders2/a", other.FullPath("/a"))
	})
}

// TestNamespaceWatches: the views share the server's watch, and each is told the
// path as it knows it.
func TestNamespaceWatches(t *testing.T) {
	t.Parallel()
	onEachBackend(t, func(t *testing.T, _ zktest.Backend, f *framework.Framework) {
		view := namespaced(t, f, "ns")
		mustCreate(t, view, "/a")
		watches := map[string]*framework.Watch{}
		for path, client := range map[string]*framework.Framework{"/ns/a": f, "/a": view} {
			var w *framework.Watch
			_, err := client.Get(t.Context(), path, framework.Watched(&w))
			require.NoError(t, err)
			watches[path] = w
		}
		require.Equal(t, 1, f.WatchedPaths())
		require.NoError(t, view.Set(t.Context(), "/a", nil))
		for path, w := range watches {
			select {
			case <-w.Fired():
				require.Equal(t, path, w.Event().Path)
			case <-time.After(patience):
				require.FailNow(t, "not told", path)
			}
		}
	})
}

// TestNamespacesAreContainers: the last znode takes the namespace along.
//
// Curator: TestEnsureContainers, TestFramework.testCreateParentContainers,
// testNamespaceInBackground.
func TestNamespacesAreContainers(t *testing.T) {
	f := zktest.Client(t, zktest.NewServer(t, quickReaper).Addr())
	view := namespaced(t, f, "ns")
	mustCreate(t, view, "/a/b", framework.CreatingParentsIfNeeded())
	var gone *framework.Watch
	_, err := f.Get(t.Context(), "/ns", framework.Watched(&gone))
	require.NoError(t, err)
	children := framework.DeletingChildrenIfNeeded()
	require.NoError(t, view.Delete(t.Context(), "/a", children))
	select {
	case <-gone.Fired():
	case <-time.After(patience):
		require.FailNow(t, "the namespace was not reaped")
	}
	mustCreate(t, view, "/again")
}

// Curator: TestEnsureContainers, TestFramework.testCreateParentContainers,
// testNamespaceInBackground.
func TestCreateContainers(t *testing.T) {
	t.Parallel()
	onEachBackend(t, func(t *testing.T, _ zktest.Backend, f *framework.Framework) {
		view := namespaced(t, f, "ns")
		for _, client := range []*framework.Framework{f, view} {
			for _, path := range []string{"/", "/a/b/c", "/a/b/c", "/a"} {
				require.NoError(t, client.CreateContainers(t.Context(), path))
				stat, err := client.Exists(t.Context(), path)
				require.NoError(t, err)
				require.NotNil(t, stat, path)
			}
			require.ErrorIs(t, client.CreateContainers(t.Context(), "a"), framework.ErrInvalidPath)
		}
		require.ErrorIs(t, f.WithoutNamespace().CreateContainers(t.Context(), "/a/"), framework.ErrInvalidPath)
		mustCreate(t, f, "/e", framework.WithMode(framework.Ephemeral))
		require.ErrorIs(t, f.CreateContainers(t.Context(), "/e/x"), framework.ErrNoChildrenForEphemerals)
	})
}

func TestNamespacesThatAreNone(t *testing.T) {
	f := unstarted(t)
	for _, namespace := range []string{"", "/a", "a/", "a//b", "..", "zookeeper", "zookeeper/x"} {
		_, err := f.UsingNamespace(namespace)
		require.ErrorIs(t, err, framework.ErrInvalidPath, "%q", namespace)
	}
	view := namespaced(t, f, "ns")
	require.Empty(t, f.Namespace())
	require.Same(t, f, f.WithoutNamespace())
	require.ErrorContains(t, view.Start(), "view")
	require.ErrorContains(t, view.Close(), "view")
	require.Contains(t, view.String(), "/ns")
	require.NoError(t, f.Close())
	_, err := view.Get(t.Context(), "/a")
	require.ErrorIs(t, err, framework.ErrClosed)
}
