// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// withoutContainers makes a server answer as one that has no container nodes, and counts
// how often it was asked for one.
func withoutContainers(server *zkserver.Server) (asked func() int) {
	const unimplemented = -6
	n := make(chan int, 1)
	n <- 0
	server.Intercept(func(r zkserver.Request) zkserver.Fault {
		if r.Op != zkserver.OpCreateContainer {
			return zkserver.Pass
		}
		n <- <-n + 1
		return zkserver.FailWith(unimplemented)
	})
	return func() int {
		count := <-n
		n <- count
		return count
	}
}

// TestCreateOnServersWithoutContainers: parents are persistent nodes there, found out by the first
// refusal, or without one if the client is told.
func TestCreateOnServersWithoutContainers(t *testing.T) {
	for name, test := range map[string]struct {
		opts  []framework.Option
		asked int
	}{
		"found out": {nil, 1},
		"told":      {[]framework.Option{framework.WithoutContainerParents()}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			server := zktest.NewServer(t)
			asked := withoutContainers(server)
			f := zktest.Client(t, server.Addr(), test.opts...)
			mustCreate(t, f, "/a/b/c", framework.CreatingParentContainersIfNeeded(), framework.WithMode(framework.Ephemeral))
			require.NoError(t, f.CreateContainers(t.Context(), "/d/e"))
			view := must.Get(f.UsingNamespace("space"))(t)
			mustCreate(t, view, "/f")
			require.Equal(t, test.asked, asked())
			for _, path := range []string{"/a/b", "/d/e", "/space"} {
				stat := must.Get(f.Exists(t.Context(), path))(t)
				require.NotNil(t, stat, path)
				require.Zero(t, stat.EphemeralOwner, "%s is a persistent node", path)
			}
			_, err := f.Create(t.Context(), "/mine", nil, framework.WithMode(framework.Container))
			require.ErrorContains(t, err, "unimplemented", "what was asked for is not replaced")
		})
	}
}

// TestNewcomerErrorsSayWhatToDo where newcomers look for the fault elsewhere.
func TestNewcomerErrorsSayWhatToDo(t *testing.T) {
	server := zktest.NewServer(t)
	f := zktest.Client(t, server.Addr())
	_, err := f.Create(t.Context(), "/a/b", nil)
	require.ErrorIs(t, err, framework.ErrNoNode)
	require.EqualError(t, err, "framework: create /a/b: zk: node does not exist: "+
		"its parent /a is missing, expected the parent, or CreatingParentsIfNeeded")
	mustCreate(t, f, "/closed", framework.WithACL(zk.WorldACL(zk.PermAdmin)...))
	_, err = f.Get(t.Context(), "/closed")
	require.ErrorIs(t, err, framework.ErrNoAuth)
	require.EqualError(t, err, "framework: get /closed: no permission by the access control list (NoAuth: zk: not authenticated)")
}

// TestNewcomerSilentServerIsNamed, which accepts connections and says nothing.
func TestNewcomerSilentServerIsNamed(t *testing.T) {
	inMemory(t, func(t *testing.T, n *memnet) {
		n.setHole(true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := framework.Connect(ctx, "a:1", framework.WithDialer(n.dial))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "no server has refused or answered yet: [a:1]")
	})
}

// TestNewcomerClosingAViewIsLogged, since a deferred Close drops its error.
func TestNewcomerClosingAViewIsLogged(t *testing.T) {
	said := new(safeBuffer)
	f := zktest.Client(t, zktest.NewServer(t).Addr(), framework.WithLogger(slog.New(slog.NewTextHandler(said, nil))))
	view := must.Get(f.UsingNamespace("space"))(t)
	require.ErrorContains(t, view.Close(), "it is a view")
	_, err := view.Exists(t.Context(), "/")
	require.NoError(t, err, "the client lives on")
	require.NoError(t, f.Close())
	require.Contains(t, said.String(), "close of a view closes nothing")
	require.Contains(t, said.String(), "namespace=space")
}

// TestNewcomerFirstThingInANewTree: a transaction makes the namespace as Create does, and a hold
// under QuorumErrorPolicy the chroot.
func TestNewcomerFirstThingInANewTree(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		f := zktest.Client(t, server.ConnectString()+"/root", framework.WithServerTiming(100*time.Millisecond, 5))
		_, release, err := f.Session().Hold(t.Context(), framework.QuorumErrorPolicy)
		require.NoError(t, err)
		release()
		view := must.Get(f.UsingNamespace("space/within"))(t)
		results := must.Get(view.Transact(t.Context(), framework.CreateOp("/x", nil), framework.CreateOp("/x/y", nil)))(t)
		require.Equal(t, "/x/y", results[1].Path)
		_, err = view.Transact(t.Context(), framework.CreateOp("/none/y", nil))
		require.ErrorIs(t, err, framework.ErrNoNode)
	})
}
