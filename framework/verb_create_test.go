// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/testing/ensemble"
	"github.com/gocurator/curator/testing/zktest"
)

// onEachBackend runs a test with a client of each kind of server, whose chroot
// exists.
func onEachBackend(t *testing.T, test func(t *testing.T, server zktest.Backend, f *framework.Framework)) {
	t.Helper()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		f := zktest.Client(t, server.ConnectString())
		mustCreate(t, f, "/start", framework.CreatingParentsIfNeeded())
		test(t, server, f)
	})
}

func mustCreate(t *testing.T, f *framework.Framework, path string, opts ...framework.CreateOption) string {
	t.Helper()
	created, err := f.Create(t.Context(), path, nil, opts...)
	require.NoError(t, err)
	return created
}

const uuidPattern = `[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`

// Curator: TestFrameworkEdges.testPathsFromProtectingInBackground.
func TestCreateModes(t *testing.T) {
	t.Parallel()
	onEachBackend(t, func(t *testing.T, server zktest.Backend, f *framework.Framework) {
		server.Requires(t, ensemble.Containers)
		for name, mode := range map[string]framework.CreateMode{
			"persistent": framework.Persistent, "ephemeral": framework.Ephemeral,
			"persistent-sequential": framework.PersistentSequential, "ephemeral-sequential": framework.EphemeralSequential,
			"container": framework.Container, "ttl": framework.PersistentWithTTL,
			"ttl-sequential": framework.PersistentSequentialWithTTL,
		} {
			for _, protected := range []bool{false, true} {
				opts := []framework.CreateOption{framework.WithMode(mode)}
				want := "^/start/" + name
				if protected {
					opts = append(opts, framework.WithProtection())
					want = "^/start/_c_" + uuidPattern + "-" + name
				}
				if mode == framework.PersistentWithTTL || mode == framework.PersistentSequentialWithTTL {
					opts = append(opts, framework.WithTTL(time.Hour))
				}
				if mode == framework.PersistentSequential || mode == framework.EphemeralSequential ||
					mode == framework.PersistentSequentialWithTTL {
					want += `[0-9]{10}`
				}
				var stat, read framework.Stat
				opts = append(opts, framework.StoringStatIn(&stat))
				path, err := f.Create(t.Context(), "/start/"+name, []byte("data"), opts...)
				require.NoError(t, err, name)
				require.Regexp(t, want+"$", path)
				require.Equal(t, protected, framework.IsProtectedName(path))

				data, err := f.Get(t.Context(), path, framework.StoringStatIn(&read))
				require.NoError(t, err, name)
				require.Equal(t, "data", string(data))
				require.Equal(t, read, stat, name)
				owner := int64(0)
				if mode == framework.Ephemeral || mode == framework.EphemeralSequential {
					owner = f.Session().ID()
				}
				require.Equal(t, owner, stat.EphemeralOwner, name)
				require.NotZero(t, stat.Czxid)
			}
		}
	})
}

// TestCreateContainersAndTTLsAreReaped shows that these modes are what they are called:
// the same request with another opcode would make a persistent node.
//
// Curator: TestEnsureContainers, TestFramework.testCreateParentContainers,
// testNamespaceInBackground.
func TestCreateContainersAndTTLsAreReaped(t *testing.T) {
	t.Parallel()
	onEachBackend(t, func(t *testing.T, server zktest.Backend, f *framework.Framework) {
		server.Requires(t, ensemble.TTLNodes)
		if server.Name() == "zkserver" {
			f = zktest.Client(t, zktest.NewServer(t, quickReaper).Addr())
		}
		mustCreate(t, f, "/a/b/child", framework.CreatingParentContainersIfNeeded())
		mustCreate(t, f, "/ttl", framework.WithMode(framework.PersistentWithTTL), framework.WithTTL(time.Millisecond))
		for _, path := range []string{"/ttl", "/a/b", "/a"} {
			if path == "/a/b" {
				require.NoError(t, f.Delete(t.Context(), "/a/b/child"))
			}
			var watch *framework.Watch
			stat, err := f.Exists(t.Context(), path, framework.Watched(&watch))
			require.NoError(t, err)
			if stat == nil {
				watch.Cancel()
				continue
			}
			select {
			case <-watch.Fired():
				require.Equal(t, zk.EventNodeDeleted, watch.Event().Type, path)
			case <-time.After(patience):
				require.FailNow(t, "not reaped", path)
			}
		}
	})
}

