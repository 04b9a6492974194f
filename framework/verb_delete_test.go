// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
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
	require.Nil(t, must.Get(f.Exists(t.Context(), path))(t), path)
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

// TestDeleteOfAZnodeThatAnotherClientDeletesMeanwhile: the znode had children, so it existed during
// the call.
func TestDeleteOfAZnodeThatAnotherClientDeletesMeanwhile(t *testing.T) {
	inMemory(t, func(t *testing.T, n *memnet) {
		f, other := n.client(t), n.client(t)
		plant(t, f, "/a", 2, 1)
		var once sync.Once
		n.server.Intercept(func(r zkserver.Request) zkserver.Fault {
			fault := zkserver.Pass
			if r.Path == "/a" && r.Op != zkserver.OpDelete && r.SessionID == f.Session().ID() {
				once.Do(func() {
					fault = holdWhile(func() {
						if err := other.Delete(context.Background(), "/a", framework.DeletingChildrenIfNeeded()); err != nil {
							t.Error(err)
						}
					})
				})
			}
			return fault
		})
		require.NoError(t, f.Delete(t.Context(), "/a", framework.DeletingChildrenIfNeeded()))
		requireNone(t, f, "/a")
	})
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
