// SPDX-License-Identifier: Apache-2.0

package locks_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// TestGateOfAFolderThatIsMadeAgain: between two turns of a client the folder is deleted, created
// and filled up to the number of the client's last node. Its next node has the number after that,
// and must not be taken for the next one in the old folder.
func TestGateOfAFolderThatIsMadeAgain(t *testing.T) {
	server := zktest.NewServer(t)
	client, other := zktest.Client(t, server), zktest.Client(t, server)
	mutex := newMutex(t, client, "/lock")
	const turns = 4
	for range turns {
		release(t, acquire(t, mutex))
	}
	sent := countRequests(t, server)
	release(t, acquire(t, mutex))
	require.Zero(t, sent.since(zkserver.OpGetChildren2), "a client alone needs no list")

	require.NoError(t, other.Delete(t.Context(), "/lock"))
	must.Get(other.Create(t.Context(), "/lock", nil, framework.WithMode(framework.Container)))(t)
	theirs := newMutex(t, other, "/lock", locks.WithQueuePlaces(0))
	first := acquire(t, theirs)
	ctx, giveUp := context.WithCancel(t.Context())
	var waiting []<-chan outcome
	for n := 2; n <= turns+1; n++ {
		waiting = append(waiting, acquireLater(ctx, theirs))
		awaitQueue(t, theirs, n)
	}
	sent.since(zkserver.OpGetChildren2)
	_, err := mutex.TryAcquire(t.Context())
	require.ErrorIs(t, err, locks.ErrNotAcquired)
	require.Equal(t, 1, sent.since(zkserver.OpGetChildren2), "it lists after its creation")
	giveUp()
	for _, result := range waiting {
		require.ErrorIs(t, await(t, result).err, context.Canceled)
	}
	release(t, first)
}

// counted counts what a server was asked, by operation.
type counted struct {
	mu sync.Mutex
	n  map[zkserver.OpCode]int
}

func countRequests(t *testing.T, server *zkserver.Server) *counted {
	t.Helper()
	c := &counted{n: make(map[zkserver.OpCode]int)}
	t.Cleanup(server.Intercept(func(r zkserver.Request) zkserver.Fault {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.n[r.Op]++
		return zkserver.Pass
	}))
	return c
}

// of returns how often an operation was asked for.
func (c *counted) of(op zkserver.OpCode) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n[op]
}

// since returns how often an operation was asked for since the last call.
func (c *counted) since(ops ...zkserver.OpCode) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, op := range ops {
		n += c.n[op]
	}
	clear(c.n)
	return n
}

// waiters has n goroutines of one client wait for the lock at /lock, with mutexes of their own.
func waiters(t *testing.T, client *framework.Framework, n int) (results <-chan outcome, giveUp func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	outcomes := make(chan outcome, n)
	for range n {
		mutex := newMutex(t, client, "/lock")
		go func() {
			lease, err := mutex.Acquire(ctx)
			outcomes <- outcome{lease, err}
		}()
	}
	return outcomes, cancel
}

// requireGivenUp receives what has become of n waiters.
func requireGivenUp(t *testing.T, results <-chan outcome, n int) {
	t.Helper()
	for range n {
		require.ErrorIs(t, await(t, results).err, locks.ErrNotAcquired)
	}
}

// TestGateTryThatMustFailCreatesNothing: where a contender is known to be in the way a try
// asks for a list. On a free lock it takes one round trip.
func TestGateTryThatMustFailCreatesNothing(t *testing.T) {
	onFakeTime(t, func(t *testing.T, w longWait) {
		mutex := newMutex(t, w.waiter, "/lock")
		for range 3 { // makes the folder, and expects neighbours
			release(t, acquire(t, mutex))
		}
		sent := countRequests(t, w.server)
		lease := must.Get(mutex.TryAcquire(context.Background()))(t)
		require.Equal(t, 1, sent.since(zkserver.OpCreate2, zkserver.OpGetChildren2), "its node is the neighbour of the last one")

		_, err := mutex.TryAcquire(context.Background())
		require.ErrorIs(t, err, locks.ErrNotAcquired, "a contender of this client")
		require.Zero(t, sent.since(zkserver.OpCreate2, zkserver.OpDelete))
		release(t, lease)

		lease = acquire(t, newMutex(t, w.holder, "/lock"))
		_, err = mutex.TryAcquire(context.Background())
		require.ErrorIs(t, err, locks.ErrNotAcquired, "a contender of which nothing is known")
		sent.since()
		for range 3 {
			_, err = mutex.TryAcquire(context.Background())
			require.ErrorIs(t, err, locks.ErrNotAcquired)
		}
		sent.mu.Lock()
		require.Equal(t, map[zkserver.OpCode]int{zkserver.OpGetChildren2: 3}, sent.n, "one read each")
		sent.mu.Unlock()
		release(t, lease)
		lease = must.Get(mutex.TryAcquire(context.Background()))(t)
		release(t, lease)
	})
}

