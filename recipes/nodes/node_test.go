// SPDX-License-Identifier: Apache-2.0

package nodes_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/nodes"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/testing/ensemble"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// kindOfNode is one way to make a node.
type kindOfNode struct {
	name      string
	mode      framework.CreateMode
	opts      []nodes.Option
	ephemeral bool
}

func everyKind() []kindOfNode {
	protection := []nodes.Option{nodes.WithProtection()}
	ttl := nodes.WithTTL(time.Hour)
	return []kindOfNode{
		{"ephemeral", framework.Ephemeral, nil, true},
		{"ephemeral sequential", framework.EphemeralSequential, nil, true},
		{"protected ephemeral", framework.Ephemeral, protection, true},
		{"protected ephemeral sequential", framework.EphemeralSequential, protection, true},
		{"persistent", framework.Persistent, nil, false},
		{"persistent sequential", framework.PersistentSequential, nil, false},
		{"protected persistent", framework.Persistent, protection, false},
		{"protected persistent sequential", framework.PersistentSequential, protection, false},
		{"container", framework.Container, nil, false},
		{"with time to live", framework.PersistentWithTTL, []nodes.Option{ttl}, false},
		{"sequential with time to live", framework.PersistentSequentialWithTTL, []nodes.Option{ttl, protection[0]}, false},
	}
}

// eachKind runs a test for each kind on the embedded server, and for the
// ephemeral ones on each backend.
func eachKind(t *testing.T, test func(t *testing.T, client *framework.Framework, kind kindOfNode)) {
	for _, kind := range everyKind() {
		t.Run(kind.name, func(t *testing.T) {
			if kind.ephemeral {
				zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
					test(t, zktest.Client(t, server), kind)
				})
				return
			}
			server := zktest.NewServer(t)
			t.Cleanup(func() { zktest.AssertClean(t, server) })
			test(t, zktest.Client(t, server), kind)
		})
	}
}

func TestNodeDeletedNodeComesBackUnderItsName(t *testing.T) {
	eachKind(t, func(t *testing.T, client *framework.Framework, kind kindOfNode) {
		node := started(t, client, kind.mode, kind.opts...)
		name := node.ActualPath()
		changes := changesOf(t, node)
		for range 3 {
			require.NoError(t, client.Delete(zktest.Context(t), name))

			require.Equal(t, nodes.Change{Path: name, Err: nodes.ErrDeleted}, zktest.Await(t, changes, "the disappearance"))
			require.Equal(t, nodes.Change{Path: name, Present: true}, zktest.Await(t, changes, "the creation"))
			_, last := framework.SplitPath(name)
			require.Equal(t, []string{last}, children(t, client))
		}
		require.Equal(t, "first", string(must.Get(client.Get(zktest.Context(t), name))(t)))
		require.NoError(t, node.Close())
		require.Empty(t, children(t, client))
	})
}

// A client that sees a sequential znode does not see the one that its number is from.
func TestNodeDrawnNumberIsOfTheZnodeAlone(t *testing.T) {
	server := zktest.NewServer(t)
	client := zktest.Client(t, server)
	late := make(chan struct{})
	defer close(late)
	server.Intercept(func(r zkserver.Request) zkserver.Fault {
		if r.Op == zkserver.OpDelete {
			return zkserver.HoldUntil(late)
		}
		return zkserver.Pass
	})

	node := started(t, client, framework.EphemeralSequential)

	_, name := framework.SplitPath(node.ActualPath())
	require.Equal(t, []string{name}, children(t, client))
}

// sessions is how many sessions of a node's client end.
func sessions(kind kindOfNode) int {
	if kind.ephemeral {
		return 2
	}
	return 1
}

// CURATOR-190: each creation adds a prefix to the name.
// CURATOR-483: the number changes with the session.
func TestNodeOutlivesItsSessions(t *testing.T) {
	eachKind(t, func(t *testing.T, client *framework.Framework, kind kindOfNode) {
		node := started(t, client, kind.mode, kind.opts...)
		name := node.ActualPath()
		for range sessions(kind) {
			old := client.Session().ID()
			zktest.KillSession(t, client)

			awaitNode(t, client, name, func(data []byte, stat *framework.Stat) bool {
				return stat != nil && stat.EphemeralOwner != old && string(data) == "first"
			})
			require.Equal(t, name, node.ActualPath())
			require.Len(t, children(t, client), 1)
		}
		require.NoError(t, node.SetData(zktest.Context(t), []byte("second")))
		require.NoError(t, node.Close())
		require.Empty(t, children(t, client))
	})
}

func TestNodeNames(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	node := started(t, client, framework.EphemeralSequential)
	require.Regexp(t, `^/nodes/a\d{10}$`, node.ActualPath())
	require.NoError(t, node.Close())
	node = started(t, client, framework.EphemeralSequential, nodes.WithProtection())
	require.Regexp(t, `^/nodes/_c_.{36}-a\d{10}$`, node.ActualPath())
	require.True(t, framework.IsProtectedName(node.ActualPath()))
	require.Equal(t, path, node.Path())
}

