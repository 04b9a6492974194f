// SPDX-License-Identifier: Apache-2.0

package recipes_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	counters "github.com/gocurator/curator/recipes/atomic"
	"github.com/gocurator/curator/recipes/barriers"
	"github.com/gocurator/curator/recipes/cache"
	"github.com/gocurator/curator/recipes/discovery"
	"github.com/gocurator/curator/recipes/leader"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/recipes/nodes"
	"github.com/gocurator/curator/recipes/queues"
	"github.com/gocurator/curator/recipes/shared"
	"github.com/gocurator/curator/testing/zktest"
)

// tenant is a recipe whose client may create only where an administrator lets it.
type tenant struct {
	name     string
	open     []string // the administrator makes these, some =data, and the client may do everything there
	readOnly []string // and these, which the client may only read
	use      func(ctx context.Context, c *framework.Framework) error
}

// started starts what use begins, and closes it.
func started(c interface {
	Start(ctx context.Context) error
	Close() error
}, err error,
) func(context.Context, func() error) error {
	return func(ctx context.Context, use func() error) error {
		if err != nil {
			return err
		}
		if err := c.Start(ctx); err != nil {
			return err
		}
		return errors.Join(use(), c.Close())
	}
}

func nothing() error { return nil }

// useLock acquires a lease and releases it.
func useLock(ctx context.Context, l interface {
	Acquire(ctx context.Context) (*locks.Lease, error)
}, err error,
) error {
	if err != nil {
		return err
	}
	lease, err := l.Acquire(ctx)
	if err != nil {
		return err
	}
	return lease.Release(ctx)
}

// useQueue puts an item and consumes it.
func useQueue(ctx context.Context, q interface {
	Put(ctx context.Context, data []byte) error
	Consume(ctx context.Context, fn func(context.Context, []byte) error) error
}, err error,
) error {
	if err != nil {
		return err
	}
	if err := q.Put(ctx, []byte("a")); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	consumed := false
	err = q.Consume(ctx, func(context.Context, []byte) error {
		consumed = true
		stop()
		return nil
	})
	if !consumed {
		return fmt.Errorf("no item was consumed: %w", err)
	}
	return nil
}

// useNode keeps a znode for a moment.
func useNode(ctx context.Context, n *nodes.PersistentNode, err error) error {
	if err != nil {
		return err
	}
	if err := n.Start(); err != nil {
		return err
	}
	return errors.Join(n.WaitForInitialCreate(ctx), n.Close())
}