// TestGateMemoryOfWaiters: a waiter does not take more memory for the number of others. It runs
// in a process of its own, as what earlier tests have left in this one is freed at any time.
func TestGateMemoryOfWaiters(t *testing.T) {
	const alone = "CURATOR_TEST_ALONE"
	if os.Getenv(alone) == "" {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestGateMemoryOfWaiters$", "-test.v")
		cmd.Env = append(os.Environ(), alone+"=1")
		output, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", output)
		require.Contains(t, string(output), "--- PASS: TestGateMemoryOfWaiters")
		t.Log(string(output))
		return
	}
	perWaiter := func(n int) float64 {
		server := zktest.NewServer(t)
		holder, client := zktest.Client(t, server), zktest.Client(t, server)
		mutex := newMutex(t, holder, "/lock")
		lease := acquire(t, mutex)
		before := memory()
		results, giveUp := waiters(t, client, n)
		require.Eventually(t, func() bool {
			queue, err := mutex.Participants(t.Context())
			return err == nil && len(queue) > 2
		}, limit, tick)
		time.Sleep(100 * time.Millisecond) // the others wait in memory
		used := memory() - before
		giveUp()
		requireGivenUp(t, results, n)
		release(t, lease)
		return float64(used) / float64(n)
	}
	perWaiter(250) // what is made once
	few, many := perWaiter(250), perWaiter(1500)
	t.Logf("of 250: %.0f bytes each, of 1,500: %.0f", few, many)
	require.Less(t, many, 3*few, "a list of the others would be 90 kB each")
}

func memory() int64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc + stats.StackInuse)
}

// TestGatePlaces: no more acquisitions of a client have a node than there are places, and all get their turn, one at a time.
func TestGatePlaces(t *testing.T) {
	for name, test := range map[string]struct {
		opts          []locks.Option
		alone, beside int // nodes of the client: without others, and beside another one's
	}{
		"default":  {nil, 4, 2},
		"one":      {[]locks.Option{locks.WithQueuePlaces(1)}, 1, 1},
		"no limit": {[]locks.Option{locks.WithQueuePlaces(0)}, 8, 8},
		"row":      {[]locks.Option{locks.WithLocalHandoff(3)}, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			onFakeTime(t, func(t *testing.T, w longWait) {
				for path, others := range map[string]int{"/alone": 0, "/beside": 1} {
					var first *locks.Lease
					if others > 0 {
						first = acquire(t, newMutex(t, w.holder, path))
					}
					mutex := newMutex(t, w.waiter, path, test.opts...)
					var results []<-chan outcome
					for range 8 {
						results = append(results, acquireLater(context.Background(), mutex))
						synctest.Wait()
					}
					want := test.alone
					if others > 0 {
						want = test.beside
					}
					awaitQueue(t, mutex, others+want)
					if first != nil {
						release(t, first)
					}
					for len(results) > 0 {
						synctest.Wait()
						var inside []*locks.Lease
						results = slices.DeleteFunc(results, func(result <-chan outcome) bool {
							if len(result) == 0 {
								return false
							}
							inside = append(inside, requireAtOnce(t, result))
							return true
						})
						require.Len(t, inside, 1)
						release(t, inside[0])
					}
					awaitQueue(t, mutex, 0)
				}
			})
		})
	}
}

