// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// plant makes a tree of width^depth leaves below a path.
func plant(t *testing.T, f *framework.Framework, path string, width, depth int) {
	t.Helper()
	if depth == 0 {
		mustCreate(t, f, path, framework.CreatingParentsIfNeeded())
		return
	}
	for i := range width {
		plant(t, f, fmt.Sprintf("%s/%d", path, i), width, depth-1)
	}
}

func requireNone(t *testing.T, f *framework.Framework, path string) {
	t.Helper()
	stat, err := f.Exists(t.Context(), path)
	require.NoError(t, err)
	require.Nil(t, stat, path)
}

func TestDeleteWithChildren(t *testing.T) {
	t.Parallel()
	onEachBackend(t, func(t *testing.T, _ zktest.Backend, f *framework.Framework) {
		ctx := t.Context()
		children := framework.DeletingChildrenIfNeeded()
		plant(t, f, "/deep", 3, 3)
		require.ErrorIs(t, f.Delete(ctx, "/deep"), framework.ErrNotEmpty)
		require.ErrorIs(t, f.Delete(ctx, "/deep", children, framework.WithVersion(3)), framework.ErrBadVersion)
		stat, err := f.Exists(ctx, "/deep/2/2/2")
		require.NoError(t, err)
		require.NotNil(t, stat, "a version that does not match protects the children, too")
		require.NoError(t, f.Delete(ctx, "/deep", children, framework.WithVersion(0)))
		requireNone(t, f, "/deep")
		require.ErrorIs(t, f.Delete(ctx, "/deep", children), framework.ErrNoNode)
		require.NoError(t, f.Delete(ctx, "/deep", children, framework.Quietly()))

		plant(t, f, "/wide", 250, 1)
		plant(t, f, "/wide/7", 2, 1)
		require.NoError(t, f.Delete(ctx, "/wide", children, framework.Guaranteed()))
		requireNone(t, f, "/wide")

		plant(t, f, "/later", 2, 2)
		var gone *framework.Watch
		_, err = f.Exists(ctx, "/later", framework.Watched(&gone))
		require.NoError(t, err)
		require.NoError(t, f.Delete(ctx, "/later", children, framework.InBackground()))
		<-gone.Fired()
	})
}

// TestDeleteTheSameChildren has several clients delete one tree at once: each
// finds nodes that another one has just deleted, and none may stumble over it.
//
// Curator: TestFrameworkEdges.testDeleteChildrenConcurrently.
func TestDeleteTheSameChildren(t *testing.T) {
	t.Parallel()
	onEachBackend(t, func(t *testing.T, server zktest.Backend, f *framework.Framework) {
		plant(t, f, "/shared", 5, 3)
		const clients = 3
		results := make(chan error, clients)
		start := make(chan struct{})
		for range clients {
			one := zktest.Client(t, server.ConnectString())
			go func() {
				<-start
				results <- one.Delete(context.Background(), "/shared",
					framework.DeletingChildrenIfNeeded(), framework.Quietly())
			}()
		}
		close(start)
		for range clients {
			require.NoError(t, <-results)
		}
		requireNone(t, f, "/shared")
	})
}

// TestDeleteChildrenThatKeepComing creates a new child before each of the first
// deletes of the parent.
//
// Curator: TestFrameworkEdges.testDeleteChildrenConcurrently.
func TestDeleteChildrenThatKeepComing(t *testing.T) {
	server := zktest.NewServer(t)
	f, other := zktest.Client(t, server.Addr()), zktest.Client(t, server.Addr())
	plant(t, f, "/a", 2, 1)
	created := 0
	remove := server.Intercept(func(r zkserver.Request) zkserver.Fault {
		if r.Op != zkserver.OpDelete || r.Path != "/a" || created == 3 {
			return zkserver.Pass
		}
		created++
		path := fmt.Sprintf("/a/new-%d/x", created)
		return holdWhile(func() {
			if _, err := other.Create(context.Background(), path, nil, framework.CreatingParentsIfNeeded()); err != nil {
				t.Error(err)
			}
		})
	})
	defer remove()
	require.NoError(t, f.Delete(t.Context(), "/a", framework.DeletingChildrenIfNeeded()))
	require.Equal(t, 3, created)
	requireNone(t, f, "/a")
}

// TestDeleteChildrenThroughALoss loses each of the requests in turn.
//
// Curator: TestFrameworkEdges.testDeleteChildrenConcurrently.
func TestDeleteChildrenThroughALoss(t *testing.T) {
	for name, fault := range faults {
		for k := 1; k <= 6; k++ {
			inMemory(t, func(t *testing.T, n *memnet) {
				observer := n.client(t)
				plant(t, observer, "/a", 1, 2)
				f := n.client(t, framework.WithRetryPolicy(patient))
				requests := faultAt(n, f.Session().ID(), fault, k)
				err := f.Delete(t.Context(), "/a", framework.DeletingChildrenIfNeeded(), framework.Guaranteed())
				require.NoError(t, err, "%s, request %d", name, k)
				require.GreaterOrEqual(t, requests(), k)
				requireNone(t, observer, "/a")
			})
		}
	}
}

// TestDeleteQuietDeleteIsNotRepeatedInDoubt: the second try might hit what somebody else
// has created meanwhile.
func TestDeleteQuietDeleteIsNotRepeatedInDoubt(t *testing.T) {
	inMemory(t, func(t *testing.T, n *memnet) {
		f := n.client(t, framework.WithRetryPolicy(patient))
		mustCreate(t, f, "/a")
		requests := faultAt(n, f.Session().ID(), zkserver.LoseReply, 1)
		err := f.Delete(t.Context(), "/a", framework.Quietly())
		require.True(t, framework.OutcomeUnknown(err), "%v", err)
		time.Sleep(time.Second)
		require.Equal(t, 1, requests())
	})
}