// Everything stands below /team/app, which the client may only read.
var tenants = []tenant{
	{"shared value", []string{"value"}, nil, func(ctx context.Context, c *framework.Framework) error {
		v, err := shared.NewSharedValue(c, "/team/app/value", []byte("seed"))
		return started(v, err)(ctx, func() error { return v.SetValue(ctx, []byte("a")) })
	}},
	{"shared value that it may only read", nil, []string{"value"}, func(ctx context.Context, c *framework.Framework) error {
		v, err := shared.NewSharedValue(c, "/team/app/value", []byte("seed"))
		return started(v, err)(ctx, nothing)
	}},
	{"shared count", []string{"count=\x00\x00\x00\x07"}, nil, func(ctx context.Context, c *framework.Framework) error {
		n, err := shared.NewSharedCount(c, "/team/app/count", 7)
		return started(n, err)(ctx, func() error { return n.SetCount(ctx, 8) })
	}},
	{"atomic value", []string{"atomic"}, nil, func(ctx context.Context, c *framework.Framework) error {
		n, err := counters.NewDistributedAtomicValue(c, "/team/app/atomic")
		if err != nil {
			return err
		}
		_, err = n.TrySet(ctx, []byte("a"))
		return err
	}},
	{"once", []string{"once/run", "once/done", "once/purge"}, []string{"once"}, func(ctx context.Context, c *framework.Framework) error {
		once, err := leader.NewOnce(c, "/team/app/once")
		if err != nil {
			return err
		}
		ran, err := once.Do(ctx, "a", func(context.Context) error { return nil })
		if err != nil || !ran {
			return fmt.Errorf("ran %t: %w", ran, err)
		}
		return once.Purge(ctx)
	}},
	{"selector", []string{"selector"}, nil, func(ctx context.Context, c *framework.Framework) error {
		s, err := leader.NewLeaderSelector(c, "/team/app/selector")
		if err != nil {
			return err
		}
		return s.Run(ctx, func(context.Context) error { return leader.ErrStop })
	}},
	{"barrier", nil, []string{"barrier"}, func(ctx context.Context, c *framework.Framework) error {
		b, err := barriers.NewDistributedBarrier(c, "/team/app/barrier")
		if err != nil {
			return err
		}
		return b.SetBarrier(ctx)
	}},
	{"barrier that is not set", nil, nil, func(ctx context.Context, c *framework.Framework) error {
		b, err := barriers.NewDistributedBarrier(c, "/team/app/barrier")
		if err != nil {
			return err
		}
		return b.WaitOnBarrier(ctx)
	}},
	{"double barrier", []string{"double"}, nil, func(ctx context.Context, c *framework.Framework) error {
		b, err := barriers.NewDistributedDoubleBarrier(c, "/team/app/double", 1)
		if err != nil {
			return err
		}
		if err := b.Enter(ctx); err != nil {
			return err
		}
		return b.Leave(ctx)
	}},
	{"queue", []string{"queue"}, nil, func(ctx context.Context, c *framework.Framework) error {
		q, err := queues.NewDistributedQueue(c, "/team/app/queue")
		return useQueue(ctx, q, err)
	}},
	{"queue with locks", []string{"queue", "queue-locks"}, nil, func(ctx context.Context, c *framework.Framework) error {
		q, err := queues.NewDistributedQueue(c, "/team/app/queue", queues.WithLockPath("/team/app/queue-locks"))
		return useQueue(ctx, q, err)
	}},
	{"simple queue", []string{"simple"}, nil, func(ctx context.Context, c *framework.Framework) error {
		q, err := queues.NewSimpleDistributedQueue(c, "/team/app/simple")
		if err != nil {
			return err
		}
		if err := q.Offer(ctx, []byte("a")); err != nil {
			return err
		}
		_, err = q.Take(ctx)
		return err
	}},
	{"discovery", []string{"services/search"}, []string{"services"}, func(ctx context.Context, c *framework.Framework) error {
		d, err := discovery.NewServiceDiscovery(c, "/team/app/services", discovery.JSONSerializer[string]{})
		if err != nil {
			return err
		}
		return errors.Join(d.Register(ctx, discovery.NewInstance[string]("search", "a", 80)), d.Close())
	}},
	{"persistent node", []string{"nodes"}, nil, func(ctx context.Context, c *framework.Framework) error {
		n, err := nodes.NewPersistentNode(c, "/team/app/nodes/a", framework.Ephemeral, nil)
		return useNode(ctx, n, err)
	}},
	{"persistent node that is there", []string{"nodes/a"}, []string{"nodes"}, func(ctx context.Context, c *framework.Framework) error {
		n, err := nodes.NewPersistentNode(c, "/team/app/nodes/a", framework.Persistent, []byte("a"))
		return useNode(ctx, n, err)
	}},
	{"group member", []string{"group"}, nil, func(ctx context.Context, c *framework.Framework) error {
		g, err := nodes.NewGroupMember(c, "/team/app/group", "a", nil)
		if err != nil {
			return err
		}
		if err := g.Start(); err != nil {
			return err
		}
		return errors.Join(g.WaitUntilJoined(ctx), g.Close())
	}},
	{"mutex", []string{"mutex"}, nil, func(ctx context.Context, c *framework.Framework) error {
		l, err := locks.NewInterProcessMutex(c, "/team/app/mutex")
		return useLock(ctx, l, err)
	}},
	{"semaphore", []string{"semaphore/locks", "semaphore/leases"}, []string{"semaphore"}, func(ctx context.Context, c *framework.Framework) error {
		l, err := locks.NewInterProcessSemaphoreV2(c, "/team/app/semaphore", locks.FixedLeases(1))
		return useLock(ctx, l, err)
	}},
	{"cache", nil, []string{"tree"}, func(ctx context.Context, c *framework.Framework) error {
		tree, err := cache.NewCuratorCache(c, "/team/app/tree")
		if err != nil {
			return err
		}
		if err := tree.Start(); err != nil {
			return err
		}
		err = tree.Fresh(ctx)
		if size := tree.Size(); err == nil && size != 1 {
			err = fmt.Errorf("the picture has %d znodes, expected 1", size)
		}
		return errors.Join(err, tree.Close())
	}},
	{"namespace", []string{"folder"}, nil, func(ctx context.Context, c *framework.Framework) error {
		view, err := c.UsingNamespace("team/app/folder")
		if err != nil {
			return err
		}
		_, err = view.Create(ctx, "/a", nil)
		return err
	}},
}

// A server checks the permission to create before it looks whether the znode exists.
func TestReadonlyParentRecipesUseWhatAnAdministratorHasMade(t *testing.T) {
	// The administrator may take away what the test has made.
	readOnly := zk.WorldACL(framework.PermRead | framework.PermDelete | framework.PermAdmin)
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		admin, client := zktest.Client(t, server), zktest.Client(t, server)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		for _, c := range tenants {
			require.NoError(t, admin.Mkdirs(ctx, "/team/app"))
			for _, made := range slices.Concat(c.open, c.readOnly) {
				name, data, _ := strings.Cut(made, "=")
				must.Get(admin.Create(ctx, "/team/app/"+name, []byte(data), framework.CreatingParentsIfNeeded(), framework.OrSetData()))(t)
			}
			for _, name := range c.readOnly {
				require.NoError(t, admin.SetACL(ctx, "/team/app/"+name, readOnly))
			}
			require.NoError(t, admin.SetACL(ctx, "/team/app", readOnly))
			require.NoError(t, admin.SetACL(ctx, "/team", readOnly))

			require.NoError(t, c.use(ctx, client), c.name)

			require.NoError(t, admin.Delete(ctx, "/team", framework.DeletingChildrenIfNeeded()))
		}
	})
}