// TestGateTurnsOfOneClient cost a creation and a deletion each, and a list now and then.
func TestGateTurnsOfOneClient(t *testing.T) {
	onFakeTime(t, func(t *testing.T, w longWait) {
		const n = 200
		mutex := newMutex(t, w.waiter, "/lock")
		for range 3 { // the folder is there, and the client expects neighbours
			release(t, acquire(t, mutex))
		}
		sent := countRequests(t, w.server)
		var held sync.WaitGroup
		for range n {
			held.Go(func() { release(t, acquire(t, mutex)) })
		}
		held.Wait()
		require.Equal(t, n, sent.of(zkserver.OpCreate2))
		require.Equal(t, n, sent.of(zkserver.OpDelete))
		require.LessOrEqual(t, sent.of(zkserver.OpGetChildren2)+sent.of(zkserver.OpGetData), n/20)
	})
}

// TestGateTurnBehindOtherClients costs the creation with a list, the watch on the one before it, a list when that has left, and the
// deletion.
func TestGateTurnBehindOtherClients(t *testing.T) {
	onFakeTime(t, func(t *testing.T, w longWait) {
		release(t, acquire(t, newMutex(t, w.holder, "/lock")))
		lease := acquire(t, newMutex(t, w.holder, "/lock"))
		sent := record(w.server, w.waiter.Session().ID())
		waiting := acquireLater(context.Background(), newMutex(t, w.waiter, "/lock"))
		time.Sleep(time.Second)
		release(t, lease)
		release(t, requireAtOnce(t, waiting))
		requests := sent()
		require.Len(t, requests, 5, "%v", requests)
	})
}

// TestGateGivesUpInMemory: an acquisition whose context ends in memory sends nothing, and those behind it get their turn.
func TestGateGivesUpInMemory(t *testing.T) {
	onFakeTime(t, func(t *testing.T, w longWait) {
		mutex := newMutex(t, w.waiter, "/lock", locks.WithQueuePlaces(1))
		lease := acquire(t, mutex)
		ctx, giveUp := context.WithCancel(context.Background())
		gaveUp := acquireLater(ctx, mutex)
		synctest.Wait()
		behind := acquireLater(context.Background(), mutex)
		synctest.Wait()
		sent := record(w.server, w.waiter.Session().ID())
		giveUp()
		o := <-gaveUp
		require.ErrorIs(t, o.err, locks.ErrNotAcquired)
		require.ErrorIs(t, o.err, context.Canceled)
		refused := must.As[*locks.NotAcquiredError](t, o.err)
		require.Equal(t, 1, refused.Position)
		require.Equal(t, lease.Path(), refused.Ahead()[0].Path)
		require.Empty(t, sent())
		release(t, lease)
		release(t, requireAtOnce(t, behind))
	})
}

// beforeLists is an ACL provider that calls its function for each path.
type beforeLists func()

func (beforeLists) DefaultACL() []framework.ACL { return framework.OpenACL() }

func (call beforeLists) ACLForPath(string) []framework.ACL { call(); return nil }

// TestGateGivesUpBehindACreation: the node of an acquisition waits for an earlier creation of its client, and says so when it gives up.
func TestGateGivesUpBehindACreation(t *testing.T) {
	onFakeTime(t, func(t *testing.T, w longWait) {
		var asked atomic.Bool
		goOn := make(chan struct{})
		client := zktest.Client(t, w.server, framework.WithACLProvider(beforeLists(func() {
			if !asked.Swap(true) {
				<-goOn
			}
		})))
		mutex := newMutex(t, client, "/lock")
		first := acquireLater(context.Background(), mutex)
		synctest.Wait()
		ctx, giveUp := context.WithCancel(context.Background())
		gaveUp := acquireLater(ctx, mutex)
		synctest.Wait()
		giveUp()
		refused := <-gaveUp
		close(goOn)
		require.EqualError(t, refused.err,
			"locks: acquire /lock: not acquired: it is held or waited for in this process: context canceled")
		release(t, requireAtOnce(t, first))
	})
}

