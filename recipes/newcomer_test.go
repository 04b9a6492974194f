// SPDX-License-Identifier: Apache-2.0

package recipes_test

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	counters "github.com/gocurator/curator/recipes/atomic"
	"github.com/gocurator/curator/recipes/barriers"
	"github.com/gocurator/curator/recipes/cache"
	"github.com/gocurator/curator/recipes/discovery"
	"github.com/gocurator/curator/recipes/leader"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/recipes/migration"
	"github.com/gocurator/curator/recipes/nodes"
	"github.com/gocurator/curator/recipes/queues"
	"github.com/gocurator/curator/recipes/shared"
	"github.com/gocurator/curator/recipes/typed"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// newcomer is a recipe that begins before its client has ever had a server. begin makes it, and
// returns what succeeds when there is one.
type newcomer struct {
	of    string // the constructor
	begin func(t *testing.T, c *framework.Framework) (works func(context.Context) error)
}

// calling begins a call. If it has failed for want of a server it is made again.
func calling(call func(ctx context.Context, c *framework.Framework) error) func(*testing.T, *framework.Framework) func(context.Context) error {
	return func(t *testing.T, c *framework.Framework) func(context.Context) error {
		t.Helper()
		result := make(chan error, 1)
		go func() { result <- call(t.Context(), c) }()
		return func(ctx context.Context) error {
			err := zktest.Await(t, result, "the call")
			if framework.Retryable(err) {
				return call(ctx, c)
			}
			return err
		}
	}
}

// acquiring acquires and releases a lease.
func acquiring[L interface {
	Acquire(ctx context.Context) (*locks.Lease, error)
}](lock func(c *framework.Framework) (L, error),
) func(*testing.T, *framework.Framework) func(context.Context) error {
	return calling(func(ctx context.Context, c *framework.Framework) error {
		l, err := lock(c)
		if err != nil {
			return err
		}
		lease, err := l.Acquire(ctx)
		if err != nil {
			return err
		}
		return lease.Release(ctx)
	})
}

// consuming starts a consumer, and puts an item when there is a server.
func consuming(open func(c *framework.Framework) (consume func(context.Context, func(context.Context, []byte) error) error, put func(context.Context) error, err error)) func(*testing.T, *framework.Framework) func(context.Context) error {
	return func(t *testing.T, c *framework.Framework) func(context.Context) error {
		t.Helper()
		consume, put, err := open(c)
		require.NoError(t, err)
		ctx, stop := context.WithCancel(context.Background())
		got, ended := make(chan struct{}, 1), make(chan error, 1)
		go func() {
			ended <- consume(ctx, func(context.Context, []byte) error { got <- struct{}{}; return nil })
		}()
		t.Cleanup(func() {
			stop()
			require.Error(t, <-ended, "it was stopped")
		})
		return func(ctx context.Context) error {
			if err := put(ctx); err != nil {
				return err
			}
			select {
			case <-got:
				return nil
			case err := <-ended:
				ended <- err
				return fmt.Errorf("the consumer has ended: %w", err)
			}
		}
	}
}

func closing(t *testing.T, c interface{ Close() error }) {
	t.Helper()
	t.Cleanup(func() { require.NoError(t, c.Close()) })
}

