// SPDX-License-Identifier: Apache-2.0

// Package fleet has clients that are healthy, and use all recipes. What watches them must find nothing wrong.
package fleet

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/leader"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/recipes/queues"
	"github.com/gocurator/curator/recipes/x/partition"
	"github.com/gocurator/curator/recipes/x/schedule"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// Paths are those of the recipes of a fleet.
var Paths = []string{"/mutex/a", "/mutex/b", "/mutex/long", "/rw", "/sem", "/first", "/latch", "/election/a", "/election/b", "/group", "/cron", "/queue"}

// Run has some clients take turns until the context ends, each in several goroutines, on fake time.
func Run(ctx context.Context, t *testing.T, wg *sync.WaitGroup, server *zkserver.Server, random *rand.Rand) {
	t.Helper()
	for range 2 + random.IntN(4) {
		client := zktest.Client(t, server, framework.WithSessionTimeout(time.Duration(4+random.IntN(10))*time.Second))
		for _, begin := range background {
			if random.IntN(3) == 0 {
				begin(ctx, t, wg, client)
			}
		}
		all := takenInTurns(t, client)
		for range random.IntN(5) { // or it sends nothing but pings
			seed := random.Uint64()
			wg.Go(func() {
				random := rand.New(rand.NewPCG(seed, 1))
				for ctx.Err() == nil {
					takeSeveral(ctx, t, random, all)
				}
			})
		}
	}
}

// takeSeveral takes one lock, or several, one under another. All clients take them in one order.
func takeSeveral(ctx context.Context, t *testing.T, random *rand.Rand, all [][]locks.InterProcessLock) {
	t.Helper()
	if len(all) == 0 || ctx.Err() != nil {
		return
	}
	first := random.IntN(len(all))
	lease, err := all[first][random.IntN(len(all[first]))].Acquire(ctx)
	if err != nil {
		assert.ErrorIs(t, err, context.Canceled)
		return
	}
	sleep(ctx, time.Duration(random.Int64N(int64(time.Second))))
	if random.IntN(2) == 0 {
		within := ctx
		if random.IntN(2) == 0 {
			within = lease.Context(ctx)
		}
		takeSeveral(within, t, random, all[first+1:])
	}
	sleep(ctx, time.Duration(random.Int64N(int64(time.Second))))
	assert.NoError(t, lease.Release(context.Background()))
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// takenInTurns are locks in the order in which clients take them. Those that exclude each other are together.
func takenInTurns(t *testing.T, client *framework.Framework) [][]locks.InterProcessLock {
	t.Helper()
	mutex := func(path string) locks.InterProcessLock {
		m, err := locks.NewInterProcessMutex(client, path)
		require.NoError(t, err)
		return m
	}
	rw, err := locks.NewInterProcessReadWriteLock(client, "/rw")
	require.NoError(t, err)
	sem, err := locks.NewInterProcessSemaphoreV2(client, "/sem", locks.FixedLeases(2))
	require.NoError(t, err)
	first, err := locks.NewInterProcessSemaphore(client, "/first", locks.FixedLeases(2))
	require.NoError(t, err)
	return [][]locks.InterProcessLock{{mutex("/mutex/a")}, {mutex("/mutex/b")}, {rw.ReadLock(), rw.ReadLock(), rw.WriteLock()}, {sem}, {first}}
}

// background has what a client may do beside: lead, work on partitions, run jobs, put and take items, and hold a lock for long.
var background = []func(ctx context.Context, t *testing.T, wg *sync.WaitGroup, client *framework.Framework){
	func(ctx context.Context, t *testing.T, wg *sync.WaitGroup, client *framework.Framework) {
		t.Helper()
		latch, err := leader.NewLeaderLatch(client, "/latch")
		require.NoError(t, err)
		require.NoError(t, latch.Start())
		wg.Go(func() {
			<-ctx.Done()
			assert.NoError(t, latch.Close())
		})
	},
	func(ctx context.Context, t *testing.T, wg *sync.WaitGroup, client *framework.Framework) {
		t.Helper()
		for _, path := range []string{"/election/a", "/election/b"} {
			selector, err := leader.NewLeaderSelector(client, path, leader.WithAutoRequeue())
			require.NoError(t, err)
			goOn(ctx, t, wg, func(ctx context.Context) error {
				return selector.Run(ctx, func(ctx context.Context) error {
					sleep(ctx, 7*time.Second)
					return nil
				})
			})
		}
	},
	func(ctx context.Context, t *testing.T, wg *sync.WaitGroup, client *framework.Framework) {
		t.Helper()
		member, err := partition.New(client, "/group", partition.Fixed("p", "q", "r"))
		require.NoError(t, err)
		goOn(ctx, t, wg, func(ctx context.Context) error {
			return member.Run(ctx, func(ctx context.Context, _ partition.Partition) error {
				<-ctx.Done()
				return nil
			})
		})
	},
	func(ctx context.Context, t *testing.T, wg *sync.WaitGroup, client *framework.Framework) {
		t.Helper()
		jobs, err := schedule.New(client, "/cron", schedule.Job{
			Name: "sync", Schedule: schedule.Every(5 * time.Second), Run: func(ctx context.Context, _ schedule.Tick) error {
				sleep(ctx, time.Second)
				return nil
			},
		})
		require.NoError(t, err)
		goOn(ctx, t, wg, jobs.Run)
	},
	func(ctx context.Context, t *testing.T, wg *sync.WaitGroup, client *framework.Framework) {
		t.Helper()
		queue, err := queues.NewDistributedQueue(client, "/queue", queues.WithLockPath("/queue-locks"))
		require.NoError(t, err)
		goOn(ctx, t, wg, func(ctx context.Context) error {
			return queue.Consume(ctx, func(ctx context.Context, _ []byte) error {
				sleep(ctx, time.Second)
				return nil
			})
		})
		goOn(ctx, t, wg, func(ctx context.Context) error {
			for {
				if err := queue.Put(ctx, []byte("work")); err != nil {
					return err
				}
				sleep(ctx, 3*time.Second)
			}
		})
	},
	func(ctx context.Context, t *testing.T, wg *sync.WaitGroup, client *framework.Framework) {
		t.Helper()
		mutex, err := locks.NewInterProcessMutex(client, "/mutex/long")
		require.NoError(t, err)
		goOn(ctx, t, wg, func(ctx context.Context) error {
			return mutex.Do(ctx, func(ctx context.Context) error {
				<-ctx.Done()
				return context.Cause(ctx)
			})
		})
	},
}

// goOn runs what ends with its context.
func goOn(ctx context.Context, t *testing.T, wg *sync.WaitGroup, run func(context.Context) error) {
	t.Helper()
	wg.Go(func() { assert.ErrorIs(t, run(ctx), context.Canceled) })
}