// CURATOR-154: the data is not written when the node exists.
func TestNodeDataOfANodeThatExistsIsSet(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		client := zktest.Client(t, server)
		must.Get(client.Create(zktest.Context(t), path, []byte("other"), framework.CreatingParentsIfNeeded()))(t)

		started(t, client, framework.Persistent)

		awaitNode(t, client, path, func(data []byte, _ *framework.Stat) bool { return string(data) == "first" })
	})
}

// CURATOR-241: a reconnect brings older data back.
func TestDataSetWhileTheConnectionIsLostIsWritten(t *testing.T) {
	server := zktest.NewServer(t)
	client := zktest.Client(t, server)
	node := started(t, client, framework.Ephemeral)
	require.NoError(t, server.Stop())
	zktest.AwaitState(t, client, framework.Suspended, framework.Lost)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()

	require.ErrorIs(t, node.SetData(ctx, []byte("second")), context.Canceled)
	require.NoError(t, server.Restart())

	awaitNode(t, client, path, func(data []byte, _ *framework.Stat) bool { return string(data) == "second" })
}

func TestNodeLeftOverFromAnEarlierProcessIsReplaced(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		client, earlier := zktest.Client(t, server), zktest.Client(t, server)
		must.Get(earlier.Create(zktest.Context(t), path, []byte("first"),
			framework.WithMode(framework.Ephemeral), framework.CreatingParentsIfNeeded()))(t)

		started(t, client, framework.Ephemeral)

		awaitNode(t, client, path, func(_ []byte, stat *framework.Stat) bool {
			return stat != nil && stat.EphemeralOwner == client.Session().ID()
		})
	})
}

// TestNodeReplacesItsZnodeOfASessionThatTheClientHasLost, although the server still has it.
func TestNodeReplacesItsZnodeOfASessionThatTheClientHasLost(t *testing.T) {
	inFakeTime(t, func(t *testing.T, server *zkserver.Server, client *framework.Framework) {
		node := started(t, client, framework.Ephemeral)
		synctest.Wait() // it has looked at its znode
		old := client.Session().ID()
		server.Intercept(zkserver.Nth(1, zkserver.OpCreateSession, zkserver.FailWith(-112)))
		server.Cut(old, 1)
		time.Sleep(2 * time.Second)

		require.NoError(t, node.Err())
		stat := must.Get(client.Exists(t.Context(), path))(t)
		require.NotEqual(t, old, stat.EphemeralOwner)
		require.Equal(t, client.Session().ID(), stat.EphemeralOwner)
		require.True(t, server.KillSession(old), "it was alive")
	})
}

func TestNodeThatMayNotReplaceWhatIsLeftOverSaysSo(t *testing.T) {
	inFakeTime(t, func(t *testing.T, server *zkserver.Server, client *framework.Framework) {
		must.Get(zktest.Client(t, server).Create(t.Context(), path, nil, framework.WithMode(framework.Ephemeral), framework.CreatingParentsIfNeeded()))(t)
		refused := true
		server.Intercept(func(r zkserver.Request) zkserver.Fault {
			if r.Op == zkserver.OpMulti && refused {
				return zkserver.FailWith(-102) // NoAuth
			}
			return zkserver.Pass
		})
		node := newNode(t, client, framework.Ephemeral)
		require.NoError(t, node.Start())

		require.ErrorIs(t, node.WaitForInitialCreate(t.Context()), framework.ErrNoAuth)

		refused = false
	})
}

// Servers that were restored have older data, or the same.
func TestNodeDataIsWrittenAgainAfterARestore(t *testing.T) {
	for backedUp, writes := range map[string]int64{"older": 1, "newest": 0} {
		inFakeTime(t, func(t *testing.T, server *zkserver.Server, client *framework.Framework) {
			node := started(t, client, framework.Persistent)
			require.NoError(t, node.SetData(t.Context(), []byte(backedUp)))
			backup := server.Backup()
			require.NoError(t, node.SetData(t.Context(), []byte("newest")))
			reads, sets := countRequests(t, server, zkserver.OpGetData), countRequests(t, server, zkserver.OpSetData)
			session := client.Session()
			require.NoError(t, server.Stop())
			require.NoError(t, server.Restore(backup, 0))
			require.NoError(t, server.Restart())

			zktest.Await(t, session.Done(), "the end of the session")
			time.Sleep(time.Minute)

			require.Equal(t, writes, sets.Load())
			require.Equal(t, int64(1), reads.Load())
			require.Equal(t, "newest", string(must.Get(client.Get(t.Context(), path))(t)))
		})
	}
}

// The deletion and the creation of another client come before this one looks, as in one transaction.
func TestNodeReplacedByAnotherClientHasItsOwnDataAgain(t *testing.T) {
	for _, mode := range []framework.CreateMode{framework.Persistent, framework.PersistentSequential, framework.Container} {
		inFakeTime(t, func(t *testing.T, _ *zkserver.Server, client *framework.Framework) {
			accepts, edits := editing()
			node := started(t, client, mode, accepts)
			time.Sleep(time.Second)
			changes, at := changesOf(t, node), node.ActualPath()
			must.Get(client.Transact(t.Context(), framework.DeleteOp(at), framework.CreateOp(at, []byte("theirs"))))(t)
			time.Sleep(time.Minute)

			require.Equal(t, "first", string(must.Get(client.Get(t.Context(), at))(t)))
			require.Equal(t, nodes.Change{Path: at, Err: nodes.ErrDeleted}, zktest.Await(t, changes, "the deletion"))
			require.Equal(t, nodes.Change{Path: at, Present: true}, zktest.Await(t, changes, "the creation"))
			require.Empty(t, changes)
			require.Empty(t, edits, "a znode of another client's is no edit")
		})
	}
}

