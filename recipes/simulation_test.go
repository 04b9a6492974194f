// SPDX-License-Identifier: Apache-2.0

package recipes_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/seeds"
	"github.com/gocurator/curator/recipes/barriers"
	"github.com/gocurator/curator/recipes/leader"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/recipes/nodes"
	"github.com/gocurator/curator/recipes/queues"
	"github.com/gocurator/curator/testing/zksim"
)

// upTo is a random time below a bound.
func upTo(random *rand.Rand, bound time.Duration) time.Duration {
	return time.Duration(random.Int64N(int64(bound)))
}

// holding has an actor acquire a lock, hold it for a while, and release it.
func holding(w *zksim.World, c *zksim.Client, hold zksim.Hold, lock locks.InterProcessLock) func(ctx context.Context, random *rand.Rand) {
	return func(ctx context.Context, random *rand.Rand) {
		acquire := lock.Acquire
		switch random.IntN(6) {
		case 0:
			acquire = lock.TryAcquire
		case 1:
			waiting, cancel := context.WithTimeout(ctx, upTo(random, 10*time.Second))
			defer cancel()
			acquire = func(context.Context) (*locks.Lease, error) { return lock.Acquire(waiting) }
		default: // however long it takes
		}
		lease, err := acquire(ctx)
		if err != nil {
			w.Logf("client %d: %v", c.Index, err)
			return
		}
		hold.Client, hold.Token = c.Index, lease.Token()
		hold.IsOver = func() bool { return lease.Err() != nil }
		leave := w.Enter(hold)
		select {
		case <-time.After(upTo(random, 3*time.Second)):
		case <-lease.Done():
		}
		leave()
		if err := lease.Release(ctx); err != nil {
			w.Logf("client %d: %v", c.Index, err)
		}
	}
}

// downgrade has an actor write, and then read in the place of the writer.
func downgrade(w *zksim.World, c *zksim.Client, lock *locks.InterProcessReadWriteLock) act {
	return func(ctx context.Context, random *rand.Rand) {
		writing, err := lock.WriteLock().Acquire(ctx)
		if err != nil {
			w.Logf("client %d: %v", c.Index, err)
			return
		}
		leave := w.Enter(zksim.Hold{
			Key: "/lock", Client: c.Index, Exclusive: true, Token: writing.Token(),
			IsOver: func() bool { return writing.Err() != nil },
		})
		reading, err := lock.ReadLock().Acquire(writing.Context(ctx))
		leave()
		if released := writing.Release(ctx); released != nil || err != nil {
			w.Logf("client %d: downgrade: %v, %v", c.Index, err, released)
		}
		if err != nil {
			return
		}
		leave = w.Enter(zksim.Hold{Key: "/lock", Client: c.Index, IsOver: func() bool { return reading.Err() != nil }})
		select {
		case <-time.After(upTo(random, 3*time.Second)):
		case <-reading.Done():
		}
		leave()
		if err := reading.Release(ctx); err != nil {
			w.Logf("client %d: %v", c.Index, err)
		}
	}
}

type act = func(ctx context.Context, random *rand.Rand)

// shortSessions are so short that servers that are cut off expire them, and as long as the default policy needs.
var shortSessions = []framework.Option{framework.WithSessionTimeout(4 * time.Second)}

