// SPDX-License-Identifier: Apache-2.0

package nodes_test

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/nodes"
	"github.com/gocurator/curator/testing/ensemble"
	"github.com/gocurator/curator/testing/zkproxy"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// scenarios are what Curator's own tests do, by the names of those tests. The
// defects are those of Curator that the scenario would show.
var scenarios = []struct {
	class, method string
	defect        string // what broke in Curator, "" for nothing known
	test          func(t *testing.T, server zktest.Backend)
}{
	{"TestPersistentEphemeralNode", "testRecreatesNodeWhenSessionReconnects", "", recreatedWhenTheSessionEnds(1)},
	{"TestPersistentEphemeralNode", "testRecreatesNodeWhenSessionReconnectsMultipleTimes", "", recreatedWhenTheSessionEnds(2)},
	{"TestPersistentEphemeralNode", "testRecreatesNodeWhenEphemeralOwnerSessionExpires", "", recreatedWhenItsOwnerExpires},
	{"TestPersistentEphemeralNode", "testRecreatesNodeWhenItGetsDeleted", "", recreatedWhenDeleted},
	{"TestPersistentEphemeralNode", "testSetDataWhenNodeExists", "CURATOR-154: the data was not written when the node existed", dataOfANodeThatExists},
	{"TestPersistentEphemeralNode", "testSetUpdatedDataWhenReconnected", "CURATOR-241: a reconnect brought older data back", dataAfterAReconnect},
	{"TestPersistentEphemeralNode", "testProtected", "CURATOR-190: each creation added a prefix to the name", protectedNameStays},
	{"TestPersistentEphemeralNode", "testNoCreatePermission", "CURATOR-228: a creation without permission was repeated without end", noCreatePermission},
	{"TestPersistentEphemeralNode", "testNoWritePermission", "CURATOR-228: a write without permission was repeated without end", noWritePermission},
	{"TestPersistentEphemeralNode", "testNoServerAtStart", "", noServerAtStart},
	{"TestPersistentNode", "testEphemeralSequentialWithProtectionReconnection", "CURATOR-483: the number changed with the session", numberStays},
	{"TestPersistentNode", "testQuickClose", "", quickClose},
	{"TestPersistentNode", "testQuickCloseNodeExists", "", quickCloseOfANodeThatExists},
	{"TestPersistentNode", "testRecreationWithParentCreationOff", "", recreationWithoutParents},
	{"TestPersistentTtlNode", "testBasic", "", ttlBasic},
	{"TestPersistentTtlNode", "testForcedDeleteOfTouchNode", "", ttlTouchDeleted},
	{"TestPersistentTtlNode", "testTouchNodeNotCreated", "CURATOR-545: a node that was never touched stayed forever", ttlNeverTouched},
	{"TestGroupMember", "testBasic", "", groupBasic},
}

// TestScenarios plays each scenario on the embedded server and on real ZooKeeper.
func TestScenarios(t *testing.T) {
	t.Parallel()
	for _, s := range scenarios {
		t.Run(s.class+"."+s.method, func(t *testing.T) {
			if s.defect != "" {
				t.Log("in Curator: " + s.defect)
			}
			zktest.EachBackend(t, s.test)
		})
	}
}

// TestScenariosAreComplete: the numbers of Curator's tests of this family.
func TestScenariosAreComplete(t *testing.T) {
	perClass, defects := map[string]int{}, 0
	for _, s := range scenarios {
		perClass[s.class]++
		if s.defect != "" {
			defects++
		}
	}
	require.Equal(t, map[string]int{
		"TestPersistentEphemeralNode": 10, "TestPersistentNode": 4, "TestPersistentTtlNode": 3, "TestGroupMember": 1,
	}, perClass)
	require.Equal(t, 7, defects)
}

// disconnect cuts the client off until the returned function is called.
func disconnect(t *testing.T, client *framework.Framework, link *zkproxy.Proxy) (reconnect func()) {
	t.Helper()
	link.Refuse(true)
	link.Cut()
	zktest.AwaitState(t, client, framework.Suspended, framework.Lost)
	return func() { link.Refuse(false) }
}