var newcomers = []newcomer{
	{"atomic.NewDistributedAtomicValue", calling(func(ctx context.Context, c *framework.Framework) error {
		v, err := counters.NewDistributedAtomicValue(c, "/value")
		if err == nil {
			_, err = v.TrySet(ctx, []byte("a"))
		}
		return err
	})},
	{"atomic.NewDistributedAtomicLong", calling(func(ctx context.Context, c *framework.Framework) error {
		n, err := counters.NewDistributedAtomicLong(c, "/long", counters.WithPromotedToLock("/lock", 0))
		if err == nil {
			_, err = n.Increment(ctx)
		}
		return err
	})},
	{"atomic.NewDistributedAtomicInteger", calling(func(ctx context.Context, c *framework.Framework) error {
		n, err := counters.NewDistributedAtomicInteger(c, "/integer")
		if err == nil {
			_, err = n.Increment(ctx)
		}
		return err
	})},
	{"atomic.NewCachedAtomicLong", calling(func(ctx context.Context, c *framework.Framework) error {
		n, err := counters.NewDistributedAtomicLong(c, "/long")
		if err != nil {
			return err
		}
		cached, err := counters.NewCachedAtomicLong(n, 10)
		if err == nil {
			_, err = cached.Next(ctx)
		}
		return err
	})},
	{"atomic.NewCachedAtomicInteger", calling(func(ctx context.Context, c *framework.Framework) error {
		n, err := counters.NewDistributedAtomicInteger(c, "/integer")
		if err != nil {
			return err
		}
		cached, err := counters.NewCachedAtomicInteger(n, 10)
		if err == nil {
			_, err = cached.Next(ctx)
		}
		return err
	})},
	{"barriers.NewDistributedBarrier", calling(func(ctx context.Context, c *framework.Framework) error {
		b, err := barriers.NewDistributedBarrier(c, "/barrier")
		if err == nil {
			err = b.WaitOnBarrier(ctx)
		}
		return err
	})},
	{"barriers.NewDistributedDoubleBarrier", calling(func(ctx context.Context, c *framework.Framework) error {
		b, err := barriers.NewDistributedDoubleBarrier(c, "/double", 1)
		if err != nil {
			return err
		}
		if err := b.Enter(ctx); err != nil {
			return err
		}
		return b.Leave(ctx)
	})},
	{"cache.NewCuratorCache", func(t *testing.T, c *framework.Framework) func(context.Context) error {
		t.Helper()
		tree := must.Get(cache.NewCuratorCache(c, "/tree"))(t)
		closing(t, tree)
		require.NoError(t, tree.Start())
		return func(ctx context.Context) error {
			if _, err := c.Create(ctx, "/tree", []byte("a")); err != nil {
				return err
			}
			if err := tree.Fresh(ctx); err != nil || tree.Size() == 1 {
				return err
			}
			return errors.New("the picture is empty")
		}
	}},
	{"discovery.NewServiceDiscovery", func(t *testing.T, c *framework.Framework) func(context.Context) error {
		t.Helper()
		d := must.Get(discovery.NewServiceDiscovery(c, "/services", discovery.JSONSerializer[string]{}))(t)
		closing(t, d)
		provider := must.Get(d.NewProvider("search", discovery.ProviderConfig[string]{}))(t)
		closing(t, provider)
		require.NoError(t, provider.Start())
		begin := func(ctx context.Context) error {
			if err := d.Register(ctx, discovery.NewInstance[string]("search", "a", 80)); err != nil {
				return err
			}
			return provider.Wait(ctx)
		}
		result := make(chan error, 1)
		go func() { result <- begin(t.Context()) }()
		return func(ctx context.Context) error {
			if err := zktest.Await(t, result, "the registration"); err != nil {
				return err
			}
			for len(provider.Instances()) == 0 {
				if ctx.Err() != nil {
					return ctx.Err()
				}
				time.Sleep(10 * time.Millisecond)
			}
			return nil
		}
	}},
	{"leader.NewLeaderLatch", func(t *testing.T, c *framework.Framework) func(context.Context) error {
		t.Helper()
		latch := must.Get(leader.NewLeaderLatch(c, "/latch"))(t)
		closing(t, latch)
		require.NoError(t, latch.Start())
		return func(ctx context.Context) error {
			_, err := latch.Await(ctx)
			return err
		}
	}},
	{"leader.NewLeaderSelector", calling(func(ctx context.Context, c *framework.Framework) error {
		s, err := leader.NewLeaderSelector(c, "/selector")
		if err == nil {
			err = s.Run(ctx, func(context.Context) error { return nil })
		}
		return err
	})},
	{"leader.NewOnce", calling(func(ctx context.Context, c *framework.Framework) error {
		once, err := leader.NewOnce(c, "/jobs")
		if err == nil {
			_, err = once.Do(ctx, "a", func(context.Context) error { return nil })
		}
		return err
	})},
	{"locks.NewInterProcessMutex", acquiring(func(c *framework.Framework) (*locks.InterProcessMutex, error) {
		return locks.NewInterProcessMutex(c, "/mutex")
	})},
	{"locks.NewInterProcessReadWriteLock", acquiring(func(c *framework.Framework) (*locks.WriteLock, error) {
		l, err := locks.NewInterProcessReadWriteLock(c, "/readwrite")
		if err != nil {
			return nil, err
		}
		return l.WriteLock(), nil
	})},
	{"locks.NewInterProcessSemaphore", acquiring(func(c *framework.Framework) (*locks.InterProcessSemaphore, error) {
		return locks.NewInterProcessSemaphore(c, "/semaphore", locks.FixedLeases(1))
	})},
	{"locks.NewInterProcessSemaphoreV2", acquiring(func(c *framework.Framework) (*locks.InterProcessSemaphoreV2, error) {
		return locks.NewInterProcessSemaphoreV2(c, "/semaphore-v2", locks.FixedLeases(1))
	})},
	{"locks.NewSharedLeases", acquiring(func(c *framework.Framework) (*locks.InterProcessSemaphoreV2, error) {
		leases, err := locks.NewSharedLeases(c, "/leases", 1)
		if err != nil {
			return nil, err
		}
		return locks.NewInterProcessSemaphoreV2(c, "/semaphore-v2", leases)
	})},
	{"locks.NewInterProcessSemaphoreMutex", acquiring(func(c *framework.Framework) (*locks.InterProcessSemaphoreMutex, error) {
		return locks.NewInterProcessSemaphoreMutex(c, "/semaphore-mutex")
	})},
	{"locks.NewLockInternals", acquiring(func(c *framework.Framework) (*locks.LockInternals, error) {
		return locks.NewLockInternals(c, locks.StandardLockInternalsDriver{}, "/internals", "lock-", 1)
	})},
	{"locks.NewInterProcessMultiLock", calling(func(ctx context.Context, c *framework.Framework) error {
		mutex, err := locks.NewInterProcessMutex(c, "/mutex")
		if err != nil {
			return err
		}
		multi, err := locks.NewInterProcessMultiLock(mutex)
		if err != nil {
			return err
		}
		lease, err := multi.Acquire(ctx)
		if err != nil {
			return err
		}
		return lease.Release(ctx)
	})},
	{"nodes.NewPersistentNode", func(t *testing.T, c *framework.Framework) func(context.Context) error {
		t.Helper()
		n := must.Get(nodes.NewPersistentNode(c, "/node", framework.Ephemeral, nil))(t)
		closing(t, n)
		require.NoError(t, n.Start())
		return n.WaitForInitialCreate
	}},
	{"nodes.NewPersistentTtlNode", func(t *testing.T, c *framework.Framework) func(context.Context) error {
		t.Helper()
		n := must.Get(nodes.NewPersistentTtlNode(c, "/ttl", time.Minute, nil))(t)
		closing(t, n)
		require.NoError(t, n.Start())
		return n.WaitForInitialCreate
	}},
	{"nodes.NewGroupMember", func(t *testing.T, c *framework.Framework) func(context.Context) error {
		t.Helper()
		g := must.Get(nodes.NewGroupMember(c, "/group", "a", nil))(t)
		closing(t, g)
		require.NoError(t, g.Start())
		return g.WaitUntilJoined // the members include this one even before that
	}},
	{"queues.NewDistributedQueue", consuming(func(c *framework.Framework) (func(context.Context, func(context.Context, []byte) error) error, func(context.Context) error, error) {
		q, err := queues.NewDistributedQueue(c, "/queue")
		return q.Consume, func(ctx context.Context) error { return q.Put(ctx, nil) }, err
	})},
	{"queues.NewDistributedPriorityQueue", consuming(func(c *framework.Framework) (func(context.Context, func(context.Context, []byte) error) error, func(context.Context) error, error) {
		q, err := queues.NewDistributedPriorityQueue(c, "/queue")
		return q.Consume, func(ctx context.Context) error { return q.Put(ctx, nil, 1) }, err
	})},
	{"queues.NewDistributedDelayQueue", consuming(func(c *framework.Framework) (func(context.Context, func(context.Context, []byte) error) error, func(context.Context) error, error) {
		q, err := queues.NewDistributedDelayQueue(c, "/queue")
		return q.Consume, func(ctx context.Context) error { return q.Put(ctx, nil, time.Now()) }, err
	})},
	{"queues.NewDistributedIdQueue", consuming(func(c *framework.Framework) (func(context.Context, func(context.Context, []byte) error) error, func(context.Context) error, error) {
		q, err := queues.NewDistributedIdQueue(c, "/queue")
		return q.Consume, func(ctx context.Context) error { return q.Put(ctx, nil, "a") }, err
	})},
	{"queues.NewQueueSharder", func(t *testing.T, c *framework.Framework) func(context.Context) error {
		t.Helper()
		open := func(path string) (*queues.DistributedQueue, error) { return queues.NewDistributedQueue(c, path) }
		s := must.Get(queues.NewQueueSharder(c, open, "/queues", "/sharder"))(t)
		closing(t, s)
		return calling(func(ctx context.Context, _ *framework.Framework) error { return s.Start(ctx) })(t, c)
	}},
	{"queues.NewSimpleDistributedQueue", calling(func(ctx context.Context, c *framework.Framework) error {
		q, err := queues.NewSimpleDistributedQueue(c, "/simple")
		if err != nil {
			return err
		}
		if err := q.Offer(ctx, []byte("a")); err != nil {
			return err
		}
		_, err = q.Take(ctx)
		return err
	})},
	{"shared.NewSharedCount", func(t *testing.T, c *framework.Framework) func(context.Context) error {
		t.Helper()
		n := must.Get(shared.NewSharedCount(c, "/count", 1))(t)
		closing(t, n)
		return calling(func(ctx context.Context, _ *framework.Framework) error { return n.Start(ctx) })(t, c)
	}},
	{"shared.NewSharedValue", func(t *testing.T, c *framework.Framework) func(context.Context) error {
		t.Helper()
		v := must.Get(shared.NewSharedValue(c, "/value", nil))(t)
		closing(t, v)
		return calling(func(ctx context.Context, _ *framework.Framework) error { return v.Start(ctx) })(t, c)
	}},
	{"migration.NewManager", calling(func(ctx context.Context, c *framework.Framework) error {
		m, err := migration.NewManager(c, "/migrations/locks")
		if err != nil {
			return err
		}
		return m.Migrate(ctx, migration.Set{
			ID: "a", MetadataPath: "/migrations/a", Migrations: []migration.Migration{{migration.Create("/migrated", nil)}},
		})
	})},
	{"typed.NewNode", calling(func(ctx context.Context, c *framework.Framework) error {
		n, err := typed.NewNode(c, "/typed", typed.JSON[string]())
		if err == nil {
			_, err = n.Create(ctx, "a")
		}
		return err
	})},
	{"typed.NewFolder", calling(func(ctx context.Context, c *framework.Framework) error {
		f, err := typed.NewFolder(c, "/typed/{id}", typed.JSON[string]())
		if err != nil {
			return err
		}
		n, err := f.Node("a")
		if err == nil {
			_, err = n.Create(ctx, "a", framework.CreatingParentsIfNeeded())
		}
		return err
	})},
}