func TestCloseThatIsRefusedSaysSoAndAsksNoMore(t *testing.T) {
	inFakeTime(t, func(t *testing.T, server *zkserver.Server, client *framework.Framework) {
		protectedFolder(t, client, framework.PermAll&^framework.PermDelete)
		node := must.Get(nodes.NewPersistentNode(client, path, framework.Persistent, nil))(t)
		require.NoError(t, node.Start())
		require.NoError(t, node.WaitForInitialCreate(t.Context()))
		deletions := countRequests(t, server, zkserver.OpDelete)

		require.ErrorIs(t, node.Close(), framework.ErrNoAuth)

		time.Sleep(time.Hour)
		require.Equal(t, int64(1), deletions.Load())
	})
}

// TestNodeReplacesItsRestoredCopy: tools restore a tree with persistent znodes. Another persistent znode is left alone.
func TestNodeReplacesItsRestoredCopy(t *testing.T) {
	for name, c := range map[string]struct {
		data, there string
		child, own  bool
	}{
		"its own": {data: "mine", there: "mine", own: true}, "another": {data: "mine", there: "mine too"},
		"one that says nothing": {}, "one with a child": {data: "mine", there: "mine", child: true},
	} {
		t.Run(name, func(t *testing.T) {
			server := zktest.NewServer(t)
			client, other := zktest.Client(t, server), zktest.Client(t, server)
			must.Get(other.Create(t.Context(), "/n", []byte(c.there)))(t)
			if c.child {
				must.Get(other.Create(t.Context(), "/n/child", nil))(t)
			}
			node := must.Get(nodes.NewPersistentNode(client, "/n", framework.Ephemeral, []byte(c.data)))(t)
			changes := make(chan nodes.Change, 100)
			node.OnChange(func(c nodes.Change) { changes <- c })
			require.NoError(t, node.Start())
			change := zktest.Await(t, changes, "the first change")
			stat := must.Get(other.Exists(t.Context(), "/n"))(t)
			if c.own {
				require.True(t, change.Present, "%v", change.Err)
				require.Equal(t, client.Session().ID(), stat.EphemeralOwner)
			} else {
				require.ErrorIs(t, change.Err, nodes.ErrTaken)
				require.Zero(t, stat.EphemeralOwner)
			}
			require.NoError(t, node.Close())
			stat = must.Get(other.Exists(t.Context(), "/n"))(t)
			require.Equal(t, c.own, stat == nil)
		})
	}
}

func TestNodeThatAnotherClientHasTakenIsLeftAlone(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		client, other := zktest.Client(t, server), zktest.Client(t, server)
		node := started(t, client, framework.Ephemeral)
		changes := changesOf(t, node)

		must.Get(other.Transact(zktest.Context(t), framework.DeleteOp(path),
			framework.CreateOp(path, []byte("other"), framework.WithMode(framework.Ephemeral))))(t)

		require.ErrorIs(t, zktest.Await(t, changes, "the disappearance").Err, nodes.ErrDeleted)
		require.ErrorIs(t, zktest.Await(t, changes, "the conflict").Err, nodes.ErrTaken)
		require.ErrorIs(t, node.Err(), nodes.ErrTaken)
		require.ErrorContains(t, node.Err(), fmt.Sprintf("session 0x%x", other.Session().ID()))
		require.Equal(t, "other", string(must.Get(other.Get(zktest.Context(t), path))(t)))
		require.NoError(t, other.Delete(zktest.Context(t), path))
		require.Equal(t, nodes.Change{Path: path, Present: true}, zktest.Await(t, changes, "the return"))
		require.NoError(t, node.Err())
	})
}

func TestNodeTwoNodesOfOneNameDoNotFight(t *testing.T) {
	server := zktest.NewServer(t)
	first := started(t, zktest.Client(t, server), framework.Ephemeral)
	changes := changesOf(t, first)

	second := started(t, zktest.Client(t, server), framework.Ephemeral)

	require.ErrorIs(t, zktest.Await(t, changes, "the disappearance").Err, nodes.ErrDeleted)
	require.ErrorIs(t, zktest.Await(t, changes, "the conflict").Err, nodes.ErrTaken)
	require.NoError(t, second.Err())
	require.NoError(t, first.Close())
	require.NoError(t, second.SetData(zktest.Context(t), []byte("still there")))
	require.NoError(t, second.Err(), "the close of the first one has deleted nothing")
}

