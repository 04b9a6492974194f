// SPDX-License-Identifier: Apache-2.0

package nodes_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/nodes"
	"github.com/gocurator/curator/testing/ensemble"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// inFakeTime runs a test with a server and a client on a clock that jumps.
func inFakeTime(t *testing.T, test func(t *testing.T, server *zkserver.Server, client *framework.Framework)) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener(), zkserver.WithContainerCheckInterval(time.Second))
		t.Cleanup(func() { zktest.AssertClean(t, server) })
		test(t, server, zktest.Client(t, server))
	})
}

func startedTTL(t *testing.T, client *framework.Framework, ttl time.Duration) *nodes.PersistentTtlNode {
	t.Helper()
	node := must.Get(nodes.NewPersistentTtlNode(client, path, ttl, []byte("first")))(t)
	t.Cleanup(func() { require.NoError(t, node.Close()) })
	require.NoError(t, node.Start())
	require.NoError(t, node.WaitForInitialCreate(t.Context()))
	return node
}

func TestTTLNodeStandsWhileItIsTouched(t *testing.T) {
	inFakeTime(t, func(t *testing.T, _ *zkserver.Server, client *framework.Framework) {
		node := startedTTL(t, client, 10*time.Second)
		changes := changesOf(t, node)
		time.Sleep(time.Hour)
		require.Empty(t, changes, "it has stood all the time")
		stat := must.Get(client.Exists(t.Context(), path))(t)
		require.NotNil(t, stat)
		require.Equal(t, int32(1), stat.NumChildren)

		require.NoError(t, node.Close())
		stat = must.Get(client.Exists(t.Context(), path))(t)
		require.NotNil(t, stat, "Close leaves it")

		time.Sleep(25 * time.Second)
		require.Empty(t, children(t, client))
	})
}

func TestTTLNodeSurvivesTheDeletionOfItsTouch(t *testing.T) {
	inFakeTime(t, func(t *testing.T, _ *zkserver.Server, client *framework.Framework) {
		node := startedTTL(t, client, 10*time.Second)
		synctest.Wait()
		for range 3 {
			require.NoError(t, client.Delete(t.Context(), path+"/touch"))
			time.Sleep(6 * time.Second)
			require.NotNil(t, must.Get(client.Exists(t.Context(), path+"/touch"))(t))
		}
		require.NoError(t, client.Delete(t.Context(), path, framework.DeletingChildrenIfNeeded()))
		time.Sleep(6 * time.Second)
		require.NotNil(t, must.Get(client.Exists(t.Context(), path+"/touch"))(t), "the znode and its touch are back")
		require.NoError(t, node.SetData(t.Context(), []byte("second")))
		require.Equal(t, "second", string(node.Data()))
	})
}

// CURATOR-545: a node that was never touched stays forever.
func TestTTLNodeThatWasNeverTouchedGoes(t *testing.T) {
	inFakeTime(t, func(t *testing.T, server *zkserver.Server, client *framework.Framework) {
		// Also after Close no touch may arrive: one that is repeated and then cleaned up
		// would make a container of the znode go as well.
		server.Intercept(func(r zkserver.Request) zkserver.Fault {
			if r.Op == zkserver.OpCreateTTL && r.Path == path+"/touch" {
				return zkserver.FailWith(-4)
			}
			return zkserver.Pass
		})
		require.NoError(t, startedTTL(t, client, 10*time.Second).Close())

		time.Sleep(15 * time.Second)

		require.Empty(t, children(t, client))
	})
}

// It stands while it is touched on real servers too, and they delete it afterwards.
func TestTTLNodeOnEachBackend(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		server.Requires(t, ensemble.TTLNodes)
		if server.Name() == "zkserver" { // one that looks for overdue znodes as often as the real one does here
			server = zktest.Embedded(zktest.NewServer(t, zkserver.WithContainerCheckInterval(200*time.Millisecond)))
		}
		client := zktest.Client(t, server)
		node := startedTTL(t, client, time.Second)
		for range 2 {
			awaitNode(t, client, path+"/touch", func(_ []byte, stat *framework.Stat) bool { return stat != nil })
			require.NoError(t, client.Delete(zktest.Context(t), path+"/touch"))
		}
		require.NoError(t, node.Close())
		awaitNode(t, client, path, func(_ []byte, stat *framework.Stat) bool { return stat == nil })
	})
}