// Curator: TestCreate.testCreateWithParents and the like, testForbiddenAncestors.
func TestParents(t *testing.T) {
	t.Parallel()
	onEachBackend(t, func(t *testing.T, _ zktest.Backend, f *framework.Framework) {
		_, err := f.Create(t.Context(), "/a/b/c", nil)
		require.ErrorIs(t, err, framework.ErrNoNode)
		require.False(t, framework.Retryable(err))
		require.Equal(t, "/a/b/c", mustCreate(t, f, "/a/b/c", framework.CreatingParentsIfNeeded()))
		require.Equal(t, "/a/b/d", mustCreate(t, f, "/a/b/d", framework.CreatingParentsIfNeeded()))

		path := mustCreate(t, f, "/x/y/", framework.CreatingParentsIfNeeded(), framework.WithMode(framework.PersistentSequential))
		require.Regexp(t, `^/x/y/[0-9]{10}$`, path)
		path = mustCreate(t, f, "/x/z/", framework.CreatingParentContainersIfNeeded(),
			framework.WithMode(framework.EphemeralSequential), framework.WithProtection())
		require.Regexp(t, `^/x/z/_c_`+uuidPattern+`-[0-9]{10}$`, path)

		mustCreate(t, f, "/e", framework.WithMode(framework.Ephemeral))
		_, err = f.Create(t.Context(), "/e/child", nil, framework.CreatingParentsIfNeeded())
		require.ErrorIs(t, err, framework.ErrNoChildrenForEphemerals)
		_, err = f.Create(t.Context(), "/e", nil)
		require.ErrorIs(t, err, framework.ErrNodeExists)
	})
}

// Curator: TestCreate.testCreateWithParents and the like, testForbiddenAncestors.
func TestACL(t *testing.T) {
	onEachBackend(t, func(t *testing.T, _ zktest.Backend, f *framework.Framework) {
		readOnly := framework.WithACL(zk.WorldACL(zk.PermRead | zk.PermCreate)...)
		mustCreate(t, f, "/open/q", framework.CreatingParentsIfNeeded(), readOnly)
		require.ErrorIs(t, f.Set(t.Context(), "/open/q", nil), framework.ErrNoAuth)
		require.NoError(t, f.Set(t.Context(), "/open", nil), "parents have a list of their own")
		mustCreate(t, f, "/p/q", framework.CreatingParentsIfNeeded(), readOnly, framework.ApplyingACLToParents())
		err := f.Set(t.Context(), "/p/q", nil)
		require.ErrorIs(t, err, framework.ErrNoAuth)
		require.False(t, framework.Retryable(err))
		require.ErrorIs(t, f.Set(t.Context(), "/p", nil), framework.ErrNoAuth, "parents get the same list")
		_, err = f.Create(t.Context(), "/bad", nil, framework.WithACL(framework.ACL{Perms: 31, Scheme: "nope", ID: "x"}))
		require.ErrorIs(t, err, framework.ErrInvalidACL)
	})
}

// Curator: TestCreate.testCreateWithParentsWithAclApplyToParentsInNamespace.
func TestACLAppliedToParentsIsNotTheNamespaces(t *testing.T) {
	server := zktest.NewServer(t)
	client := zktest.Client(t, server.Addr()+"/chroot")
	view, err := client.UsingNamespace("name/space")
	require.NoError(t, err)
	ours := zk.WorldACL(zk.PermRead | zk.PermCreate)
	mustCreate(t, view, "/p/q", framework.CreatingParentsIfNeeded(), framework.WithACL(ours...), framework.ApplyingACLToParents())
	whole := zktest.Client(t, server)
	for path, want := range map[string][]framework.ACL{
		"/chroot": framework.OpenACL(), "/chroot/name": framework.OpenACL(), "/chroot/name/space": framework.OpenACL(),
		"/chroot/name/space/p": ours, "/chroot/name/space/p/q": ours,
	} {
		list, err := whole.GetACL(t.Context(), path)
		require.NoError(t, err)
		require.Equal(t, want, list, path)
	}
}

// Curator: TestCreate.testProtectedUtils.
func TestIsProtectedName(t *testing.T) {
	const id = "_c_53345f98-9423-4e0c-a7b5-9f819e3ec2e1-"
	for name, want := range map[string]bool{
		id:                false,
		id + "0":          true,
		id + "lock-00001": true,
		"/a/" + id + "x":  true,
		"/" + id + "/x":   false,
		"_c_a":            false,
		"_c_":             false,
		"":                false,
		"x" + id:          false,
		"_c_53345f98-9423-4e0c-a7b5-9f819e3ec2e1":   false,
		"_c_53345f989423-4e0c-a7b5-9f819e3ec2e1-0-": false,
		"_c_53345f98942334e0ca7b5-9f819e3ec2e1xx-x": false,
	} {
		require.Equal(t, want, framework.IsProtectedName(name), "%q", name)
	}
}

// Names of options are made for errors only.
func TestCreateOptionsThatAreRightCostNoText(t *testing.T) {
	allocations := func(mode framework.CreateMode) float64 {
		option := framework.WithMode(mode)
		return testing.AllocsPerRun(100, func() { framework.CreateOp("/a", nil, option) })
	}
	require.LessOrEqual(t, allocations(framework.EphemeralSequential), allocations(framework.Ephemeral))
}
