// SPDX-License-Identifier: Apache-2.0

package recipes_test

import (
	"bytes"
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
	"github.com/gocurator/curator/testing/zkserver"
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

// newest is what the newest client of each process has, without those that were killed.
type newest[T any] struct {
	sync.Mutex
	of map[int]T
}

func (n *newest[T]) set(c *zksim.Client, value T) {
	n.Lock()
	defer n.Unlock()
	if n.of == nil {
		n.of = make(map[int]T)
	}
	n.of[c.Index] = value
}

type act = func(ctx context.Context, random *rand.Rand)

// simulations are programs of recipes, by name.
var simulations = map[string]zksim.Program{
	"mutex": {
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
	"mutex over restores": overRestores(),
	"semaphore": {
		Clients: 4,
		Join: func(w *zksim.World, c *zksim.Client) (act, error) {
			semaphore, err := locks.NewInterProcessSemaphoreV2(c.Framework, "/lock", locks.FixedLeases(2))
			return holding(w, c, zksim.Hold{Key: "/lock", Places: 2}, semaphore), err
		},
	},
	"leader": {
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
	"Once":              onceOnly(),
	"double barrier":    doubleBarrier(),
	"node":              closedNodes(),
	"simple queue":      simpleQueue(),
	"queue and results": queueAndResults(),
}

// onceOnly is about jobs that are done once: none begins after its success, and one that must never begin again begins once. The marker of
// a job is of the run that has succeeded.
func onceOnly() zksim.Program {
	type done = sync.Map // the tokens of the runs that have succeeded, or that have begun and must be the only ones
	return zksim.Program{
		Join: func(w *zksim.World, c *zksim.Client) (act, error) {
			until, err := leader.NewOnce(c.Framework, "/once")
			if err != nil {
				return nil, err
			}
			never, err := leader.NewOnce(c.Framework, "/once", leader.NeverAgain())
			return func(ctx context.Context, random *rand.Rand) {
				job, once, token := "job-"+strconv.Itoa(random.IntN(4)), until, int64(0)
				if random.IntN(2) == 0 {
					job, once = "never-"+job, never
				}
				ran, err := once.Do(ctx, job, func(ctx context.Context) error {
					token = locks.LeaseFrom(ctx).Token()
					defer w.Enter(zksim.Hold{Key: job, Client: c.Index, Exclusive: true, IsOver: func() bool { return ctx.Err() != nil }})()
					if by, again := zksim.State[done](w).Load(job); again && (once == never || ctx.Err() == nil) {
						w.Findf("client %d begins %s, which the run %#x has done", c.Index, job, by)
					}
					if once == never {
						zksim.State[done](w).Store(job, token)
					}
					time.Sleep(upTo(random, time.Second))
					return context.Cause(ctx)
				})
				w.Logf("client %d: %s: ran %t: %v", c.Index, job, ran, err)
				if !ran || err != nil || once == never {
					return
				}
				if by, twice := zksim.State[done](w).LoadOrStore(job, token); twice {
					w.Findf("%s has run twice, by %#x and %#x", job, by, token)
				}
			}, err
		},
		Settled: func(_ context.Context, w *zksim.World) {
			zksim.State[done](w).Range(func(job, token any) bool {
				marker := w.Servers.Znodes("/once/done/" + job.(string))
				if len(marker) != 1 || string(marker[0].Data) != strconv.FormatInt(token.(int64), 10) {
					w.Findf("%s was done by the run %#x, and its marker is %v", job, token, marker)
				}
				return true
			})
		},
	}
}

// doubleBarrier is about rounds, for which one member less is enough than there are clients. No member passes an opening that no
// member of its round has seen, or leaves before all of its round have, and none closes the barrier before. In some rounds all members
// die after they have entered. All come again and again, so each gets on when faults are over.
func doubleBarrier() zksim.Program {
	return zksim.Program{
		Clients: 4,
		Actions: 1,
		Faults:  append(slices.Repeat([]zksim.Fault{zksim.KillSession, zksim.LagTime, zksim.SlowRequests, zksim.LoseReplies}, 8), zksim.Usual...),
		Join: func(w *zksim.World, c *zksim.Client) (act, error) {
			come := func() (*barriers.DistributedDoubleBarrier, error) {
				return barriers.NewDistributedDoubleBarrier(c.Framework, "/barrier", max(1, w.Size()-1))
			}
			barrier, err := come()
			return func(ctx context.Context, random *rand.Rand) {
				ctx, cancel := context.WithTimeout(ctx, 60*time.Second)
				defer cancel()
				for ctx.Err() == nil {
					time.Sleep(upTo(random, 500*time.Millisecond))
					stale := orphan(w)
					if getsOn(ctx, w, c, "Enter", barrier.Enter) != nil {
						continue
					}
					now := opening(w)
					if stale != 0 && stale == now {
						w.Findf("client %d has passed by %#x, which was without members when it came", c.Index, now)
					}
					round := members(w, now)
					time.Sleep(upTo(random, 500*time.Millisecond))
					isOpenFor(w, c, now)
					if now%4 == 0 { // all of this round die
						die(ctx, w, c)
						barrier, _ = come() // as at first
						continue
					}
					if getsOn(ctx, w, c, "Leave", barrier.Leave) != nil {
						continue
					}
					for _, left := range members(w, now) {
						if slices.Contains(round, left) {
							w.Findf("client %d has left before %#x, which is of its round", c.Index, left)
						}
					}
				}
			}, err
		},
	}
}

// isOpenFor finds that a round of the double barrier was closed before a client of it has left.
func isOpenFor(w *zksim.World, c *zksim.Client, opened int64) {
	mine, now := c.Session().ID(), int64(0)
	isMine := func(z zkserver.Znode) bool { return z.Owner == mine }
	znodes := w.Servers.Znodes("/barrier")
	for _, z := range znodes {
		if z.Path == "/barrier/ready" {
			now = z.Czxid
		}
	}
	if slices.ContainsFunc(znodes, isMine) && now != opened {
		w.Findf("client %d is in the round of %#x, and the barrier was closed, and opened by %#x", c.Index, opened, now)
	}
}

// die ends the session of a client, as if its process had ended.
func die(ctx context.Context, w *zksim.World, c *zksim.Client) {
	session := c.Session().ID()
	isThere := func(z zkserver.Znode) bool { return z.Owner == session }
	for ctx.Err() == nil {
		if leader := w.Servers.Leader(); leader != nil && !leader.KillSession(session) && !slices.ContainsFunc(w.Servers.Znodes("/"), isThere) {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// getsOn makes a call, and finds that it lasts for longer than half a minute without faults.
func getsOn(ctx context.Context, w *zksim.World, c *zksim.Client, name string, call func(context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, 30*time.Second+max(0, zksim.FaultTime-w.Elapsed()))
	defer cancel()
	err := call(limited)
	w.Logf("client %d: %s: %v", c.Index, name, err)
	if limited.Err() != nil && ctx.Err() == nil {
		w.Findf("client %d: %s has lasted for half a minute without faults: %v", c.Index, name, err)
	}
	return err
}

// opening is the transaction that has opened the double barrier, or 0.
func opening(w *zksim.World) int64 {
	znodes := w.Servers.Znodes("/barrier/ready")
	if len(znodes) == 0 {
		return 0
	}
	return znodes[0].Czxid
}

// orphan is an opening whose members have all gone, or 0.
func orphan(w *zksim.World) int64 {
	opened := opening(w)
	if len(members(w, opened)) > 0 {
		return 0
	}
	return opened
}

// members are those that are there and have come before an opening, or have joined it, by the transactions that have created them.
func members(w *zksim.World, opened int64) (all []int64) {
	for _, z := range w.Servers.Znodes("/barrier") {
		if z.Owner != 0 && isOfRound(z, opened) {
			all = append(all, z.Czxid)
		}
	}
	return all
}

// isOfRound reports whether a member has come before an opening of the double barrier, or has joined it.
func isOfRound(member zkserver.Znode, opened int64) bool {
	return member.Czxid < opened || string(member.Data) == fmt.Sprintf("%#x", opened)
}

// closedNodes is about nodes that have been closed: none is there.
func closedNodes() zksim.Program {
	type paths = sync.Map // that were closed
	return zksim.Program{
		Join: func(w *zksim.World, c *zksim.Client) (act, error) {
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
				zksim.State[paths](w).Store(path, err)
			}, nil
		},
		Settled: func(_ context.Context, w *zksim.World) {
			time.Sleep(time.Minute) // what could not be deleted at once is by now
			for _, z := range w.Servers.Znodes("/nodes") {
				if closed, ok := zksim.State[paths](w).Load(z.Path); ok {
					w.Findf("%s is there, %v after its Close", z.Path, closed)
				}
			}
		},
	}
}

// items are what clients have put into a queue, and what became of them. Each has a name of its own.
type items struct {
	sync.Mutex
	offered map[string]error
	taken   map[string]error // with the error of the call that has returned it

	deletions int // of the folder that are under way
}

func (i *items) offer(w *zksim.World, c *zksim.Client, put func(item []byte) error) {
	i.Lock()
	item := fmt.Sprintf("%d-%03d", c.Index, len(i.offered)) // none is a part of another
	if i.offered == nil {
		i.offered, i.taken = make(map[string]error), make(map[string]error)
	}
	i.offered[item] = errors.New("under way")
	i.Unlock()
	err := put([]byte(item))
	w.Logf("client %d: puts %s: %v", c.Index, item, err)
	i.Lock()
	defer i.Unlock()
	if i.deletions > 0 {
		err = errFolderGone
	}
	if !errors.Is(i.offered[item], errFolderGone) {
		i.offered[item] = err
	}
}

// take notes an item. With an error it may have been taken, or not.
func (i *items) take(w *zksim.World, c *zksim.Client, item []byte, err error) {
	w.Logf("client %d: takes %s: %v", c.Index, item, err)
	if len(item) == 0 {
		return
	}
	i.Lock()
	defer i.Unlock()
	before, again := i.taken[string(item)]
	if again && before == nil && err == nil && !errors.Is(i.offered[string(item)], errFolderGone) {
		w.Findf("%s was taken twice", item)
	}
	if !again || err == nil {
		i.taken[string(item)] = err
	}
}

// settle finds items that are lost, or that are in the queue although they were taken.
func (i *items) settle(w *zksim.World, left map[string]bool, mayLoseNone bool) {
	for item, err := range i.offered {
		doubt, taken := i.taken[item]
		switch {
		case taken && doubt == nil && left[item] && !errors.Is(err, errFolderGone):
			w.Findf("%s was taken, and is in the queue", item)
		case err == nil && !taken && !left[item] && mayLoseNone:
			w.Findf("%s is lost", item)
		}
	}
}

// simpleQueue is about items: none is taken twice, and none is lost.
func simpleQueue() zksim.Program {
	return zksim.Program{
		Clients: 4,
		Actions: 16,
		Faults:  append(slices.Repeat([]zksim.Fault{zksim.SlowRequests, zksim.SilentClient}, 4), zksim.Usual...),
		Join: func(w *zksim.World, c *zksim.Client) (act, error) {
			all := zksim.State[items](w)
			queue, err := queues.NewSimpleDistributedQueue(c.Framework, "/queue")
			*zksim.State[ends](w) = ends{put: queue.Offer, takeAll: func(ctx context.Context, take func([]byte) bool) error {
				for {
					if item, err := queue.Take(ctx); err != nil || !take(item) {
						return err
					}
				}
			}}
			return func(ctx context.Context, random *rand.Rand) {
				if random.IntN(5) < 2 {
					all.offer(w, c, func(item []byte) error { return queue.Offer(ctx, item) })
					return
				}
				item, err := queue.Poll(ctx)
				all.take(w, c, item, err)
			}, err
		},
		Settled: func(ctx context.Context, w *zksim.World) {
			left := make(map[string]bool)
			for _, z := range w.Servers.Znodes("/queue") {
				left[string(z.Data)] = true
			}
			delete(left, "") // the folder
			zksim.State[items](w).settle(w, left, true)
			zksim.State[ends](w).drain(ctx, w, left)
		},
	}
}

// queueAndResults is about items that are removed together with their results: each has one, at most.
func queueAndResults() zksim.Program {
	return zksim.Program{
		Actions: 16,
		Faults:  append(slices.Repeat([]zksim.Fault{zksim.KillSession, zksim.SlowRequests, zksim.LoseReplies}, 3), zksim.Usual...),
		Join: func(w *zksim.World, c *zksim.Client) (act, error) {
			all := zksim.State[items](w)
			queue, err := queues.NewDistributedQueue(c.Framework, "/queue", queues.WithLockPath("/locks"))
			return func(ctx context.Context, random *rand.Rand) {
				if random.IntN(5) < 2 {
					all.offer(w, c, func(item []byte) error {
						return errors.Join(queue.Put(ctx, item), c.Mkdirs(ctx, "/results"))
					})
					return
				}
				ctx, cancel := context.WithTimeout(ctx, upTo(random, 10*time.Second))
				defer cancel()
				for item, err := range queue.Items(ctx) {
					if err != nil {
						return
					}
					time.Sleep(upTo(random, time.Second))
					result := framework.CreateOp("/results/r-", item.Data, framework.WithMode(framework.PersistentSequential))
					all.take(w, c, item.Data, item.Transact(ctx, result))
				}
			}, err
		},
		Settled: func(_ context.Context, w *zksim.World) {
			all, results := zksim.State[items](w), make(map[string]int)
			for _, z := range w.Servers.Znodes("/results") {
				results[string(z.Data)]++
			}
			queue := w.Servers.Znodes("/queue")
			for item, err := range all.offered {
				there := slices.ContainsFunc(queue, func(z zkserver.Znode) bool { return bytes.Contains(z.Data, []byte(item)) })
				doubt, taken := all.taken[item]
				switch n := results[item]; {
				case n > 1 || n == 1 && there:
					w.Findf("%s has %d results, and is in the queue: %t", item, n, there)
				case n == 0 && taken && doubt == nil:
					w.Findf("%s was taken, and has no result", item)
				case n == 0 && !there && err == nil:
					w.Findf("%s is lost", item)
				}
			}
		},
	}
}

var histories = flag.Int("histories", 5, "how many histories of each recipe TestSimulation plays")

// TestSimulation plays random programs of each recipe on three servers with faults.
func TestSimulation(t *testing.T) {
	t.Parallel()
	all := make(map[string]zksim.Program)
	for _, some := range []map[string]zksim.Program{simulations, valueSimulations, moreSimulations, queueSimulations} {
		for name, program := range some {
			if _, twice := all[name]; twice {
				t.Fatalf("two programs have the name %q", name)
			}
			all[name] = program
		}
	}
	for name, program := range all {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if program.Faults == nil {
				program.Faults = append(slices.Repeat([]zksim.Fault{zksim.KillProcess}, 4), zksim.Usual...)
			}
			zksim.Check(t, seeds.New(t).Uint64(), *histories, program)
		})
	}
}