// simulations are programs of recipes, by name.
var simulations = map[string]zksim.Program{
	"mutex": {
		Options: shortSessions,
		Join: func(w *zksim.World, c *zksim.Client) (act, error) {
			mutex, err := locks.NewInterProcessMutex(c.Framework, "/lock")
			return holding(w, c, zksim.Hold{Key: "/lock", Exclusive: true}, mutex), err
		},
	},
	"mutex under QuorumErrorPolicy": {
		Options: []framework.Option{framework.WithSessionTimeout(2 * time.Second), framework.WithErrorPolicy(framework.QuorumErrorPolicy)},
		Join: func(w *zksim.World, c *zksim.Client) (act, error) {
			mutex, err := locks.NewInterProcessMutex(c.Framework, "/lock")
			return holding(w, c, zksim.Hold{Key: "/lock", Exclusive: true}, mutex), err
		},
	},
	"readers and writers": {
		Clients: 4,
		Options: shortSessions,
		Join: func(w *zksim.World, c *zksim.Client) (act, error) {
			lock, err := locks.NewInterProcessReadWriteLock(c.Framework, "/lock")
			if err != nil {
				return nil, err
			}
			read := holding(w, c, zksim.Hold{Key: "/lock"}, lock.ReadLock())
			write := holding(w, c, zksim.Hold{Key: "/lock", Exclusive: true}, lock.WriteLock())
			return func(ctx context.Context, random *rand.Rand) {
				switch random.IntN(4) {
				case 0:
					write(ctx, random)
				case 1:
					downgrade(w, c, lock)(ctx, random)
				default:
					read(ctx, random)
				}
			}, nil
		},
	},
	"semaphore": {
		Clients: 4,
		Options: shortSessions,
		Join: func(w *zksim.World, c *zksim.Client) (act, error) {
			semaphore, err := locks.NewInterProcessSemaphoreV2(c.Framework, "/lock", locks.FixedLeases(2))
			return holding(w, c, zksim.Hold{Key: "/lock", Places: 2}, semaphore), err
		},
	},
	"leader": {
		Options: shortSessions,
		Join: func(w *zksim.World, c *zksim.Client) (act, error) {
			selector, err := leader.NewLeaderSelector(c.Framework, "/lock")
			return func(ctx context.Context, random *rand.Rand) {
				err := selector.Run(ctx, func(ctx context.Context) error {
					token := locks.LeaseFrom(ctx).Token()
					defer w.Enter(zksim.Hold{
						Key: "/lock", Client: c.Index, Exclusive: true, Token: token,
						IsOver: func() bool { return ctx.Err() != nil },
					})()
					select {
					case <-time.After(upTo(random, 3*time.Second)):
					case <-ctx.Done():
					}
					return nil
				})
				if err != nil {
					w.Logf("client %d: %v", c.Index, err)
				}
			}, err
		},
	},
	"Once":           onceOnly(),
	"double barrier": doubleBarrier(),
	"node":           closedNodes(),
	"simple queue":   simpleQueue(),
}

// onceOnly is about jobs that are done once: no two clients are told that they have done one.
func onceOnly() zksim.Program {
	type key struct {
		w   *zksim.World
		job string
	}
	var did sync.Map
	return zksim.Program{
		Options: shortSessions,
		Join: func(w *zksim.World, c *zksim.Client) (act, error) {
			once, err := leader.NewOnce(c.Framework, "/once")
			return func(ctx context.Context, random *rand.Rand) {
				job := "job-" + strconv.Itoa(random.IntN(4))
				ran, err := once.Do(ctx, job, func(ctx context.Context) error {
					defer w.Enter(zksim.Hold{Key: job, Client: c.Index, Exclusive: true, IsOver: func() bool { return ctx.Err() != nil }})()
					time.Sleep(upTo(random, time.Second))
					return context.Cause(ctx)
				})
				w.Logf("client %d: %s: ran %t: %v", c.Index, job, ran, err)
				if !ran || err != nil {
					return
				}
				if _, twice := did.LoadOrStore(key{w, job}, true); twice {
					w.Findf("%s has run twice", job)
				}
			}, err
		},
	}
}

// doubleBarrier is about rounds: none begins before all members have come, and none is left before all leave.
func doubleBarrier() zksim.Program {
	const members = 3
	var worlds sync.Map
	type rounds struct {
		sync.Mutex
		here [members]int // how many calls of Enter of a member may count
	}
	return zksim.Program{
		Clients: members,
		Actions: 10,
		Faults:  append(slices.Repeat([]zksim.Fault{zksim.KillSession}, len(zksim.Usual)), zksim.Usual...),
		Options: shortSessions,
		Join: func(w *zksim.World, c *zksim.Client) (act, error) {
			shared, _ := worlds.LoadOrStore(w, new(rounds))
			r := shared.(*rounds)
			mark := func(change int) {
				r.Lock()
				defer r.Unlock()
				r.here[c.Index] += change
			}
			barrier, err := barriers.NewDistributedDoubleBarrier(c.Framework, "/barrier", members)
			return func(ctx context.Context, random *rand.Rand) {
				waiting, cancel := context.WithTimeout(ctx, 10*time.Second+upTo(random, 10*time.Second))
				defer cancel()
				mark(1)
				err := barrier.Enter(waiting)
				r.Lock()
				here := r.here
				r.Unlock()
				w.Logf("client %d: entered: %v: %v", c.Index, here, err)
				gone := func() { time.AfterFunc(20*time.Second, func() { mark(-1) }) }
				if err != nil {
					gone() // until then others may count it
					return
				}
				if slices.Contains(here[:], 0) {
					w.Findf("client %d has entered, and these are there: %v", c.Index, here)
				}
				time.Sleep(upTo(random, time.Second))
				leaving, cancel := context.WithTimeout(ctx, time.Minute)
				defer cancel()
				err = barrier.Leave(leaving)
				w.Logf("client %d: left: %v", c.Index, err)
				if err != nil {
					gone()
					return
				}
				mark(-1)
			}, err
		},
	}
}

