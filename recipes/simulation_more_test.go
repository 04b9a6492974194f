// SPDX-License-Identifier: Apache-2.0

package recipes_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/barriers"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/recipes/shared"
	"github.com/gocurator/curator/testing/zksim"
)

// moreSimulations are programs of recipes that count, wait and run jobs, by name.
var moreSimulations = map[string]zksim.Program{
	"shared count": sharedCounts(),
	"barrier":      barrier(),
	"mutex under SessionErrorPolicy": {
		Faults: []zksim.Fault{ // a follower that is cut off or dies is beyond this policy
			zksim.StopLeader, zksim.StopAll, zksim.LagTime, zksim.LagCount, zksim.SlowLinks, zksim.ChangeLeader,
			zksim.CutClient, zksim.SilentClient, zksim.LoseReplies, zksim.LoseRequests, zksim.SlowRequests,
		},
		Options: []framework.Option{framework.WithSessionTimeout(2 * time.Second), framework.WithErrorPolicy(framework.SessionErrorPolicy)},
		Join: func(w *zksim.World, c *zksim.Client) (act, error) {
			mutex, err := locks.NewInterProcessMutex(c.Framework, "/lock")
			return holding(w, c, zksim.Hold{Key: "/lock", Exclusive: true}, mutex), err
		},
	},
}

// sharedCounts is about a number that clients raise by one: no change is lost, copies move forward, and in the end each has what the
// servers have.
func sharedCounts() zksim.Program {
	type counts struct {
		sync.Mutex
		copies          newest[*shared.SharedCount]
		raised, inDoubt int32
	}
	return zksim.Program{
		Actions: 12,
		Join: func(w *zksim.World, c *zksim.Client) (act, error) {
			count, err := shared.NewSharedCount(c.Framework, "/count", 0)
			if err == nil {
				err = count.Start(context.Background())
			}
			if err != nil {
				return nil, err
			}
			all := zksim.State[counts](w)
			all.copies.set(c, count)
			last := int64(0) // the transaction of the newest change
			count.OnChange(func(v shared.VersionedCount) {
				if v.Zxid <= last {
					w.Findf("client %d hears of %d, set by %#x, after %#x", c.Index, v.Count, v.Zxid, last)
				}
				last = v.Zxid
			})
			return func(ctx context.Context, _ *rand.Rand) {
				before, err := count.VersionedCount()
				if err != nil {
					w.Findf("client %d: %v", c.Index, err)
					return
				}
				ok, err := count.TrySetCount(ctx, before, before.Count+1)
				w.Logf("client %d: from %d: %t, %v", c.Index, before.Count, ok, err)
				all.Lock()
				defer all.Unlock()
				switch {
				case framework.OutcomeUnknown(err):
					all.inDoubt++
				case ok && err == nil:
					all.raised++
				}
			}, nil
		},
		Settled: func(_ context.Context, w *zksim.World) {
			all := zksim.State[counts](w)
			var first int32
			var err error
			for _, count := range all.copies.of {
				first, err = count.Count()
			}
			if err != nil || first < all.raised || first > all.raised+all.inDoubt {
				w.Findf("the count is %d after %d changes and %d in doubt: %v", first, all.raised, all.inDoubt, err)
			}
			for i, count := range all.copies.of {
				if n, err := count.Count(); n != first || err != nil {
					w.Findf("copy %d has %d, and another one has %d: %v", i, n, first, err)
				}
				if err := count.Close(); err != nil {
					w.Findf("copy %d: %v", i, err)
				}
			}
		},
	}
}

// barrier is about a client that waits at a barrier that it has set itself: it goes on when the barrier is removed, and not before.
func barrier() zksim.Program {
	set := func(w *zksim.World) int64 {
		if znodes := w.Servers.Znodes("/barrier"); len(znodes) > 0 {
			return znodes[0].Czxid
		}
		return 0
	}
	type one struct { // of the clients
		*zksim.Client
		*barriers.DistributedBarrier
	}
	return zksim.Program{
		Actions: 8,
		Join: func(w *zksim.World, c *zksim.Client) (act, error) {
			b, err := barriers.NewDistributedBarrier(c.Framework, "/barrier")
			*zksim.State[one](w) = one{c, b}
			return func(ctx context.Context, random *rand.Rand) {
				if random.IntN(2) == 0 {
					w.Logf("client %d removes it: %v", c.Index, b.RemoveBarrier(ctx))
					return
				}
				if err := b.SetBarrier(ctx); err != nil {
					w.Logf("client %d sets it: %v", c.Index, err)
					return
				}
				seen, err := c.Exists(ctx, "/barrier")
				if err != nil || seen == nil { // it is removed already
					return
				}
				waiting, cancel := context.WithTimeout(ctx, upTo(random, 20*time.Second))
				defer cancel()
				err = b.WaitOnBarrier(waiting)
				w.Logf("client %d waits: %v", c.Index, err)
				if now := set(w); err == nil && now == seen.Czxid {
					w.Findf("client %d has passed the barrier of %#x, which it has seen and which is there", c.Index, now)
				}
			}, err
		},
		Settled: func(ctx context.Context, w *zksim.World) {
			last := zksim.State[one](w)
			err := last.RemoveBarrier(ctx)
			if err == nil {
				err = getsOn(ctx, w, last.Client, "WaitOnBarrier", last.WaitOnBarrier)
			}
			if err != nil {
				w.Findf("the barrier cannot be removed: %v", err)
			}
		},
	}
}