func TestTTLNodeBadInput(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	_, err := nodes.NewPersistentTtlNode(client, path, 0, nil)
	require.ErrorContains(t, err, "expected 1ms to")
	_, err = nodes.NewPersistentTtlNode(client, path, time.Hour, nil, nodes.WithProtection())
	require.ErrorContains(t, err, "WithProtection")
}

// A touch that the server refuses is reported, and so is the end of that.
func TestTTLNodeRefusedTouchIsForgivenOnceItSucceeds(t *testing.T) {
	inFakeTime(t, func(t *testing.T, server *zkserver.Server, client *framework.Framework) {
		node := startedTTL(t, client, 10*time.Second)
		synctest.Wait()
		changes := changesOf(t, node)
		refused := false
		server.Intercept(func(r zkserver.Request) zkserver.Fault {
			// A refused create of what exists is followed by a write.
			if refused || !strings.HasSuffix(r.Path, nodes.DefaultTouchName) || r.Op == zkserver.OpExists {
				return zkserver.Pass
			}
			refused = r.Op == zkserver.OpSetData
			return zkserver.FailWith(-102) // NoAuth
		})

		require.ErrorIs(t, zktest.Await(t, changes, "the refusal").Err, framework.ErrNoAuth)

		require.Equal(t, nodes.Change{Path: path, Present: true}, zktest.Await(t, changes, "the next touch"))
		require.NoError(t, node.Err())
		time.Sleep(time.Second)
		looks := countRequests(t, server, zkserver.OpExists)
		time.Sleep(time.Minute)
		require.Zero(t, looks.Load(), "the keeper has nothing to find out")
	})
}

// A node that cannot be created says so once, however often it tries.
func TestTTLNodeThatIsRefusedSaysSoOnce(t *testing.T) {
	inFakeTime(t, func(t *testing.T, server *zkserver.Server, client *framework.Framework) {
		server.Intercept(func(r zkserver.Request) zkserver.Fault {
			if r.Path == path {
				return zkserver.FailWith(-102) // NoAuth
			}
			return zkserver.Pass
		})
		node := must.Get(nodes.NewPersistentTtlNode(client, path, time.Minute, nil))(t)
		changes := changesOf(t, node)
		require.NoError(t, node.Start())
		require.ErrorIs(t, zktest.Await(t, changes, "the refusal").Err, framework.ErrNoAuth)

		// The next server may grant it, so the node asks again. Now it asks whether its znode is there.
		require.Equal(t, 1, server.Cut(client.Session().ID(), 1))
		time.Sleep(time.Hour)
		require.Equal(t, framework.Reconnected, client.State())

		require.Empty(t, changes)
		require.ErrorIs(t, node.Err(), framework.ErrNoAuth)
		require.NoError(t, node.Close())
	})
}

// A Close between the two halves of a Start must not wait for a goroutine that nothing ends.
func TestTTLNodeIsClosedWhileItIsStarted(t *testing.T) {
	inFakeTime(t, func(t *testing.T, _ *zkserver.Server, client *framework.Framework) {
		for range 5000 {
			node := must.Get(nodes.NewPersistentTtlNode(client, path, 10*time.Second, nil))(t)
			began, started, closed := time.Now(), make(chan error, 1), make(chan error, 1)
			go func() { started <- node.Start() }()
			go func() { closed <- node.Close() }()
			if err := <-started; err != nil {
				require.ErrorIs(t, err, nodes.ErrClosed)
			}
			require.NoError(t, <-closed)
			require.Zero(t, time.Since(began))
		}
	})
}
