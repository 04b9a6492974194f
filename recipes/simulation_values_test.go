// SPDX-License-Identifier: Apache-2.0

package recipes_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/atomic"
	"github.com/gocurator/curator/recipes/cache"
	"github.com/gocurator/curator/recipes/discovery"
	"github.com/gocurator/curator/recipes/leader"
	"github.com/gocurator/curator/recipes/partition"
	"github.com/gocurator/curator/recipes/txn"
	"github.com/gocurator/curator/testing/zksim"
)

// valueSimulations are programs of recipes that keep values, views and members, by name.
var valueSimulations = map[string]zksim.Program{
	"counter":      countsUp(),
	"cache":        caches(),
	"transactions": transfers(),
	"latch": {
		Options: shortSessions,
		Join: func(w *zksim.World, c *zksim.Client) (act, error) {
			return func(ctx context.Context, random *rand.Rand) {
				latch, err := leader.NewLeaderLatch(c.Framework, "/lock")
				if err == nil {
					err = latch.Start()
				}
				if err != nil {
					w.Findf("client %d: %v", c.Index, err)
					return
				}
				waiting, cancel := context.WithTimeout(ctx, upTo(random, 20*time.Second))
				defer cancel()
				if lease, err := latch.Await(waiting); err == nil {
					leave := w.Enter(zksim.Hold{
						Key: "/lock", Client: c.Index, Exclusive: true, Token: lease.Token(),
						IsOver: func() bool { return lease.Err() != nil },
					})
					time.Sleep(upTo(random, 3*time.Second))
					leave()
				}
				w.Logf("client %d: close: %v", c.Index, latch.Close())
			}, nil
		},
	},
	"partitions": {
		Options: shortSessions,
		Join: func(w *zksim.World, c *zksim.Client) (act, error) {
			member, err := partition.New(c.Framework, "/partitions", partition.Fixed("a", "b", "c", "d"))
			return func(ctx context.Context, random *rand.Rand) {
				ctx, cancel := context.WithTimeout(ctx, upTo(random, 20*time.Second))
				defer cancel()
				err := member.Run(ctx, func(ctx context.Context, p partition.Partition) error {
					defer w.Enter(zksim.Hold{
						Key: p.Name, Client: c.Index, Exclusive: true, Token: p.Lease.Token(),
						IsOver: func() bool { return p.Lease.Err() != nil },
					})()
					<-ctx.Done()
					return nil
				})
				w.Logf("client %d: %v", c.Index, err)
			}, err
		},
	},
	"discovery": instances(),
}

// countsUp is about increments: each one that succeeds has a value of its own, and none is lost.
func countsUp() zksim.Program {
	type counts struct {
		sync.Mutex
		number    *atomic.DistributedAtomicLong // of any client
		given     map[int64]bool
		uncertain int
	}
	return zksim.Program{
		Actions: 12,
		Options: shortSessions,
		Join: func(w *zksim.World, c *zksim.Client) (act, error) {
			number, err := atomic.NewDistributedAtomicLong(c.Framework, "/counter")
			all := zksim.State[counts](w)
			all.number = number
			return func(ctx context.Context, _ *rand.Rand) {
				value, err := number.Increment(ctx)
				w.Logf("client %d: %+v: %v", c.Index, value, err)
				all.Lock()
				defer all.Unlock()
				switch {
				case framework.OutcomeUnknown(err):
					all.uncertain++
				case err == nil && all.given[value.Post]:
					w.Findf("%d was given twice", value.Post)
				case err == nil:
					if all.given == nil {
						all.given = make(map[int64]bool)
					}
					all.given[value.Post] = true
				}
			}, err
		},
		Settled: func(ctx context.Context, w *zksim.World) {
			all := zksim.State[counts](w)
			last, err := all.number.Add(ctx, 0)
			if n := len(all.given); err != nil || last.Post < int64(n) || last.Post > int64(n+all.uncertain) {
				w.Findf("the counter is %d after %d increments and %d in doubt: %v", last.Post, n, all.uncertain, err)
			}
		},
	}
}