func recreatedWhenTheSessionEnds(times int) func(t *testing.T, server zktest.Backend) {
	return func(t *testing.T, server zktest.Backend) {
		client, witness := zktest.Client(t, server), zktest.Client(t, server)
		node := started(t, client, framework.Ephemeral)
		for range times {
			old := client.Session().ID()
			zktest.KillSession(t, client)
			awaitNode(t, witness, path, func(_ []byte, stat *framework.Stat) bool { return stat != nil && stat.EphemeralOwner != old })
		}
		require.NoError(t, node.Close())
		require.Empty(t, children(t, witness))
	}
}

// recreatedWhenItsOwnerExpires finds a znode of another session, which ends.
func recreatedWhenItsOwnerExpires(t *testing.T, server zktest.Backend) {
	earlier, client := zktest.Client(t, server), zktest.Client(t, server)
	started(t, earlier, framework.Ephemeral)
	node := started(t, client, framework.Ephemeral)
	owned := func(_ []byte, stat *framework.Stat) bool {
		return stat != nil && stat.EphemeralOwner == client.Session().ID()
	}
	awaitNode(t, client, path, owned)
	require.NoError(t, earlier.Close())
	require.NoError(t, node.SetData(zktest.Context(t), []byte("mine")))
	awaitNode(t, client, path, owned)
}

func recreatedWhenDeleted(t *testing.T, server zktest.Backend) {
	client, other := zktest.Client(t, server), zktest.Client(t, server)
	node := started(t, client, framework.Ephemeral)
	changes := changesOf(t, node)
	require.NoError(t, other.Delete(zktest.Context(t), path))
	require.ErrorIs(t, zktest.Await(t, changes, "the disappearance").Err, nodes.ErrDeleted)
	require.True(t, zktest.Await(t, changes, "the creation").Present)
	awaitNode(t, other, path, func(data []byte, _ *framework.Stat) bool { return string(data) == "first" })
}

func dataOfANodeThatExists(t *testing.T, server zktest.Backend) {
	client, other := zktest.Client(t, server), zktest.Client(t, server)
	_, err := other.Create(zktest.Context(t), path, []byte("older"), framework.CreatingParentsIfNeeded())
	require.NoError(t, err)
	started(t, client, framework.Persistent)
	awaitNode(t, other, path, func(data []byte, _ *framework.Stat) bool { return string(data) == "first" })
}

func dataAfterAReconnect(t *testing.T, server zktest.Backend) {
	client, link := zktest.ClientViaProxy(t, server)
	witness := zktest.Client(t, server)
	node := started(t, client, framework.Ephemeral)
	require.NoError(t, node.SetData(zktest.Context(t), []byte("second")))
	reconnect := disconnect(t, client, link)
	updated := make(chan error, 1)
	go func() { updated <- node.SetData(zktest.Context(t), []byte("third")) }()
	reconnect()
	require.NoError(t, zktest.Await(t, updated, "the update"))
	awaitNode(t, witness, path, func(data []byte, _ *framework.Stat) bool { return string(data) == "third" })
	zktest.KillSession(t, client, server.Addr())
	awaitNode(t, witness, path, func(data []byte, stat *framework.Stat) bool {
		return stat != nil && stat.EphemeralOwner == client.Session().ID() && string(data) == "third"
	})
}

func protectedNameStays(t *testing.T, server zktest.Backend) {
	client, witness := zktest.Client(t, server), zktest.Client(t, server)
	node := started(t, client, framework.Ephemeral, nodes.WithProtection())
	name := node.ActualPath()
	require.Regexp(t, `^/nodes/_c_[0-9a-f-]{36}-a$`, name)
	for range 2 {
		old := client.Session().ID()
		zktest.KillSession(t, client)
		awaitNode(t, witness, name, func(_ []byte, stat *framework.Stat) bool { return stat != nil && stat.EphemeralOwner != old })
		_, last := framework.SplitPath(name)
		require.Equal(t, []string{last}, children(t, witness))
	}
	require.Equal(t, name, node.ActualPath())
}