// protectedFolder creates the parent of the nodes so that it may not be changed
// by this client.
func protectedFolder(t *testing.T, client *framework.Framework, perms int32) {
	t.Helper()
	must.Get(client.Create(zktest.Context(t), "/nodes", nil, framework.CreatingParentsIfNeeded(),
		framework.WithACL(framework.ACL{Perms: perms, Scheme: "world", ID: "anyone"})))(t)
}

// A quota, or an error inside a server, ends without an event.
func TestNodeRefusedCreationIsTriedAgainAfterAPause(t *testing.T) {
	for _, code := range []int32{-125, -1} {
		inFakeTime(t, func(t *testing.T, server *zkserver.Server, client *framework.Framework) {
			node := newNode(t, client, framework.Ephemeral)
			changes := changesOf(t, node)
			left := 3
			server.Intercept(func(r zkserver.Request) zkserver.Fault {
				if left == 0 || r.Path != path {
					return zkserver.Pass
				}
				left--
				return zkserver.FailWith(code)
			})
			require.NoError(t, node.Start())

			require.Error(t, zktest.Await(t, changes, "the refusal").Err)
			require.Equal(t, nodes.Change{Path: path, Present: true}, zktest.Await(t, changes, "the znode"))
			require.NoError(t, node.Err())
		})
	}
}

func TestNodeRefusedWriteIsTriedAgainAfterAPause(t *testing.T) {
	const quotaExceeded = -125
	inFakeTime(t, func(t *testing.T, server *zkserver.Server, client *framework.Framework) {
		node := started(t, client, framework.Ephemeral)
		changes := changesOf(t, node)
		began, left := time.Now(), 5
		server.Intercept(func(r zkserver.Request) zkserver.Fault {
			if left == 0 || r.Op != zkserver.OpSetData {
				return zkserver.Pass
			}
			left--
			return zkserver.FailWith(quotaExceeded)
		})

		err := node.SetData(t.Context(), []byte("second"))

		require.ErrorContains(t, err, "quota")
		require.Error(t, zktest.Await(t, changes, "the refusal").Err)
		require.Equal(t, nodes.Change{Path: path, Present: true}, zktest.Await(t, changes, "the end of the trouble"))
		require.GreaterOrEqual(t, time.Since(began), 3*time.Second, "each pause is twice the one before")
		require.Equal(t, "second", string(must.Get(client.Get(t.Context(), path))(t)))
	})
}

// CURATOR-228: a creation or a write without permission is repeated without end.
func TestNodeMissingPermissionToCreateIsReportedOnce(t *testing.T) {
	inFakeTime(t, func(t *testing.T, server *zkserver.Server, client *framework.Framework) {
		protectedFolder(t, client, framework.PermRead|framework.PermAdmin)
		node := newNode(t, client, framework.Ephemeral)
		changes := changesOf(t, node)
		creations := countRequests(t, server, zkserver.OpCreate2)
		require.NoError(t, node.Start())

		require.ErrorIs(t, node.WaitForInitialCreate(t.Context()), framework.ErrNoAuth)
		require.ErrorIs(t, node.Err(), framework.ErrNoAuth)
		require.ErrorIs(t, zktest.Await(t, changes, "the report").Err, framework.ErrNoAuth)
		time.Sleep(time.Hour)
		require.Equal(t, int64(1), creations.Load(), "it is not tried again and again")
		require.Empty(t, changes)

		require.NoError(t, client.SetACL(t.Context(), "/nodes", []framework.ACL{{Perms: framework.PermAll, Scheme: "world", ID: "anyone"}}))
		server.Cut(client.Session().ID(), 1)
		require.Equal(t, nodes.Change{Path: path, Present: true}, zktest.Await(t, changes, "the creation after the reconnect"))
		require.NoError(t, node.Err())
	})
}

func TestNodeMissingPermissionToWriteIsReportedAndTheNodeKept(t *testing.T) {
	server := zktest.NewServer(t)
	client := zktest.Client(t, server)
	readOnly := nodes.WithACL(framework.ACL{Perms: framework.PermRead | framework.PermDelete, Scheme: "world", ID: "anyone"})
	node := started(t, client, framework.Ephemeral, readOnly)
	changes := changesOf(t, node)

	require.ErrorIs(t, node.SetData(zktest.Context(t), []byte("second")), framework.ErrNoAuth)

	refused := zktest.Await(t, changes, "the report")
	require.ErrorIs(t, refused.Err, framework.ErrNoAuth)
	require.True(t, refused.Present, "the znode still stands")
	require.NoError(t, client.Delete(zktest.Context(t), path))
	require.ErrorIs(t, zktest.Await(t, changes, "the disappearance").Err, nodes.ErrDeleted)
	require.Equal(t, nodes.Change{Path: path, Present: true}, zktest.Await(t, changes, "the creation"))
	require.Equal(t, "second", string(must.Get(client.Get(zktest.Context(t), path))(t)), "a creation takes no permission to write")
}

func TestWithoutParentsTheNodeWaitsForThem(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	node := newNode(t, client, framework.Ephemeral, nodes.WithoutParents())
	changes := changesOf(t, node)
	require.NoError(t, node.Start())
	require.ErrorIs(t, zktest.Await(t, changes, "the report").Err, framework.ErrNoNode)
	require.Nil(t, children(t, client))

	must.Get(client.Create(zktest.Context(t), "/nodes", nil))(t)

	require.NoError(t, node.WaitForInitialCreate(zktest.Context(t)))
}

