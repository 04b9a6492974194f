// SPDX-License-Identifier: Apache-2.0

package recipes_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/discovery"
	"github.com/gocurator/curator/recipes/leader"
	"github.com/gocurator/curator/recipes/nodes"
	"github.com/gocurator/curator/recipes/queues"
	"github.com/gocurator/curator/recipes/shared"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// keeper is a recipe that keeps a znode. keep returns when the znode stands, with the call that
// ends it.
type keeper struct {
	of      string
	pending bool // the call returns framework.ErrCleanupPending while there is no server
	keep    func(t *testing.T, c *framework.Framework) (end func() error)
	grace   time.Duration // how long the call may take: a lease is released as locks.Lease.Release says
	stays   []string      // what it leaves by design
}

func node(mode framework.CreateMode) func(*testing.T, *framework.Framework) func() error {
	return func(t *testing.T, c *framework.Framework) func() error {
		t.Helper()
		n := must.Get(nodes.NewPersistentNode(c, "/node", mode, nil))(t)
		require.NoError(t, n.Start())
		require.NoError(t, n.WaitForInitialCreate(t.Context()))
		return n.Close
	}
}

func registering(end func(*discovery.ServiceDiscovery[string], discovery.ServiceInstance[string]) error) func(*testing.T, *framework.Framework) func() error {
	return func(t *testing.T, c *framework.Framework) func() error {
		t.Helper()
		d := must.Get(discovery.NewServiceDiscovery[string](c, "/services", nil))(t)
		instance := discovery.NewInstance[string]("orders", "localhost", 80)
		require.NoError(t, d.Register(t.Context(), instance))
		return func() error { return end(d, instance) }
	}
}

var keepers = []keeper{
	{of: "PersistentNode, ephemeral", pending: true, keep: node(framework.Ephemeral)},
	{of: "PersistentNode, persistent", pending: true, keep: node(framework.Persistent)},
	{of: "PersistentNode, sequential", pending: true, keep: node(framework.EphemeralSequential)},
	{of: "PersistentTtlNode", keep: func(t *testing.T, c *framework.Framework) func() error {
		t.Helper()
		n := must.Get(nodes.NewPersistentTtlNode(c, "/ttl", time.Minute, nil))(t)
		require.NoError(t, n.Start())
		require.NoError(t, n.WaitForInitialCreate(t.Context()))
		return n.Close
	}},
	{of: "GroupMember", pending: true, keep: func(t *testing.T, c *framework.Framework) func() error {
		t.Helper()
		m := must.Get(nodes.NewGroupMember(c, "/group", "a", nil))(t)
		require.NoError(t, m.Start())
		require.NoError(t, m.WaitUntilJoined(t.Context()))
		return m.Close
	}},
	{of: "ServiceDiscovery.Unregister", pending: true, keep: registering(func(d *discovery.ServiceDiscovery[string], i discovery.ServiceInstance[string]) error {
		return d.Unregister(i)
	})},
	{of: "ServiceDiscovery.Close", pending: true, keep: registering(func(d *discovery.ServiceDiscovery[string], _ discovery.ServiceInstance[string]) error {
		return d.Close()
	})},
	{of: "LeaderLatch", keep: func(t *testing.T, c *framework.Framework) func() error {
		t.Helper()
		l := must.Get(leader.NewLeaderLatch(c, "/latch"))(t)
		require.NoError(t, l.Start())
		must.Get(l.Await(t.Context()))(t)
		return l.Close
	}},
	{of: "LeaderSelector", keep: func(t *testing.T, c *framework.Framework) func() error {
		t.Helper()
		s := must.Get(leader.NewLeaderSelector(c, "/selector"))(t)
		leads := make(chan struct{})
		return running(t, leads, func(ctx context.Context) error {
			err := s.Run(ctx, func(ctx context.Context) error {
				close(leads)
				<-ctx.Done()
				return nil
			})
			if c.State() == framework.Suspended { // the leadership lasts, and is given up
				require.ErrorIs(t, err, framework.ErrCleanupPending)
			}
			return err
		})
	}},
	{of: "DistributedQueue", grace: time.Second, stays: []string{"/queue", "/queuelock"}, keep: func(t *testing.T, c *framework.Framework) func() error {
		t.Helper()
		q := must.Get(queues.NewDistributedQueue(c, "/queue", queues.WithLockPath("/queuelock")))(t)
		require.NoError(t, q.Put(t.Context(), []byte("item")))
		has := make(chan struct{}, 1)
		return running(t, has, func(ctx context.Context) error {
			return q.Consume(ctx, func(ctx context.Context, _ []byte) error {
				select {
				case has <- struct{}{}:
				default:
				}
				<-ctx.Done()
				return ctx.Err()
			})
		})
	}},
	{of: "SharedValue", stays: []string{"/value"}, keep: func(t *testing.T, c *framework.Framework) func() error {
		t.Helper()
		v := must.Get(shared.NewSharedValue(c, "/value", nil))(t)
		require.NoError(t, v.Start(t.Context()))
		return v.Close
	}},
}

// running runs a recipe until the call that ends it, which returns nil: the error of an ended
// context is the recipe's own business.
func running(t *testing.T, holds <-chan struct{}, run func(context.Context) error) func() error {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	<-holds
	return func() error {
		stop()
		require.Error(t, <-ended, "it was stopped")
		return nil
	}
}

// A process that ends during an outage closes its recipes one after the other, within the seconds
// that its supervisor leaves it. When the server is back nothing is left.
func TestOutageCloseDuringAnOutage(t *testing.T) {
	for _, k := range keepers {
		for _, state := range []framework.ConnectionState{framework.Suspended, framework.Lost} {
			t.Run(k.of+"/"+state.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					server := zktest.NewServer(t, zkserver.WithoutListener(), zkserver.WithContainerCheckInterval(time.Second))
					t.Cleanup(func() { zktest.AssertClean(t, server) })
					client := zktest.Client(t, server, framework.WithSessionTimeout(18*time.Second), framework.WithErrorPolicy(framework.SessionErrorPolicy))
					end := k.keep(t, client)
					require.NoError(t, server.Stop())
					zktest.AwaitState(t, client, state)
					time.Sleep(3 * time.Second) // an outage, and no change of servers
					require.Equal(t, state, client.State())

					begin := time.Now()
					if err := end(); k.pending {
						require.ErrorIs(t, err, framework.ErrCleanupPending)
					} else {
						require.NoError(t, err)
					}
					require.LessOrEqual(t, time.Since(begin), k.grace+100*time.Millisecond)

					require.NoError(t, server.Restart())
					zktest.AwaitState(t, client, framework.Reconnected)
					time.Sleep(3 * time.Minute) // containers and times to live end as well
					left := must.Get(client.Children(t.Context(), "/"))(t)
					require.ElementsMatch(t, append([]string{"zookeeper"}, names(k.stays)...), left)
				})
			})
		}
	}
}

func names(paths []string) (names []string) {
	for _, path := range paths {
		names = append(names, path[1:])
	}
	return names
}
