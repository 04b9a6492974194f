// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/testing/zkproxy"
	"github.com/gocurator/curator/testing/zktest"
)

// whenSearched makes the first protected create that goes through the proxy fail before
// the server has seen it, but after create has made a znode of that name. Whoever then
// searches must take that for its own. It returns what tells the znode's path.
func whenSearched(t *testing.T, proxy *zkproxy.Proxy, create func(path string) (string, error)) (created func() string) {
	t.Helper()
	paths, failures := make(chan string, 1), make(chan error, 1)
	var once atomic.Bool
	proxy.Intercept(func(f zkproxy.Frame) zkproxy.Verdict {
		isCreate := f.Op == zkproxy.OpCreate || f.Op == zkproxy.OpCreate2
		if f.Direction != zkproxy.ToServer || !isCreate || !strings.Contains(f.Path, "/_c_") || once.Swap(true) {
			return zkproxy.Pass
		}
		path, err := create(f.Path)
		paths <- path
		failures <- err
		return zkproxy.CutBefore
	})
	return func() string {
		require.NoError(t, <-failures)
		return <-paths
	}
}

// Each side's search after a lost reply finds a node by its protection that the other
// side has created.
//
// Curator: TestFrameworkEdges.testMissedResponseOnESCreate, testMissedResponseOnBackgroundESCreate.
func TestProtectionSearchForProtectedNodes(t *testing.T) {
	eachBackend(t, func(t *testing.T, server zktest.Backend) {
		proxy := zktest.NewProxy(t, server.Addr())
		ours := zktest.Client(t, server.Addr())
		java := newActorAt(t, server.ConnectStringVia(proxy.Addr()))
		java.do(t, "create", "/java", "PERSISTENT")
		found := whenSearched(t, proxy, func(path string) (string, error) {
			return ours.Create(zktest.Context(t), path, []byte("by Go"), framework.WithMode(framework.PersistentSequential))
		})
		path := java.do(t, "create-protected", "/java/job-", "PERSISTENT_SEQUENTIAL", "by Java")[0]
		require.Equal(t, found(), server.Root()+path)
		require.Equal(t, "by Go", java.do(t, "get", path)[0])
		require.Len(t, java.do(t, "children", "/java"), 1)

		proxy = zktest.NewProxy(t, server.Addr())
		client := zktest.Client(t, server.ConnectStringVia(proxy.Addr()))
		theirs := newActorAt(t, server.Addr())
		create(t, client, "/go", "")
		found = whenSearched(t, proxy, func(path string) (string, error) {
			created, err := theirs.Do(zktest.Context(t), "create", path, "PERSISTENT_SEQUENTIAL", "by Java")
			return strings.Join(created, ""), err
		})
		path = create(t, client, "/go/job-", "by Go", framework.WithProtection(), framework.WithMode(framework.PersistentSequential))
		require.Equal(t, found(), server.Root()+path)
		require.Equal(t, "by Java", get(t, client, path))
		require.Len(t, java.do(t, "children", "/go"), 1)
	})
}