// noRecipes are the constructors of what needs no server.
var noRecipes = []string{
	"cache.NewStandardStorage", "cache.NewStorageWithoutData", "discovery.NewInstance", "discovery.NewTransport", "fence.NewRegister",
}

// unreachable starts a client that reaches the server only once reach is called.
func unreachable(t *testing.T, server *zkserver.Server, opts ...framework.Option) (client *framework.Framework, reach func()) {
	t.Helper()
	var reachable atomic.Bool
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		if !reachable.Load() {
			return nil, syscall.ECONNREFUSED
		}
		return server.Dial(ctx, network, addr)
	}
	client, err := framework.New("memory:2181", append(opts, framework.WithDialer(dial), framework.WithLogger(slog.New(slog.DiscardHandler)))...)
	require.NoError(t, err)
	require.NoError(t, client.Start())
	closing(t, client)
	return client, func() { reachable.Store(true) }
}

// Every recipe may begin before there was ever a server. It works when there is one.
func TestNewcomerRecipesThatBeginBeforeThereWasEverAServer(t *testing.T) {
	for _, n := range newcomers {
		t.Run(n.of, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := zktest.NewServer(t, zkserver.WithoutListener())
				client, reach := unreachable(t, server)
				works := n.begin(t, client)
				time.Sleep(5 * time.Minute)

				reach()

				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
				defer cancel()
				require.NoError(t, works(ctx))
			})
		})
	}
}

// The table has every constructor of a recipe.
func TestNewcomerEveryRecipeIsANewcomer(t *testing.T) {
	var all, known []string
	folders := must.Get(filepath.Glob("*/doc.go"))(t)
	for _, folder := range folders {
		folder = filepath.Dir(folder)
		files := must.Get(os.ReadDir(folder))(t)
		for _, file := range files {
			if !strings.HasSuffix(file.Name(), ".go") || strings.HasSuffix(file.Name(), "_test.go") {
				continue
			}
			parsed := must.Get(parser.ParseFile(token.NewFileSet(), filepath.Join(folder, file.Name()), nil, 0))(t)
			for _, decl := range parsed.Decls {
				if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "New") {
					all = append(all, folder+"."+f.Name.Name)
				}
			}
		}
	}
	for _, n := range newcomers {
		known = append(known, n.of)
	}
	require.NotEmpty(t, all)
	require.ElementsMatch(t, all, slices.Concat(known, noRecipes))
}