func TestNodeQuickCloseLeavesNothing(t *testing.T) {
	eachKind(t, func(t *testing.T, client *framework.Framework, kind kindOfNode) {
		for range 5 {
			node := newNode(t, client, kind.mode, kind.opts...)
			require.NoError(t, node.Start())
			require.NoError(t, node.Close())
			require.Eventually(t, func() bool { return len(children(t, client)) == 0 }, limit, time.Millisecond)
		}
	})
}

// beforeCompression is a compression provider that calls its function before each write.
type beforeCompression struct {
	framework.GzipCompressionProvider
	call func()
}

func (p beforeCompression) Compress(path string, data []byte) ([]byte, error) {
	p.call()
	return p.GzipCompressionProvider.Compress(path, data)
}

// A Close that ends a write before it is sent is no failure of the node: it is neither logged nor reported.
func TestNodeQuickCloseDuringAWriteIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var node *nodes.PersistentNode
		var written atomic.Int32
		closed := make(chan error, 1)
		provider := beforeCompression{call: func() {
			if written.Add(1) == 2 { // the first one is the creation
				go func() { closed <- node.Close() }()
				synctest.Wait()
			}
		}}
		client := zktest.Client(t, zktest.NewServer(t, zkserver.WithoutListener()),
			framework.WithCompression(), framework.WithCompressionProvider(provider))
		node = started(t, client, framework.Persistent)
		changes := changesOf(t, node)

		require.ErrorIs(t, node.SetData(zktest.Context(t), []byte("b")), nodes.ErrClosed)

		require.NoError(t, <-closed)
		synctest.Wait()
		require.Empty(t, changes)
	})
}

// inTheWay are the znodes that are at the path of a node before it first stands, and that it leaves alone.
var inTheWay = []struct {
	name   string
	mode   framework.CreateMode // of the znode
	ofNode []framework.CreateMode
}{
	{"persistent", framework.Persistent, []framework.CreateMode{framework.Ephemeral}},
	{"container", framework.Container, []framework.CreateMode{framework.Ephemeral}},
	{"ephemeral", framework.Ephemeral, []framework.CreateMode{framework.Persistent, framework.Container, framework.PersistentWithTTL}},
}

// featureOf has the modes that not every server has.
var featureOf = map[framework.CreateMode]ensemble.Feature{
	framework.Container: ensemble.Containers, framework.PersistentWithTTL: ensemble.TTLNodes,
}

// eachInTheWay runs a test for each node that finds a znode of another kind in its place.
func eachInTheWay(t *testing.T, test func(t *testing.T, other *framework.Framework, node *nodes.PersistentNode)) {
	for _, there := range inTheWay {
		for _, mode := range there.ofNode {
			t.Run(fmt.Sprintf("%s, a node of mode %d", there.name, mode), func(t *testing.T) {
				zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
					for _, m := range []framework.CreateMode{mode, there.mode} {
						if feature, special := featureOf[m]; special {
							server.Requires(t, feature)
						}
					}
					client, other := zktest.Client(t, server), zktest.Client(t, server)
					must.Get(other.Create(zktest.Context(t), path, []byte("theirs"),
						framework.WithMode(there.mode), framework.CreatingParentsIfNeeded()))(t)
					var opts []nodes.Option
					if mode == framework.PersistentWithTTL {
						opts = append(opts, nodes.WithTTL(time.Hour))
					}
					test(t, other, newNode(t, client, mode, opts...))
				})
			})
		}
	}
}

// requireTheirs checks that the znode of another client is as it was.
func requireTheirs(t *testing.T, other *framework.Framework, at string) {
	t.Helper()
	stat := new(framework.Stat)
	require.Equal(t, "theirs", string(must.Get(other.Get(zktest.Context(t), at, framework.StoringStatIn(stat)))(t)))
	require.Zero(t, stat.Version)
}

func TestNodeReplacesNothingOfAnotherKind(t *testing.T) {
	t.Parallel()
	eachInTheWay(t, func(t *testing.T, other *framework.Framework, node *nodes.PersistentNode) {
		changes := changesOf(t, node)
		require.NoError(t, node.Start())

		require.ErrorIs(t, zktest.Await(t, changes, "the conflict").Err, nodes.ErrTaken)
		require.ErrorIs(t, node.Err(), nodes.ErrTaken)
		requireTheirs(t, other, path)
		require.NoError(t, other.Delete(zktest.Context(t), path))

		require.Equal(t, nodes.Change{Path: path, Present: true}, zktest.Await(t, changes, "the creation"))
		awaitNode(t, other, path, func(data []byte, _ *framework.Stat) bool { return string(data) == "first" })
		require.NoError(t, node.Close())
		require.Empty(t, children(t, other))
	})
}

func TestCloseDeletesNothingOfAnotherKind(t *testing.T) {
	t.Parallel()
	eachInTheWay(t, func(t *testing.T, other *framework.Framework, node *nodes.PersistentNode) {
		changes := changesOf(t, node)
		require.NoError(t, node.Start())
		require.ErrorIs(t, zktest.Await(t, changes, "the conflict").Err, nodes.ErrTaken)

		require.NoError(t, node.Close())

		requireTheirs(t, other, path)
	})
}