func noCreatePermission(t *testing.T, server zktest.Backend) {
	client := zktest.Client(t, server)
	protectedFolder(t, client, framework.PermRead|framework.PermAdmin)
	node := newNode(t, client, framework.Ephemeral)
	changes := changesOf(t, node)
	require.NoError(t, node.Start())
	require.ErrorIs(t, node.WaitForInitialCreate(zktest.Context(t)), framework.ErrNoAuth)
	require.ErrorIs(t, zktest.Await(t, changes, "the report").Err, framework.ErrNoAuth)
	require.Empty(t, children(t, client))
	require.Empty(t, changes)
}

func noWritePermission(t *testing.T, server zktest.Backend) {
	client := zktest.Client(t, server)
	_, err := client.Create(zktest.Context(t), path, []byte("theirs"), framework.CreatingParentsIfNeeded(),
		framework.WithACL(framework.ACL{Perms: framework.PermRead | framework.PermAdmin, Scheme: "world", ID: "anyone"}))
	require.NoError(t, err)
	node := newNode(t, client, framework.Persistent)
	changes := changesOf(t, node)
	require.NoError(t, node.Start())
	require.NoError(t, node.WaitForInitialCreate(zktest.Context(t)), "it stands")
	for c := range changes {
		if c.Err != nil {
			require.ErrorIs(t, c.Err, framework.ErrNoAuth)
			break
		}
	}
	require.ErrorIs(t, node.SetData(zktest.Context(t), []byte("ours")), framework.ErrNoAuth)
	data, err := client.Get(zktest.Context(t), path)
	require.NoError(t, err)
	require.Equal(t, "theirs", string(data))
}

func noServerAtStart(t *testing.T, server zktest.Backend) {
	link := zktest.NewProxy(t, server)
	link.Refuse(true)
	client, err := framework.New(server.ConnectStringVia(link.Addr()), framework.WithLogger(slog.New(slog.DiscardHandler)))
	require.NoError(t, err)
	require.NoError(t, client.Start())
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	node := newNode(t, client, framework.Ephemeral)
	require.NoError(t, node.Start())
	require.Empty(t, node.ActualPath())
	link.Refuse(false)
	require.NoError(t, node.WaitForInitialCreate(zktest.Context(t)))
	require.Equal(t, path, node.ActualPath())
}

func numberStays(t *testing.T, server zktest.Backend) {
	client, witness := zktest.Client(t, server), zktest.Client(t, server)
	for _, opts := range [][]nodes.Option{nil, {nodes.WithProtection()}} {
		node := started(t, client, framework.EphemeralSequential, opts...)
		name, old := node.ActualPath(), client.Session().ID()
		zktest.KillSession(t, client)
		awaitNode(t, witness, name, func(_ []byte, stat *framework.Stat) bool { return stat != nil && stat.EphemeralOwner != old })
		require.Equal(t, name, node.ActualPath())
		require.NoError(t, node.Close())
		require.Empty(t, children(t, witness))
	}
}

func quickClose(t *testing.T, server zktest.Backend) {
	client := zktest.Client(t, server)
	node := newNode(t, client, framework.Ephemeral)
	require.NoError(t, node.Start())
	require.NoError(t, node.Close())
	require.Empty(t, children(t, client))
}

func quickCloseOfANodeThatExists(t *testing.T, server zktest.Backend) {
	client := zktest.Client(t, server)
	_, err := client.Create(zktest.Context(t), path, nil, framework.CreatingParentsIfNeeded())
	require.NoError(t, err)
	node := newNode(t, client, framework.Persistent)
	require.NoError(t, node.Start())
	require.NoError(t, node.Close())
	require.Empty(t, children(t, client))
}

