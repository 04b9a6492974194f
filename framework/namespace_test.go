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