// The znode is of a live client, or goes with the session of the process before.
func TestNodeQuickCloseDeletesNothingOfAnotherSession(t *testing.T) {
	t.Parallel()
	server := zktest.NewServer(t)
	client, other := zktest.Client(t, server), zktest.Client(t, server)
	must.Get(other.Create(zktest.Context(t), path, []byte("theirs"),
		framework.WithMode(framework.Ephemeral), framework.CreatingParentsIfNeeded()))(t)
	refuse := server.Intercept(func(r zkserver.Request) zkserver.Fault {
		if r.Op == zkserver.OpCreate2 {
			return zkserver.FailWith(-4)
		}
		return zkserver.Pass
	})
	node := newNode(t, client, framework.Ephemeral)
	require.NoError(t, node.Start())
	require.NoError(t, node.Close())
	refuse()

	requireTheirs(t, other, path)
}

// TestCloseAtAZnodeThatItMayNotRead of another client: to ZooKeeper 3.8.0 it exists for all, so it is not this one's. Later
// versions do not say so to this client, and neither does Close.
func TestCloseAtAZnodeThatItMayNotRead(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		client := zktest.Client(t, server)
		other := zktest.Client(t, server, framework.WithAuth("digest", []byte("alice:secret")))
		must.Get(other.Create(zktest.Context(t), path, []byte("theirs"), framework.CreatingParentsIfNeeded(),
			framework.WithACL(framework.CreatorAllACL()...)))(t)
		_, hidden := client.Exists(zktest.Context(t), path)
		node := must.Get(nodes.NewPersistentNode(client, path, framework.Ephemeral, []byte("first")))(t)
		changes := changesOf(t, node)
		require.NoError(t, node.Start())
		require.ErrorIs(t, zktest.Await(t, changes, "the conflict").Err, framework.ErrNoAuth)

		err := node.Close()

		if hidden == nil {
			require.NoError(t, err)
		} else {
			require.ErrorIs(t, err, framework.ErrNoAuth)
		}
		requireTheirs(t, other, path)
	})
}

// A znode made by name has the number that the server gives next.
func TestSequentialNodeDrawsAnotherNumberWhenItsOwnIsTaken(t *testing.T) {
	t.Parallel()
	for _, mode := range []framework.CreateMode{framework.PersistentSequential, framework.EphemeralSequential} {
		t.Run(fmt.Sprint(mode), func(t *testing.T) {
			zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
				client, other := zktest.Client(t, server), zktest.Client(t, server)
				must.Get(other.Create(zktest.Context(t), path+"0000000001", []byte("theirs"), framework.CreatingParentsIfNeeded()))(t)

				node := started(t, client, mode)

				require.NotEqual(t, path+"0000000001", node.ActualPath())
				require.Equal(t, "first", string(must.Get(other.Get(zktest.Context(t), node.ActualPath()))(t)))
				require.NoError(t, node.Close())
				requireTheirs(t, other, path+"0000000001")
				require.Eventually(t, func() bool { return len(children(t, other)) == 1 }, limit, time.Millisecond, "it is deleted in the background")
			})
		})
	}
}

// A persistent znode names no owner, so it may be the znode of an earlier process.
func TestNodeQuickCloseRemovesThePersistentZnodeThatWasThere(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		client := zktest.Client(t, server)
		must.Get(client.Create(zktest.Context(t), path, nil, framework.CreatingParentsIfNeeded()))(t)
		node := newNode(t, client, framework.Persistent)
		require.NoError(t, node.Start())

		require.NoError(t, node.Close())

		require.Empty(t, children(t, client))
	})
}

// The two seconds without a connection are counted for each outage.
func TestCloseWaitsInEachOutage(t *testing.T) {
	inFakeTime(t, func(t *testing.T, server *zkserver.Server, client *framework.Framework) {
		node := started(t, client, framework.Persistent)
		require.NoError(t, server.Stop())
		time.Sleep(time.Minute)
		require.NoError(t, server.Restart())
		require.NoError(t, client.BlockUntilConnected(t.Context()))
		time.Sleep(time.Minute)
		require.NoError(t, server.Stop())
		synctest.Wait()
		closed := make(chan error, 1)
		go func() { closed <- node.Close() }()
		time.Sleep(time.Second)

		require.NoError(t, server.Restart())

		require.NoError(t, <-closed)
		require.Empty(t, children(t, client))
	})
}

func TestNodeEndOfTheClientEndsTheNode(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	node := started(t, client, framework.Ephemeral)

	require.NoError(t, client.Close())

	require.NoError(t, node.Close())
	require.ErrorIs(t, node.SetData(zktest.Context(t), nil), nodes.ErrClosed)
	require.ErrorIs(t, node.WaitForInitialCreate(zktest.Context(t)), nodes.ErrClosed)
}

