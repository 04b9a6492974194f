// SPDX-License-Identifier: Apache-2.0

package nodes_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/listen"
	"github.com/gocurator/curator/recipes/nodes"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

func TestMain(m *testing.M) { zktest.Main(m) }

// limit bounds what a test waits for, generously: a test that needs it has failed.
const limit = 2 * time.Minute

const path = "/nodes/a"

func newNode(tb testing.TB, client *framework.Framework, mode framework.CreateMode, opts ...nodes.Option) *nodes.PersistentNode {
	tb.Helper()
	node := must.Get(nodes.NewPersistentNode(client, path, mode, []byte("first"), opts...))(tb)
	tb.Cleanup(func() { require.NoError(tb, node.Close()) })
	return node
}

// started returns a node whose znode stands.
func started(tb testing.TB, client *framework.Framework, mode framework.CreateMode, opts ...nodes.Option) *nodes.PersistentNode {
	tb.Helper()
	node := newNode(tb, client, mode, opts...)
	require.NoError(tb, node.Start())
	require.NoError(tb, node.WaitForInitialCreate(zktest.Context(tb)))
	return node
}

// changesOf returns the changes of a node from now on.
func changesOf(tb testing.TB, node interface {
	OnChange(fn func(nodes.Change)) *listen.Registration
},
) <-chan nodes.Change {
	tb.Helper()
	changes := make(chan nodes.Change, 1000)
	registration := node.OnChange(func(c nodes.Change) { changes <- c })
	tb.Cleanup(func() {
		registration.Remove()
		<-registration.Done()
	})
	return changes
}

// awaitNode waits until the znode at path satisfies accept, which gets nil for
// none.
func awaitNode(tb testing.TB, client *framework.Framework, path string, accept func(data []byte, stat *framework.Stat) bool) {
	tb.Helper()
	for node, err := range client.Follow(zktest.Context(tb), path) {
		require.NoError(tb, err)
		if accept(node.Data, node.Stat) {
			return
		}
	}
}

// children returns the names of the znodes beside the one that is kept.
func children(tb testing.TB, client *framework.Framework) []string {
	tb.Helper()
	parent, _ := framework.SplitPath(path)
	names, err := client.Children(zktest.Context(tb), parent)
	if !errors.Is(err, framework.ErrNoNode) { // the server removes a container that is empty
		require.NoError(tb, err)
	}
	return names
}

// countRequests counts the requests of a type from now on.
func countRequests(tb testing.TB, server *zkserver.Server, op zkserver.OpCode) *atomic.Int64 {
	tb.Helper()
	var n atomic.Int64
	tb.Cleanup(server.Intercept(func(r zkserver.Request) zkserver.Fault {
		if r.Op == op {
			n.Add(1)
		}
		return zkserver.Pass
	}))
	return &n
}