// caches is about views: in the end each has what the servers have.
func caches() zksim.Program {
	type views struct {
		sync.Mutex
		all []*cache.CuratorCache
	}
	return zksim.Program{
		Actions: 12,
		Join: func(w *zksim.World, c *zksim.Client) (act, error) {
			view, err := cache.NewCuratorCache(c.Framework, "/tree")
			if err == nil {
				err = view.Start()
			}
			v := zksim.State[views](w)
			v.all = append(v.all, view)
			return func(ctx context.Context, random *rand.Rand) {
				path := fmt.Sprintf("/tree/%d/%d", random.IntN(2), random.IntN(3))
				var err error
				switch random.IntN(3) {
				case 0:
					_, err = c.Create(ctx, path, []byte("new"), framework.CreatingParentsIfNeeded())
				case 1:
					err = c.Set(ctx, path, strconv.AppendInt(nil, random.Int64(), 10), framework.WithVersion(framework.AnyVersion))
				default:
					err = c.Delete(ctx, path, framework.WithVersion(framework.AnyVersion))
				}
				w.Logf("client %d: %s: %v", c.Index, path, err)
			}, err
		},
		Settled: func(ctx context.Context, w *zksim.World) {
			for i, view := range zksim.State[views](w).all {
				if err := view.Fresh(ctx); err != nil {
					w.Findf("view %d: %v", i, err)
				}
				znodes := w.Servers.Znodes("/tree")
				if view.Size() != len(znodes) {
					w.Findf("view %d has %d znodes, and the servers have %d", i, view.Size(), len(znodes))
				}
				for _, z := range znodes {
					if has, found := view.Get(z.Path); !found || string(has.Data) != string(z.Data) {
						w.Findf("view %d has %v at %s, and the servers have %s", i, has, z.Path, z.Data)
					}
				}
				if err := view.Close(); err != nil {
					w.Findf("view %d: %v", i, err)
				}
			}
		},
	}
}

// transfers is about transactions: the sum of all accounts stays.
func transfers() zksim.Program {
	accounts := []string{"/accounts/a", "/accounts/b", "/accounts/c"}
	balance := func(tx *txn.Tx, path string) (int, error) {
		data, err := tx.Get(path)
		if err != nil {
			return 0, err
		}
		return strconv.Atoi(string(data))
	}
	return zksim.Program{
		Actions: 12,
		Options: shortSessions,
		Join: func(w *zksim.World, c *zksim.Client) (act, error) {
			for _, path := range accounts {
				_, err := c.Create(context.Background(), path, []byte("100"), framework.CreatingParentsIfNeeded())
				if err != nil && !errors.Is(err, framework.ErrNodeExists) {
					return nil, err
				}
			}
			return func(ctx context.Context, random *rand.Rand) {
				order := random.Perm(len(accounts))
				from, to, amount := accounts[order[0]], accounts[order[1]], random.IntN(50)
				err := txn.Do(ctx, c.Framework, func(tx *txn.Tx) error {
					a, err := balance(tx, from)
					if err != nil {
						return err
					}
					b, err := balance(tx, to)
					if err != nil {
						return err
					}
					return errors.Join(tx.Set(from, strconv.AppendInt(nil, int64(a-amount), 10)), tx.Set(to, strconv.AppendInt(nil, int64(b+amount), 10)))
				})
				w.Logf("client %d: %d from %s to %s: %v", c.Index, amount, from, to, err)
			}, nil
		},
		Settled: func(_ context.Context, w *zksim.World) {
			sum := 0
			for _, z := range w.Servers.Znodes("/accounts") {
				n, _ := strconv.Atoi(string(z.Data)) // the folder has no data
				sum += n
			}
			if sum != 100*len(accounts) {
				w.Findf("the accounts have %d together", sum)
			}
		},
	}
}

// instances is about services: those that are registered are there, and those that were unregistered are not.
func instances() zksim.Program {
	type registered = sync.Map // whether the instance is, by its id
	return zksim.Program{
		Options: shortSessions,
		Join: func(w *zksim.World, c *zksim.Client) (act, error) {
			services, err := discovery.NewServiceDiscovery[string](c.Framework, "/services", nil)
			n := 0
			return func(ctx context.Context, random *rand.Rand) {
				n++
				instance := discovery.NewInstance[string]("orders", "10.0.0.7", 8080)
				instance.ID = fmt.Sprintf("%d-%d", c.Index, n)
				err := services.Register(ctx, instance)
				w.Logf("client %d: registers %s: %v", c.Index, instance.ID, err)
				zksim.State[registered](w).Store(instance.ID, err == nil)
				if err != nil || random.IntN(2) == 0 {
					return
				}
				time.Sleep(upTo(random, 2*time.Second))
				err = services.Unregister(instance)
				w.Logf("client %d: unregisters %s: %v", c.Index, instance.ID, err)
				zksim.State[registered](w).Store(instance.ID, false)
			}, err
		},
		Settled: func(_ context.Context, w *zksim.World) {
			time.Sleep(time.Minute) // what could not be created or deleted at once is by now
			there := make(map[string]bool)
			for _, z := range w.Servers.Znodes("/services/orders") {
				there[z.Path[strings.LastIndex(z.Path, "/")+1:]] = true
			}
			for id, want := range zksim.State[registered](w).Range {
				if there[id.(string)] != want {
					w.Findf("instance %s is there: %t, expected %t", id, there[id.(string)], want)
				}
			}
		},
	}
}