// TestGateChainListsOnceASecond, so that a node that was made by hand with a lower number is not passed for ever.
func TestGateChainListsOnceASecond(t *testing.T) {
	onFakeTime(t, func(t *testing.T, w longWait) {
		mutex := newMutex(t, w.waiter, "/lock")
		for range 3 {
			release(t, acquire(t, mutex))
		}
		stop := make(chan struct{})
		var turns atomic.Int64
		var chain sync.WaitGroup
		for range 4 {
			chain.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
						lease, err := mutex.Acquire(context.Background())
						if err == nil {
							turns.Add(1)
							time.Sleep(time.Millisecond)
							err = lease.Release(context.Background())
						}
						if err != nil {
							t.Error(err)
							return
						}
					}
				}
			})
		}
		time.Sleep(100 * time.Millisecond)
		var lists, before atomic.Int64
		remove := w.server.Intercept(func(r zkserver.Request) zkserver.Fault {
			// A list that comes with a creation is not what lets a node in.
			if r.Op == zkserver.OpGetChildren2 && before.Load() != int64(zkserver.OpCreate2) {
				lists.Add(1)
			}
			before.Store(int64(r.Op))
			return zkserver.Pass
		})
		passed := turns.Load()
		time.Sleep(10 * time.Second)
		remove()
		require.Greater(t, turns.Load()-passed, int64(1000))
		require.Positive(t, lists.Load())
		require.LessOrEqual(t, lists.Load(), int64(40), "one a second, for each that waits then")
		must.Get(w.holder.Create(context.Background(), "/lock/lock-0000000000", nil))(t)
		time.Sleep(2 * time.Second)
		passed = turns.Load()
		time.Sleep(2 * time.Second)
		require.Equal(t, passed, turns.Load(), "nothing passes it")
		close(stop)
		require.NoError(t, w.holder.Delete(context.Background(), "/lock/lock-0000000000"))
		chain.Wait()
	})
}

// TestGateGoesWithItsLocks: a gate takes no memory once no lock refers to it.
func TestGateGoesWithItsLocks(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	for i := range 10 {
		release(t, acquire(t, newMutex(t, client, fmt.Sprintf("/locks/%d", i))))
	}
	require.Eventually(t, func() bool {
		runtime.GC()
		return locks.GatesOf(client) == 0
	}, limit, tick)
}

// TestGateKeepsNoClient, not even one whose listener refers to a lock, or whose lock has a driver that refers to the client.
func TestGateKeepsNoClient(t *testing.T) {
	for name, driver := range map[string]func(*framework.Framework) locks.LockInternalsDriver{
		"queue": func(*framework.Framework) locks.LockInternalsDriver { return locks.QueueDriver("lock-") },
		"own": func(client *framework.Framework) locks.LockInternalsDriver {
			return clientsDriver{locks.QueueDriver("lock-"), client}
		},
	} {
		t.Run(name, func(t *testing.T) {
			var gone weak.Pointer[framework.Framework]
			onFakeTime(t, func(t *testing.T, w longWait) { // when it is over no goroutine has the client
				lock := must.Get(locks.NewLockInternals(w.waiter, driver(w.waiter), "/lock", "lock-", 1))(t)
				w.waiter.OnConnectionState(func(framework.ConnectionState) { t.Log(lock.Path()) })
				release(t, acquire(t, lock))
				gone = weak.Make(w.waiter)
			})
			runtime.GC()
			runtime.GC()
			require.Nil(t, gone.Value())
		})
	}
}

// clientsDriver refers to its client.
type clientsDriver struct {
	locks.LockInternalsDriver

	client *framework.Framework
}

// TestGatePlacesByAnyList: what a lock without a limit has listed counts for the others of its client.
func TestGatePlacesByAnyList(t *testing.T) {
	onFakeTime(t, func(t *testing.T, w longWait) {
		limited, unlimited := newMutex(t, w.waiter, "/lock"), newMutex(t, w.waiter, "/lock", locks.WithQueuePlaces(0))
		release(t, acquire(t, limited))
		first := acquire(t, newMutex(t, w.holder, "/lock"))
		var results []<-chan outcome
		for _, mutex := range []*locks.InterProcessMutex{unlimited, unlimited, limited} {
			results = append(results, acquireLater(context.Background(), mutex))
			synctest.Wait()
		}
		awaitQueue(t, limited, 3) // two places beside another client
		release(t, first)
		for _, result := range results {
			synctest.Wait()
			release(t, requireAtOnce(t, result))
		}
	})
}

