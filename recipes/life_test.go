// SPDX-License-Identifier: Apache-2.0

package recipes_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/cache"
	"github.com/gocurator/curator/recipes/discovery"
	"github.com/gocurator/curator/recipes/leader"
	"github.com/gocurator/curator/recipes/nodes"
	"github.com/gocurator/curator/recipes/queues"
	"github.com/gocurator/curator/recipes/shared"
	"github.com/gocurator/curator/testing/zktest"
)

// life is what has Start and Close.
type life struct {
	of         string
	open       func(c *framework.Framework) (subject, error)
	notStarted error
	closed     error
}

// subject is one thing that has a life, with its calls of one form.
type subject struct {
	start func(context.Context) error
	wait  func(context.Context) error
	close func() error
}

// background is what Start begins without waiting.
func background(thing interface {
	Start() error
	Close() error
}, wait func(context.Context) error, err error,
) (subject, error) {
	return subject{start: func(context.Context) error { return thing.Start() }, wait: wait, close: thing.Close}, err
}

// asking is what makes a request in Start.
func asking(thing interface {
	Start(ctx context.Context) error
	Close() error
}, wait func(context.Context) error, err error,
) (subject, error) {
	return subject{start: thing.Start, wait: wait, close: thing.Close}, err
}

var lives = []life{
	{"CuratorCache", func(c *framework.Framework) (subject, error) {
		thing, err := cache.NewCuratorCache(c, "/cache")
		return background(thing, thing.Fresh, err)
	}, cache.ErrNotStarted, cache.ErrClosed},
	{"LeaderLatch", func(c *framework.Framework) (subject, error) {
		thing, err := leader.NewLeaderLatch(c, "/latch")
		return background(thing, func(ctx context.Context) error { _, err := thing.Await(ctx); return err }, err)
	}, leader.ErrNotStarted, leader.ErrClosed},
	{"PersistentNode", func(c *framework.Framework) (subject, error) {
		thing, err := nodes.NewPersistentNode(c, "/node", framework.Ephemeral, nil)
		return background(thing, thing.WaitForInitialCreate, err)
	}, nodes.ErrNotStarted, nodes.ErrClosed},
	{"PersistentTtlNode", func(c *framework.Framework) (subject, error) {
		thing, err := nodes.NewPersistentTtlNode(c, "/ttl", time.Minute, nil)
		return background(thing, thing.WaitForInitialCreate, err)
	}, nodes.ErrNotStarted, nodes.ErrClosed},
	{"GroupMember", func(c *framework.Framework) (subject, error) {
		thing, err := nodes.NewGroupMember(c, "/group", "a", nil)
		return background(thing, thing.WaitUntilJoined, err)
	}, nodes.ErrNotStarted, nodes.ErrClosed},
	{"ServiceCache", func(c *framework.Framework) (subject, error) {
		d, err := discovery.NewServiceDiscovery[string](c, "/services", nil)
		if err != nil {
			return subject{}, err
		}
		thing, err := d.NewCache("orders")
		return background(thing, thing.Wait, err)
	}, discovery.ErrNotStarted, discovery.ErrClosed},
	{"ServiceProvider", func(c *framework.Framework) (subject, error) {
		d, err := discovery.NewServiceDiscovery[string](c, "/services", nil)
		if err != nil {
			return subject{}, err
		}
		thing, err := d.NewProvider("orders", discovery.ProviderConfig[string]{})
		return background(thing, thing.Wait, err)
	}, discovery.ErrNotStarted, discovery.ErrClosed},
	{"SharedValue", func(c *framework.Framework) (subject, error) {
		thing, err := shared.NewSharedValue(c, "/value", nil)
		return asking(thing, func(context.Context) error { return thing.Err() }, err)
	}, shared.ErrNotStarted, shared.ErrClosed},
	{"SharedCount", func(c *framework.Framework) (subject, error) {
		thing, err := shared.NewSharedCount(c, "/count", 1)
		return asking(thing, func(context.Context) error { return thing.Err() }, err)
	}, shared.ErrNotStarted, shared.ErrClosed},
	{"QueueSharder", func(c *framework.Framework) (subject, error) {
		thing, err := queues.NewQueueSharder(c, func(path string) (*queues.DistributedQueue, error) {
			return queues.NewDistributedQueue(c, path)
		}, "/queues", "/leader")
		return asking(thing, func(context.Context) error {
			_, err := thing.Queue()
			return err
		}, err)
	}, queues.ErrNotStarted, queues.ErrClosed},
}

func TestTheLifeOfThings(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	for _, life := range lives {
		t.Run(life.of, func(t *testing.T) {
			ctx := zktest.Context(t)
			thing := must.Get(life.open(client))(t)
			require.ErrorIs(t, thing.wait(ctx), life.notStarted)
			require.NoError(t, thing.start(ctx))
			require.ErrorContains(t, thing.start(ctx), "started already")
			require.NoError(t, thing.wait(ctx))
			for range 2 {
				require.NoError(t, thing.close())
				require.ErrorIs(t, thing.wait(ctx), life.closed)
				require.ErrorIs(t, thing.start(ctx), life.closed)
			}

			never := must.Get(life.open(client))(t)
			require.NoError(t, never.close())
			require.ErrorIs(t, never.start(ctx), life.closed)
			require.ErrorIs(t, never.wait(ctx), life.closed)
		})
	}
}
