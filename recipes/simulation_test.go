// SPDX-License-Identifier: Apache-2.0

package recipes_test

import (
	"context"
	"flag"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gocurator/curator/internal/testkit/seeds"
	"github.com/gocurator/curator/recipes/leader"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zksim"
)

type act = func(ctx context.Context, random *rand.Rand)

// simulations are programs of recipes, by name. TestWorld of cmd/curatorctl plays the others.
var simulations = map[string]zksim.Program{
	"mutex over restores": overRestores(),
	"latches that stay":   latches(false),
	"latches and vandals": latches(true),
}

// upTo is a random time below a bound.
func upTo(random *rand.Rand, bound time.Duration) time.Duration {
	return time.Duration(random.Int64N(int64(bound)))
}

// overRestores is about a lock for which several goroutines of each client wait, while restores bring back what there was before.
func overRestores() zksim.Program {
	acquire := func(ctx context.Context, w *zksim.World, c *zksim.Client, mutex *locks.InterProcessMutex, random *rand.Rand) {
		// A backup may have locks whose turns have ended. Their clients cannot tell if one leader was elected since it was made.
		waiting, cancel := context.WithTimeout(ctx, 20*time.Second)
		defer cancel()
		lease, err := mutex.Acquire(waiting)
		if err != nil {
			w.Logf("client %d: %v", c.Index, err)
			return
		}
		isFirst(w, c, lease)
		if random.IntN(4) == 0 {
			select { // by then a holder before it knows that a restore has taken its znode
			case <-time.After(8 * time.Second):
			case <-lease.Done():
			}
			leave := w.Enter(zksim.Hold{Key: "/lock", Client: c.Index, Exclusive: true, IsOver: func() bool { return lease.Err() != nil }})
			time.Sleep(upTo(random, time.Second))
			leave()
		}
		if err := lease.Release(ctx); err != nil {
			w.Logf("client %d: %v", c.Index, err)
		}
	}
	return zksim.Program{
		Faults: append(slices.Repeat([]zksim.Fault{zksim.Restore, zksim.ChangeLeader}, 3),
			zksim.StopLeader, zksim.LoseReplies, zksim.CutClient, zksim.LagTime),
		Join: func(w *zksim.World, c *zksim.Client) (act, error) {
			mutex, err := locks.NewInterProcessMutex(c.Framework, "/lock")
			return func(ctx context.Context, random *rand.Rand) {
				var all sync.WaitGroup
				for range 1 + random.IntN(4) {
					mine := rand.New(rand.NewPCG(random.Uint64(), 0))
					all.Go(func() {
						time.Sleep(upTo(mine, 3*time.Second))
						acquire(ctx, w, c, mutex, mine)
					})
				}
				all.Wait()
			}, err
		},
	}
}

// isFirst finds that a lock was given to a client although the servers have a contender before it.
func isFirst(w *zksim.World, c *zksim.Client, lease *locks.Lease) {
	number := func(path string) string { return path[len(path)-10:] }
	mine, there, before := c.Session().ID(), false, ""
	for _, z := range w.Servers.Znodes("/lock") {
		switch {
		case z.Path == lease.Path():
			there = true
		case z.Owner != 0 && z.Owner != mine && number(z.Path) < number(lease.Path()):
			before = z.Path
		}
	}
	time.Sleep(100 * time.Millisecond)
	if there && before != "" && lease.Err() == nil { // no restore has come in between
		w.Findf("client %d has the lock by %s, and the servers have %s", c.Index, lease.Path(), before)
	}
}

// latches is about candidates that stay for all of a history: one leads at a time, each hears of its terms one after the other, and
// one leads when faults are over. Vandals end sessions and delete nodes, which the next leader may notice first.
func latches(vandals bool) zksim.Program {
	type candidates struct {
		sync.Mutex
		of map[int]*leader.LeaderLatch // the newest of each process, without those that were killed
	}
	p := zksim.Program{
		Join: func(w *zksim.World, c *zksim.Client) (act, error) {
			latch, err := leader.NewLeaderLatch(c.Framework, "/lock")
			if err == nil {
				hearsOfItsTerms(w, c, latch)
				err = latch.Start()
			}
			all := zksim.State[candidates](w)
			all.Lock()
			defer all.Unlock()
			if all.of == nil {
				all.of = make(map[int]*leader.LeaderLatch)
			}
			all.of[c.Index] = latch
			return func(ctx context.Context, random *rand.Rand) {
				waiting, cancel := context.WithTimeout(ctx, upTo(random, 5*time.Second))
				defer cancel()
				lease, err := latch.Await(waiting)
				if err != nil {
					w.Logf("client %d: %v", c.Index, err)
					return
				}
				leave := w.Enter(zksim.Hold{
					Key: "/lock", Client: c.Index, Exclusive: !vandals,
					IsOver: func() bool { return lease.Err() != nil },
				})
				select {
				case <-time.After(upTo(random, 3*time.Second)):
				case <-lease.Done():
				}
				leave()
				switch random.IntN(3) {
				case 0:
					w.Logf("client %d resigns: %v", c.Index, latch.Resign(ctx))
				case 1:
					if vandals {
						w.Logf("client %d deletes its node: %v", c.Index, c.Delete(ctx, lease.Path()))
					}
				}
			}, err
		},
		Settled: func(ctx context.Context, w *zksim.World) {
			ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
			defer cancel()
			all := zksim.State[candidates](w).of
			leads := make(chan bool, len(all))
			for _, latch := range all {
				go func() {
					_, err := latch.Await(ctx)
					leads <- err == nil
				}()
			}
			if !<-leads {
				w.Findf("no candidate leads half a minute after the last fault")
			}
			for _, latch := range all {
				if err := latch.Close(); err != nil || latch.HasLeadership() {
					w.Findf("a latch that is closed leads: %t: %v", latch.HasLeadership(), err)
				}
			}
			for _, z := range w.Servers.Znodes("/lock") {
				if z.Owner != 0 {
					w.Findf("%s is there when all latches are closed", z.Path)
				}
			}
		},
	}
	if vandals {
		p.Faults = append(slices.Repeat([]zksim.Fault{zksim.KillSession}, 8), zksim.Usual...)
	}
	return p
}

// hearsOfItsTerms finds that beginnings and ends of a candidate's terms do not alternate, or that terms do not rise.
func hearsOfItsTerms(w *zksim.World, c *zksim.Client, latch *leader.LeaderLatch) {
	leads, term := false, int64(0)
	latch.OnChange(func(change leader.Change) {
		if change.Leader == leads || leads != (change.Term == term) || change.Term < term || change.Leader != (change.Err == nil) {
			w.Findf("client %d hears of %+v after the term %#x, and it led: %t", c.Index, change, term, leads)
		}
		leads, term = change.Leader, change.Term
	})
}

var histories = flag.Int("histories", 5, "how many histories of each recipe TestSimulation plays")

// TestSimulation plays random programs of each recipe on three servers with faults.
func TestSimulation(t *testing.T) {
	t.Parallel()
	for name, program := range simulations {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if program.Faults == nil {
				program.Faults = append(slices.Repeat([]zksim.Fault{zksim.KillProcess}, 4), zksim.Usual...)
			}
			zksim.Check(t, seeds.New(t).Uint64(), *histories, program)
		})
	}
}