// The client is closed while the node is kept, or while the data is on its way.
func TestSetDataFailsOnceTheClientIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		client := zktest.Client(t, server)
		node := started(t, client, framework.Ephemeral)
		server.Intercept(zkserver.Nth(1, zkserver.OpSetData, zkserver.NeverAnswer))
		underWay := make(chan error, 1)
		go func() { underWay <- node.SetData(zktest.Context(t), []byte("a")) }()
		synctest.Wait()

		require.Error(t, client.Close(), "the server does not answer")

		require.ErrorIs(t, <-underWay, framework.ErrClosed)
		synctest.Wait()
		require.ErrorIs(t, node.SetData(zktest.Context(t), []byte("b")), framework.ErrClosed)
		require.ErrorIs(t, node.Err(), framework.ErrClosed)
		require.NoError(t, node.Close())
	})
}

func TestNodeBadInput(t *testing.T) {
	server := zktest.NewServer(t)
	client := zktest.Client(t, server)
	for what, test := range map[string]struct {
		path string
		mode framework.CreateMode
		opts []nodes.Option
		want string
	}{
		"path":         {"a", framework.Ephemeral, nil, `"a"`},
		"root":         {"/", framework.Ephemeral, nil, "path /"},
		"mode":         {path, 7, nil, "create mode 7"},
		"no ttl":       {path, framework.PersistentWithTTL, nil, "expected WithTTL"},
		"ttl":          {path, framework.Ephemeral, []nodes.Option{nodes.WithTTL(time.Hour)}, "expected WithTTL"},
		"negative ttl": {path, framework.PersistentWithTTL, []nodes.Option{nodes.WithTTL(-1)}, "expected 1ms to"},
		"late ttl":     {path, framework.PersistentWithTTL, []nodes.Option{nodes.WithTTL(1 << 62)}, "expected 1ms to"},
		"acl":          {path, framework.Ephemeral, []nodes.Option{nodes.WithACL()}, "WithACL()"},
		"nil option":   {path, framework.Ephemeral, []nodes.Option{nil}, "nil option"},
	} {
		t.Run(what, func(t *testing.T) {
			_, err := nodes.NewPersistentNode(client, test.path, test.mode, nil, test.opts...)
			require.ErrorContains(t, err, test.want)
			require.True(t, strings.HasPrefix(err.Error(), "nodes: "), err)
		})
	}
	_, err := nodes.NewPersistentNode(nil, path, framework.Ephemeral, nil)
	require.ErrorContains(t, err, "client nil")
	node := newNode(t, client, framework.Ephemeral)
	require.ErrorIs(t, node.WaitForInitialCreate(zktest.Context(t)), nodes.ErrNotStarted)
	require.ErrorIs(t, node.Err(), nodes.ErrNotStarted)
	require.NoError(t, node.Start())
	require.ErrorContains(t, node.Start(), "started already")
	require.ErrorContains(t, node.SetData(nil, nil), "context nil") //nolint:staticcheck // on purpose
	require.NoError(t, node.Close())
	require.ErrorIs(t, node.Start(), nodes.ErrClosed)
}

// A node keeps the list that it was given, whatever the caller does to its slice.
func TestNodeKeepsItsACL(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	acl := []framework.ACL{{Perms: framework.PermAll, Scheme: "world", ID: "anyone"}}
	node := must.Get(nodes.NewPersistentNode(client, path, framework.Ephemeral, nil, nodes.WithACL(acl...)))(t)
	acl[0].Perms = framework.PermRead
	require.NoError(t, node.Start())
	defer func() { require.NoError(t, node.Close()) }()
	require.NoError(t, node.WaitForInitialCreate(zktest.Context(t)))
	got := must.Get(client.GetACL(zktest.Context(t), path))(t)
	require.Equal(t, []framework.ACL{{Perms: framework.PermAll, Scheme: "world", ID: "anyone"}}, got)
}

// panickyACLs panics when it is first asked for the list of a znode.
type panickyACLs struct{ panicked atomic.Bool }

func (*panickyACLs) DefaultACL() []framework.ACL { return nil }

func (p *panickyACLs) ACLForPath(asked string) []framework.ACL {
	if asked == path && p.panicked.CompareAndSwap(false, true) {
		panic("the user's own fault")
	}
	return nil
}

// A panic of user code on the goroutine of a node would end the process.
func TestNodePanicOfUserCodeIsReportedAndTheNodeKept(t *testing.T) {
	acls := new(panickyACLs)
	client := zktest.Client(t, zktest.NewServer(t), framework.WithACLProvider(acls))
	node := newNode(t, client, framework.Ephemeral)
	changes := changesOf(t, node)
	require.NoError(t, node.Start())

	require.ErrorContains(t, zktest.Await(t, changes, "the report").Err, "user code panicked: the user's own fault")
	require.Equal(t, nodes.Change{Path: path, Present: true}, zktest.Await(t, changes, "the creation"))
	require.NoError(t, node.Err())
}