// TestGateNextEntersWithoutAList: the only contender before a waiter has left, and a server has shown both a moment ago. After a
// longer wait the waiter's own node may have been deleted by hand, and a change of the other's data is no departure: then it lists.
func TestGateNextEntersWithoutAList(t *testing.T) {
	for _, test := range []struct {
		name         string
		reply, leave time.Duration // after the creation was sent
		changed      bool
		lists        int64
	}{
		{"soon", 0, 90 * time.Millisecond, false, 0},
		{"soon after a late reply", 90 * time.Millisecond, 110 * time.Millisecond, false, 1},
		{"after a change", 0, 50 * time.Millisecond, true, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			onFakeTime(t, func(t *testing.T, w longWait) {
				held := acquire(t, newMutex(t, w.holder, "/lock"))
				var lists atomic.Int64
				defer w.server.Intercept(func(r zkserver.Request) zkserver.Fault {
					if r.Op == zkserver.OpGetChildren2 {
						lists.Add(1)
					}
					if r.Op == zkserver.OpCreate2 {
						return zkserver.Delay(test.reply)
					}
					return zkserver.Pass
				})()
				next := acquireLater(t.Context(), newMutex(t, w.waiter, "/lock"))
				time.Sleep(test.leave)
				if test.changed {
					require.NoError(t, w.holder.Set(t.Context(), held.Path(), []byte("by hand")))
					synctest.Wait()
					requireWaiting(t, next)
				}
				lists.Store(0)
				release(t, held)
				release(t, await(t, next).lease)
				require.Equal(t, test.lists, lists.Load())
			})
		})
	}
}

// TestGateLooksEarly: clients take turns. At the pace of the queue a waiter lists when the one before it comes first, so it mostly
// needs no round trip when that one leaves. More looks are of no use in a queue that is slow, long or stands still.
func TestGateLooksEarly(t *testing.T) {
	const (
		turns = 15 // of each client
		reply = 2 * time.Millisecond
	)
	for _, test := range []struct {
		name    string
		clients int
		hold    time.Duration
		trips   float64 // at most, between two holds
		lists   float64 // at most, for each turn; two are one with the creation and one after the notification
	}{
		{"at once", 8, 0, 1.4, 2.6},
		{"with a hold", 8, 5 * time.Millisecond, 1.4, 2.9},
		{"slow", 8, 60 * time.Millisecond, 2, 2},
		{"long", 100, 0, 2, 2.05},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := zktest.NewServer(t, zkserver.WithoutListener())
				mutexes := make([]*locks.InterProcessMutex, test.clients)
				for i := range mutexes {
					mutexes[i] = newMutex(t, zktest.Client(t, server), "/lock")
				}
				release(t, acquire(t, mutexes[0])) // makes the folder
				var lists atomic.Int64
				defer server.Intercept(func(r zkserver.Request) zkserver.Fault {
					if r.Op == zkserver.OpGetChildren2 {
						lists.Add(1)
					}
					return zkserver.Delay(reply)
				})()
				var between time.Duration
				var left time.Time
				var all sync.WaitGroup
				for _, mutex := range mutexes {
					all.Go(func() {
						for range turns {
							lease := acquire(t, mutex)
							if !left.IsZero() {
								between += time.Since(left)
							}
							time.Sleep(test.hold)
							left = time.Now()
							release(t, lease)
						}
					})
				}
				all.Wait()
				require.LessOrEqual(t, between.Seconds()/reply.Seconds()/float64(test.clients*turns-1), test.trips)
				require.LessOrEqual(t, float64(lists.Load())/float64(test.clients*turns), test.lists)

				held := acquire(t, mutexes[0])
				lists.Store(0)
				results := make([]<-chan outcome, test.clients-1)
				for i, mutex := range mutexes[1:] {
					results[i] = acquireLater(t.Context(), mutex)
					time.Sleep(reply)
				}
				time.Sleep(time.Minute)
				require.LessOrEqual(t, lists.Load(), int64(2*len(results)), "with the creation, and one early look")
				for release(t, held); len(results) > 0; results = results[1:] {
					release(t, await(t, results[0]).lease)
				}
			})
		})
	}
}