// closedNodes is about nodes that have been closed: none is there.
func closedNodes() zksim.Program {
	var worlds sync.Map // the paths that were closed
	return zksim.Program{
		Join: func(w *zksim.World, c *zksim.Client) (act, error) {
			paths, _ := worlds.LoadOrStore(w, new(sync.Map))
			n := 0
			return func(ctx context.Context, random *rand.Rand) {
				n++
				path := fmt.Sprintf("/nodes/%d-%d", c.Index, n)
				node, err := nodes.NewPersistentNode(c.Framework, path, framework.Ephemeral, nil)
				if err == nil {
					err = node.Start()
				}
				if err != nil {
					w.Findf("client %d: %v", c.Index, err)
					return
				}
				waiting, cancel := context.WithTimeout(ctx, upTo(random, 2*time.Second))
				defer cancel()
				err = node.WaitForInitialCreate(waiting)
				w.Logf("client %d: %s: %v", c.Index, path, err)
				err = node.Close()
				w.Logf("client %d: %s: closed: %v", c.Index, path, err)
				paths.(*sync.Map).Store(path, err)
			}, nil
		},
		Settled: func(ctx context.Context, w *zksim.World) {
			time.Sleep(time.Minute) // what could not be deleted at once is by now
			paths, _ := worlds.Load(w)
			w.Observe(ctx, func(client *framework.Framework) error {
				for path, closed := range paths.(*sync.Map).Range {
					stat, err := client.Exists(ctx, path.(string))
					if err != nil {
						return err
					}
					if stat != nil {
						w.Findf("%s is there, %v after its Close", path, closed)
					}
				}
				return nil
			})
		},
	}
}

// simpleQueue is about items: none is taken twice, and none is lost.
func simpleQueue() zksim.Program {
	type items struct {
		sync.Mutex
		offered, taken map[string]int // 0: perhaps
		doubtful       int            // items that may have been taken
	}
	var worlds sync.Map
	return zksim.Program{
		Actions: 12,
		Options: shortSessions,
		Join: func(w *zksim.World, c *zksim.Client) (act, error) {
			shared, _ := worlds.LoadOrStore(w, &items{offered: make(map[string]int), taken: make(map[string]int)})
			all := shared.(*items)
			queue, err := queues.NewSimpleDistributedQueue(c.Framework, "/queue")
			n := 0
			return func(ctx context.Context, random *rand.Rand) {
				all.Lock()
				defer all.Unlock()
				if random.IntN(2) == 0 {
					n++
					item := fmt.Sprintf("%d-%d", c.Index, n)
					all.offered[item] = 0
					all.Unlock()
					err := queue.Offer(ctx, []byte(item))
					all.Lock()
					w.Logf("client %d: offers %s: %v", c.Index, item, err)
					if err == nil {
						all.offered[item] = 1
					}
					return
				}
				all.Unlock()
				item, err := queue.Poll(ctx)
				all.Lock()
				w.Logf("client %d: polls %s: %v", c.Index, item, err)
				switch {
				case errors.Is(err, queues.ErrEmpty):
				case err != nil:
					all.doubtful++
				default:
					if all.taken[string(item)]++; all.taken[string(item)] > 1 {
						w.Findf("%s was taken twice", item)
					}
				}
			}, err
		},
		Settled: func(ctx context.Context, w *zksim.World) {
			shared, _ := worlds.Load(w)
			all := shared.(*items)
			w.Observe(ctx, func(client *framework.Framework) error {
				queue, err := queues.NewSimpleDistributedQueue(client, "/queue")
				for err == nil {
					var item []byte
					if item, err = queue.Poll(ctx); err == nil {
						if all.taken[string(item)]++; all.taken[string(item)] > 1 {
							w.Findf("%s was taken twice", item)
						}
					}
				}
				if !errors.Is(err, queues.ErrEmpty) {
					return err
				}
				lost := 0
				for item, n := range all.offered {
					if n > 0 && all.taken[item] == 0 {
						lost++
					}
				}
				if lost > all.doubtful {
					w.Findf("%d items are lost, and %d polls are in doubt", lost, all.doubtful)
				}
				return nil
			})
		},
	}
}

var histories = flag.Int("histories", 8, "how many histories of each recipe TestSimulation plays")

// TestSimulation plays random programs of each recipe on three servers with faults.
func TestSimulation(t *testing.T) {
	t.Parallel()
	for name, program := range simulations {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			zksim.Check(t, seeds.New(t).Uint64(), *histories, program)
		})
	}
}
