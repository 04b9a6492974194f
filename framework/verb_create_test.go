// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
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
	created := must.Get(f.Create(t.Context(), path, nil, opts...))(t)
	return created
}

const uuidPattern = `[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`

// Curator: TestCreate.testCreateWithParentsWithAclApplyToParentsInNamespace.
func TestACLAppliedToParentsIsNotTheNamespaces(t *testing.T) {
	server := zktest.NewServer(t)
	client := zktest.Client(t, server.Addr()+"/chroot")
	view := must.Get(client.UsingNamespace("name/space"))(t)
	ours := zk.WorldACL(zk.PermRead | zk.PermCreate)
	mustCreate(t, view, "/p/q", framework.CreatingParentsIfNeeded(), framework.WithACL(ours...), framework.ApplyingACLToParents())
	whole := zktest.Client(t, server)
	for path, want := range map[string][]framework.ACL{
		"/chroot": framework.OpenACL(), "/chroot/name": framework.OpenACL(), "/chroot/name/space": framework.OpenACL(),
		"/chroot/name/space/p": ours, "/chroot/name/space/p/q": ours,
	} {
		require.Equal(t, want, must.Get(whole.GetACL(t.Context(), path))(t), path)
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