func recreationWithoutParents(t *testing.T, server zktest.Backend) {
	client := zktest.Client(t, server)
	_, err := client.Create(zktest.Context(t), "/nodes", nil, framework.CreatingParentsIfNeeded())
	require.NoError(t, err)
	node := started(t, client, framework.Ephemeral, nodes.WithoutParents())
	changes := changesOf(t, node)
	require.NoError(t, client.Delete(zktest.Context(t), "/nodes", framework.DeletingChildrenIfNeeded()))
	require.ErrorIs(t, zktest.Await(t, changes, "the disappearance").Err, nodes.ErrDeleted)
	for {
		why := zktest.Await(t, changes, "the report").Err
		if errors.Is(why, framework.ErrNoNode) {
			break
		}
		if why != nil { // it has come back before its parent went
			require.ErrorIs(t, why, nodes.ErrDeleted)
		}
	}
	_, err = client.Create(zktest.Context(t), "/nodes", nil)
	require.NoError(t, err)
	require.NoError(t, node.SetData(zktest.Context(t), []byte("again")), "SetData tries again")
	awaitNode(t, client, path, func(data []byte, _ *framework.Stat) bool { return string(data) == "again" })
}

// ttlOfScenarios is long beside a touch, which comes every half of it.
const ttlOfScenarios = time.Second

// sweeping returns the backend, or an embedded server that looks for overdue
// znodes as often as the real one does here.
func sweeping(t *testing.T, server zktest.Backend) zktest.Backend {
	t.Helper()
	if server.Name() != "zkserver" {
		return server
	}
	return zktest.Embedded(zktest.NewServer(t, zkserver.WithContainerCheckInterval(200*time.Millisecond)))
}

func touched(_ []byte, stat *framework.Stat) bool { return stat != nil }

func gone(_ []byte, stat *framework.Stat) bool { return stat == nil }

func ttlBasic(t *testing.T, server zktest.Backend) {
	server.Requires(t, ensemble.TTLNodes)
	client := zktest.Client(t, sweeping(t, server))
	node := startedTTL(t, client, ttlOfScenarios)
	awaitNode(t, client, path+"/touch", touched)
	require.NoError(t, node.Close())
	stat, err := client.Exists(zktest.Context(t), path)
	require.NoError(t, err)
	require.NotNil(t, stat, "Close leaves it")
	awaitNode(t, client, path, gone)
}

func ttlTouchDeleted(t *testing.T, server zktest.Backend) {
	server.Requires(t, ensemble.TTLNodes)
	client := zktest.Client(t, sweeping(t, server))
	startedTTL(t, client, ttlOfScenarios)
	for range 2 {
		awaitNode(t, client, path+"/touch", touched)
		require.NoError(t, client.Delete(zktest.Context(t), path+"/touch"))
	}
	awaitNode(t, client, path+"/touch", touched)
	awaitNode(t, client, path, touched)
}

// ttlNeverTouched lets the node only create itself: it may create no child.
func ttlNeverTouched(t *testing.T, server zktest.Backend) {
	server.Requires(t, ensemble.TTLNodes)
	client := zktest.Client(t, sweeping(t, server))
	node, err := nodes.NewPersistentTtlNode(client, path, ttlOfScenarios, nil,
		nodes.WithACL(framework.ACL{Perms: framework.PermRead | framework.PermWrite | framework.PermDelete, Scheme: "world", ID: "anyone"}))
	require.NoError(t, err)
	require.NoError(t, node.Start())
	require.NoError(t, node.WaitForInitialCreate(zktest.Context(t)))
	require.NoError(t, node.Close())
	awaitNode(t, client, path, gone)
}

func groupBasic(t *testing.T, server zktest.Backend) {
	a := joined(t, zktest.Client(t, server), "1")
	awaitMembers(t, a, map[string]string{"1": "data of 1"})
	b := joined(t, zktest.Client(t, server), "2")
	both := map[string]string{"1": "data of 1", "2": "data of 2"}
	awaitMembers(t, a, both)
	awaitMembers(t, b, both)
	require.NoError(t, b.Close())
	awaitMembers(t, a, map[string]string{"1": "data of 1"})
	require.Equal(t, "1", a.ID())
	require.NoError(t, a.Close())
	require.Empty(t, a.Members())
}