// A server that lags behind does not show a creation whose reply was lost. Nor does a leader that is cut off, although it answers a sync.
func TestCloseFindsANodeThatItsServerDoesNotShowYet(t *testing.T) {
	server := zktest.NewServer(t)
	client, other := zktest.Client(t, server), zktest.Client(t, server)
	require.NoError(t, other.Mkdirs(zktest.Context(t), "/services"))
	var lags atomic.Bool
	server.Intercept(func(r zkserver.Request) zkserver.Fault {
		switch {
		case r.SessionID != client.Session().ID():
		case r.Op == zkserver.OpCreate2:
			lags.Store(true)
			return zkserver.LoseReply
		case r.Op == zkserver.OpMulti:
			lags.Store(false)
		case lags.Load() && r.Op == zkserver.OpExists:
			return zkserver.FailWith(-101)
		}
		return zkserver.Pass
	})
	n := must.Get(nodes.NewPersistentNode(client, "/services/a", framework.Ephemeral, []byte("a")))(t)
	require.NoError(t, n.Start())
	zktest.AwaitEvent(t, server, func(e zkserver.Event) bool {
		return e.Request.Op == zkserver.OpCreate2 && e.Request.Path == "/services/a"
	})

	require.NoError(t, n.Close())

	require.Nil(t, must.Get(other.Exists(zktest.Context(t), "/services/a"))(t))
}

// Err is not nil while there is no znode, whatever the reason.
func TestErrSaysThatThereIsNoZnode(t *testing.T) {
	inFakeTime(t, func(t *testing.T, server *zkserver.Server, client *framework.Framework) {
		created := make(chan struct{})
		server.Intercept(func(r zkserver.Request) zkserver.Fault {
			if r.Path == path && r.Op != zkserver.OpDelete && r.Op != zkserver.OpExists {
				return zkserver.HoldUntil(created)
			}
			return zkserver.Pass
		})
		node := newNode(t, client, framework.Ephemeral)
		require.NoError(t, node.Start())
		synctest.Wait()
		require.ErrorIs(t, node.Err(), nodes.ErrNotCreated)
		close(created)
		synctest.Wait()
		require.NoError(t, node.Err())

		created = make(chan struct{})
		require.NoError(t, client.Delete(t.Context(), path))
		synctest.Wait()
		require.ErrorIs(t, node.Err(), nodes.ErrDeleted)
		close(created)
		synctest.Wait()
		require.NoError(t, node.Err())
		require.NoError(t, node.Close())
	})
}

// TestDataThatCanNeverBeWritten changes nothing: the znode comes back with the data before it.
func TestDataThatCanNeverBeWritten(t *testing.T) {
	server := zktest.NewServer(t)
	client, other := zktest.Client(t, server), zktest.Client(t, server)
	node := started(t, client, framework.Ephemeral)
	require.NoError(t, node.WaitForInitialCreate(zktest.Context(t)))
	require.NoError(t, node.SetData(zktest.Context(t), []byte("good")))
	large := make([]byte, client.MaxRequestSize())

	err := node.SetData(zktest.Context(t), large)

	require.ErrorIs(t, err, framework.ErrTooLarge)
	require.ErrorContains(t, err, node.Path())
	require.NoError(t, node.Err())
	require.Equal(t, "good", string(node.Data()))
	zktest.KillSession(t, client)
	require.Eventually(t, func() bool {
		data, err := other.Get(t.Context(), node.Path())
		return err == nil && string(data) == "good"
	}, limit, time.Millisecond)
	_, err = nodes.NewPersistentNode(client, "/x", framework.Ephemeral, large)
	require.ErrorIs(t, err, framework.ErrTooLarge)
}

// The requests of the outage have failed all the time, and the pauses between them have grown.
func TestNodeIsBackAsSoonAsItsClientIs(t *testing.T) {
	inFakeTime(t, func(t *testing.T, server *zkserver.Server, _ *framework.Framework) {
		client := zktest.Client(t, server, framework.WithConnectionTimeout(time.Second), framework.WithRetryPolicy(retry.None()))
		node := started(t, client, framework.Ephemeral)
		changes := changesOf(t, node)
		require.NoError(t, server.Stop())
		time.Sleep(5*time.Minute + 17*time.Second)
		require.NoError(t, server.Restart())

		require.NoError(t, client.BlockUntilConnected(t.Context()))
		back := time.Now()
		for c := range changes {
			if c.Present && c.Err == nil {
				break
			}
		}

		require.Less(t, time.Since(back), time.Second)
		require.NoError(t, node.Close())
	})
}

// A znode with children cannot be deleted. Close says so.
func TestCloseOfANodeWithChildrenSaysWhyItStays(t *testing.T) {
	inFakeTime(t, func(t *testing.T, _ *zkserver.Server, client *framework.Framework) {
		node := must.Get(nodes.NewPersistentNode(client, path, framework.Persistent, nil))(t)
		require.NoError(t, node.Start())
		require.NoError(t, node.WaitForInitialCreate(t.Context()))
		must.Get(client.Create(t.Context(), path+"/child", nil))(t)

		err := node.Close()

		require.ErrorIs(t, err, framework.ErrCleanupPending)
		require.ErrorIs(t, err, framework.ErrNotEmpty)
		require.NoError(t, client.Delete(t.Context(), path+"/child"))
		require.NoError(t, node.Close(), "the removal has gone on")
		require.Empty(t, children(t, client))
	})
}
