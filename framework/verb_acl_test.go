// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/testing/zktest"
)

// lists is an ACLProvider that notes what it is asked.
type lists struct {
	mu    sync.Mutex
	asked []string
}

func (l *lists) DefaultACL() []framework.ACL {
	return zk.WorldACL(framework.PermAll &^ framework.PermAdmin)
}

func (l *lists) ACLForPath(path string) []framework.ACL {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked = append(l.asked, path)
	if strings.HasPrefix(path, "/readable") {
		return zk.WorldACL(framework.PermRead | framework.PermCreate)
	}
	return nil
}

// Curator: TestCreate.testCreateWithParents and the like, testForbiddenAncestors.
func TestACLProvider(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		provider := new(lists)
		f := zktest.Client(t, server.ConnectString(), framework.WithACLProvider(provider))
		mustCreate(t, f, "/readable/x/n-", framework.CreatingParentsIfNeeded(), framework.WithProtection(),
			framework.WithMode(framework.EphemeralSequential))
		view := must.Get(f.UsingNamespace("readable"))(t)
		mustCreate(t, view, "/y", framework.WithACL(framework.OpenACL()...))
		mustCreate(t, view, "/z")
		must.Get(f.Transact(t.Context(), framework.CreateOp("/readable/t", nil), framework.CreateOp("/plain", nil)))(t)
		for path, want := range map[string]framework.ACL{
			"/readable": {Perms: framework.PermRead | framework.PermCreate}, "/readable/x": {Perms: framework.PermRead | framework.PermCreate},
			"/readable/t": {Perms: framework.PermRead | framework.PermCreate}, "/readable/z": {Perms: framework.PermRead | framework.PermCreate},
			"/readable/y": {Perms: framework.PermAll}, "/": {Perms: framework.PermAll &^ framework.PermAdmin},
			"/plain": {Perms: framework.PermAll &^ framework.PermAdmin},
		} {
			acl, err := f.GetACL(t.Context(), path)
			require.NoError(t, err, path)
			require.Equal(t, zk.WorldACL(want.Perms), acl, path)
		}
		require.Subset(t, []string{"/readable", "/readable/x", "/readable/x/n-", "/readable/z", "/readable/t", "/plain"},
			provider.asked, "without chroot, with namespace, as named by the caller")
	})
	_, err := framework.New("a", framework.WithACLProvider(nil))
	require.ErrorIs(t, err, framework.ErrInvalidOption)
}

// TestACLForbiddenAncestors: a node that the client may not touch is in nobody's way
// below it, unless something has to be created in it. The error names what.
//
// Curator: TestCreate.testCreateWithParents and the like, testForbiddenAncestors.
func TestACLForbiddenAncestors(t *testing.T) {
	t.Parallel()
	onEachBackend(t, func(t *testing.T, _ zktest.Backend, f *framework.Framework) {
		ctx := t.Context()
		parents := framework.CreatingParentsIfNeeded()
		mustCreate(t, f, "/locked/open", parents)
		require.NoError(t, f.SetACL(ctx, "/locked", framework.DigestACL(framework.PermAll, "alice", "x")))
		_, err := f.Children(ctx, "/locked")
		require.ErrorIs(t, err, framework.ErrNoAuth)

		require.Equal(t, "/locked/open/a/b", mustCreate(t, f, "/locked/open/a/b", parents))
		require.Equal(t, "/c/d", mustCreate(t, namespaced(t, f, "locked/open"), "/c/d", parents))
		must.Get(f.Exists(ctx, "/locked/open/e/f", parents))(t)
		require.NoError(t, f.CreateContainers(ctx, "/locked/open/g"))

		for name, create := range map[string]func(path string) error{
			"create": func(path string) error {
				_, err := f.Create(ctx, path+"/z", nil, parents)
				return err
			},
			"create protected": func(path string) error {
				_, err := f.Create(ctx, path+"/z", nil, parents, framework.WithProtection())
				return err
			},
			"exists": func(path string) error {
				_, err := f.Exists(ctx, path+"/z", parents)
				return err
			},
			"containers": func(path string) error { return f.CreateContainers(ctx, path) },
		} {
			for _, path := range []string{"/locked/x", "/locked/x/y"} {
				err := create(path)
				require.ErrorIs(t, err, framework.ErrNoAuth, name)
				require.False(t, framework.OutcomeUnknown(err), name)
				var op *framework.OpError
				require.ErrorAs(t, err, &op, name)
				require.Equal(t, "/locked/x", op.Path, name)
			}
		}
	})
}

// TestACLs compares the lists with ZooKeeper's ZooDefs.Ids, and the digest with the server's.
func TestACLs(t *testing.T) {
	require.Equal(t, []framework.ACL{{Perms: 31, Scheme: "world", ID: "anyone"}}, framework.OpenACL())
	require.Equal(t, []framework.ACL{{Perms: 1, Scheme: "world", ID: "anyone"}}, framework.ReadACL())
	require.Equal(t, []framework.ACL{{Perms: 31, Scheme: "auth"}}, framework.CreatorAllACL())
	require.Equal(t, []framework.ACL{{Perms: 2, Scheme: "digest", ID: "super:D/InIHSb7yEEbrWz8b9l71RjZJU="}},
		framework.DigestACL(framework.PermWrite, "super", "test"))
	framework.OpenACL()[0].Perms = 0
	require.EqualValues(t, framework.PermAll, framework.OpenACL()[0].Perms, "each caller has a list of its own")
}
