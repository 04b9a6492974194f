// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/testing/zktest"
)

func namespaced(t *testing.T, f *framework.Framework, namespace string) *framework.Framework {
	t.Helper()
	view := must.Get(f.UsingNamespace(namespace))(t)
	require.Equal(t, namespace, view.Namespace())
	require.Same(t, f.WithoutNamespace(), view.WithoutNamespace())
	return view
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
			must.Get(client.Get(t.Context(), path, framework.Watched(&w)))(t)
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
	must.Get(f.Get(t.Context(), "/ns", framework.Watched(&gone)))(t)
	require.NoError(t, view.Delete(t.Context(), "/a", framework.DeletingChildrenIfNeeded()))
	select {
	case <-gone.Fired():
	case <-time.After(patience):
		require.FailNow(t, "the namespace was not reaped")
	}
	mustCreate(t, view, "/again")
}

func TestNamespaceIsAView(t *testing.T) {
	f := unstarted(t)
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
