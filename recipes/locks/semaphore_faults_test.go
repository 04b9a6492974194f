// SPDX-License-Identifier: Apache-2.0

package locks_test

import (
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zkproxy"
	"github.com/gocurator/curator/testing/zktest"
)

// The connection is lost while the turn is given back, and with it the lease that
// was acquired in that turn: what is returned is another, which holds.
func TestSemaphoreLeaseIsLostWithTheReplyToItsTurn(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		link := zktest.NewProxy(t, server.Addr())
		s := newSemaphore(t, zktest.Client(t, server.ConnectStringVia(link.Addr())), "/semaphores/s", locks.FixedLeases(1))
		var cut atomic.Bool
		link.Intercept(func(f zkproxy.Frame) zkproxy.Verdict {
			if f.Direction == zkproxy.ToServer && f.Op == zkproxy.OpDelete && strings.Contains(f.Path, "/locks/") && !cut.Swap(true) {
				return zkproxy.CutAfter
			}
			return zkproxy.Pass
		})
		lease := acquire(t, s)
		require.True(t, cut.Load())
		require.NoError(t, lease.Err())
		require.Equal(t, lease.Path(), awaitQueue(t, s, 1)[0].Path)
		release(t, lease)
	})
}

// Two set the number while there is none: one of them creates it, and the other
// sets it all the same.
func TestSemaphoreTwoSetTheNumberThatIsNotThere(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		link := zktest.NewProxy(t, server.Addr())
		first := must.Get(locks.NewSharedLeases(zktest.Client(t, server.ConnectStringVia(link.Addr())), "/semaphores/max", 1))(t)
		second := must.Get(locks.NewSharedLeases(zktest.Client(t, server.ConnectString()), "/semaphores/max", 1))(t)
		creating, create := make(chan struct{}), make(chan struct{})
		var seen atomic.Bool
		link.Intercept(func(f zkproxy.Frame) zkproxy.Verdict {
			if f.Direction == zkproxy.ToServer && f.Op == zkproxy.OpCreate2 && strings.HasSuffix(f.Path, "/max") && !seen.Swap(true) {
				close(creating)
				<-create
			}
			return zkproxy.Pass
		})
		set := make(chan error, 1)
		go func() { set <- first.Set(zktest.Context(t), 2) }()
		awaitSignal(t, creating)
		require.NoError(t, second.Set(zktest.Context(t), 3))
		close(create)
		require.NoError(t, <-set)
		n, _, err := second.MaxLeases(zktest.Context(t))
		require.NoError(t, err)
		require.Equal(t, 2, n)
	})
}

// A turn that the client may not delete keeps all others waiting, so the acquisition says so.
func TestSemaphoreTurnThatMayNotBeDeleted(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	must.Get(client.Create(t.Context(), "/semaphore/locks", nil, framework.CreatingParentsIfNeeded(),
		framework.WithACL(framework.ACL{Perms: framework.PermRead | framework.PermCreate, Scheme: "world", ID: "anyone"})))(t)
	semaphore := must.Get(locks.NewInterProcessSemaphoreV2(client, "/semaphore", locks.FixedLeases(1)))(t)

	_, err := semaphore.Acquire(zktest.Context(t))

	require.ErrorIs(t, err, framework.ErrNoAuth)
	require.ErrorContains(t, err, "/semaphore/locks/")
	require.Empty(t, must.Get(semaphore.Participants(t.Context()))(t))
}
