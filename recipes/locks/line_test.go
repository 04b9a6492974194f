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

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// TestLineOfAFolderThatIsMadeAgain: between two turns of a client the folder is deleted, created
// and filled up to the number of the client's last node. Its next node has the number after that,
// and must not be taken for the next one in the old folder.
func TestLineOfAFolderThatIsMadeAgain(t *testing.T) {
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
	_, err := other.Create(t.Context(), "/lock", nil, framework.WithMode(framework.Container))
	require.NoError(t, err)
	theirs := newMutex(t, other, "/lock")
	first := acquire(t, theirs)
	ctx, giveUp := context.WithCancel(t.Context())
	var waiting []<-chan outcome
	for n := 2; n <= turns+1; n++ {
		waiting = append(waiting, acquireLater(ctx, theirs))
		awaitQueue(t, theirs, n)
	}
	sent.since(zkserver.OpGetChildren2)
	_, err = mutex.TryAcquire(t.Context())
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

// TestLineOneListForAllWaitersAfterAReset: waiters of one client look again after an
// interruption, with one list for all of them.
func TestLineOneListForAllWaitersAfterAReset(t *testing.T) {
	onFakeTime(t, func(t *testing.T, w longWait) {
		const n = 300
		lease := acquire(t, newMutex(t, w.holder, "/lock"))
		results, giveUp := waiters(t, w.waiter, n)
		time.Sleep(time.Second)
		sent := countRequests(t, w.server)
		require.Equal(t, 1, w.server.Cut(w.waiter.Session().ID(), 1))
		time.Sleep(5 * time.Second)
		require.Equal(t, 1, sent.since(zkserver.OpGetChildren2, zkserver.OpGetChildren))
		release(t, lease)
		o := await(t, results)
		require.NoError(t, o.err, "the watches were set again")
		giveUp()
		requireGivenUp(t, results, n-1)
		release(t, o.lease)
	})
}

// TestLineTurnWithoutAList: many waiters of one client take turns, behind a holder of
// another, and no list is made where none can tell them more.
func TestLineTurnWithoutAList(t *testing.T) {
	onFakeTime(t, func(t *testing.T, w longWait) {
		const n = 200
		lease := acquire(t, newMutex(t, w.holder, "/lock"))
		var held sync.WaitGroup
		for range n {
			mutex := newMutex(t, w.waiter, "/lock")
			held.Go(func() { release(t, acquire(t, mutex)) })
		}
		time.Sleep(time.Second)
		sent := countRequests(t, w.server)
		release(t, lease)
		held.Wait()
		require.LessOrEqual(t, sent.since(zkserver.OpGetChildren2, zkserver.OpGetChildren), 1, "by one that came after the last list")
	})
}

// TestLineTurnBehindOtherClientsCostsFiveRequests: the creation with a list, the watches on the two before
// it, a list when one of them has left, and the deletion. If the last one holds for long, the waiter reads its own
// node and that one's.
func TestLineTurnBehindOtherClientsCostsFiveRequests(t *testing.T) {
	for hold, want := range map[time.Duration]int{time.Millisecond / 2: 5, 15 * time.Millisecond: 5, 50 * time.Millisecond: 7} {
		onFakeTime(t, func(t *testing.T, w longWait) {
			ours := newMutex(t, w.waiter, "/lock")
			ahead := []*locks.InterProcessMutex{newMutex(t, w.holder, "/lock")}
			for range 2 {
				ahead = append(ahead, newMutex(t, zktest.Client(t, w.server), "/lock"))
			}
			for _, first := range []bool{true, false} {
				cost := requestsWhile(t, w.server, w.waiter.Session().ID(), func() {
					var queue []<-chan outcome
					for _, mutex := range append(slices.Clone(ahead), ours) {
						queue = append(queue, acquireLater(context.Background(), mutex))
						synctest.Wait()
					}
					for i, next := range queue {
						lease := await(t, next).lease
						if i < len(ahead) {
							time.Sleep(hold)
						}
						release(t, lease)
					}
				})
				if !first { // the client knows the server's version, which tells that one request can set two watches
					require.Equal(t, want, cost, "holds of %v", hold)
				}
			}
		})
	}
}

// TestLineNewcomersShareLists: a great many acquisitions of one client do not list the
// folder each for itself.
func TestLineNewcomersShareLists(t *testing.T) {
	onFakeTime(t, func(t *testing.T, w longWait) {
		const n = 500
		lease := acquire(t, newMutex(t, w.holder, "/lock"))
		sent := countRequests(t, w.server)
		// During a pause all come that can. Without pauses one processor might let each newcomer
		// list before the next one comes.
		w.server.Intercept(func(r zkserver.Request) zkserver.Fault {
			if r.Op == zkserver.OpCreate2 || r.Op == zkserver.OpGetChildren2 || r.Op == zkserver.OpGetChildren {
				return zkserver.Delay(time.Millisecond)
			}
			return zkserver.Pass
		})
		results, giveUp := waiters(t, w.waiter, n)
		time.Sleep(time.Second)
		require.Less(t, sent.since(zkserver.OpGetChildren2, zkserver.OpGetChildren), n/2)
		giveUp()
		requireGivenUp(t, results, n)
		release(t, lease)
	})
}

// TestLineNewcomerBehindItsOwnNeedsNoList: in a crowd of one client a newcomer waits for another
// acquisition of the client, and asks the server for nothing before that one has left.
func TestLineNewcomerBehindItsOwnNeedsNoList(t *testing.T) {
	onFakeTime(t, func(t *testing.T, w longWait) {
		lease := acquire(t, newMutex(t, w.holder, "/lock"))
		const first, more = 32, 50
		crowd, giveUp := waiters(t, w.waiter, first)
		time.Sleep(time.Second)
		sent := countRequests(t, w.server)
		var results []<-chan outcome
		for range more {
			results = append(results, acquireLater(context.Background(), newMutex(t, w.waiter, "/lock")))
			time.Sleep(time.Second)
		}
		require.Zero(t, sent.since(zkserver.OpGetChildren2, zkserver.OpGetChildren))
		late, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, err := newMutex(t, w.waiter, "/lock").Acquire(late)
		var refused *locks.NotAcquiredError
		require.ErrorAs(t, err, &refused)
		require.Positive(t, refused.Position)
		require.Len(t, refused.Ahead(), refused.Position)

		giveUp()
		requireGivenUp(t, crowd, first)
		last := lease
		for _, result := range results {
			requireWaiting(t, result)
			release(t, last)
			next := await(t, result)
			require.NoError(t, next.err)
			require.Greater(t, next.lease.Token(), last.Token())
			last = next.lease
		}
		release(t, last)
	})
}

// TestLineTurnsAmongManyClients: waiters of several clients stand in turns in a long queue. Each
// watches all that stand between it and the one of its own client, and lists nothing.
func TestLineTurnsAmongManyClients(t *testing.T) {
	onFakeTime(t, func(t *testing.T, w longWait) {
		const clients, each = 5, 60
		lease := acquire(t, newMutex(t, w.holder, "/lock"))
		var held sync.WaitGroup
		all := []*framework.Framework{w.waiter}
		for len(all) < clients {
			all = append(all, zktest.Client(t, w.server))
		}
		for i := range clients * each {
			mutex := newMutex(t, all[i%clients], "/lock")
			held.Go(func() { release(t, acquire(t, mutex)) })
			time.Sleep(50 * time.Millisecond)
		}
		sent := countRequests(t, w.server)
		release(t, lease)
		held.Wait()
		lists := sent.since(zkserver.OpGetChildren2, zkserver.OpGetChildren)
		require.Less(t, lists, clients*each/3, "only the last of the queue list it, when it is short")
	})
}

// askedDriver counts how often a driver is asked.
type askedDriver struct {
	locks.StandardLockInternalsDriver
	asked *atomic.Int64
}

func (askedDriver) Shrinks(string) bool { return true }

func (d askedDriver) GetsTheLock(contenders []string, ours string, maxLeases int) (locks.PredicateResults, error) {
	d.asked.Add(1)
	return d.StandardLockInternalsDriver.GetsTheLock(contenders, ours, maxLeases)
}

// TestLineReleaseWakesNoCrowd: in a long queue of one client a release wakes the next waiter, not all
// who stand near the front.
func TestLineReleaseWakesNoCrowd(t *testing.T) {
	onFakeTime(t, func(t *testing.T, w longWait) {
		const waiting = 640
		driver := askedDriver{locks.StandardLockInternalsDriver{StandardLockInternalsSorter: mutexSorter}, new(atomic.Int64)}
		take := func() *locks.Lease {
			lock, err := locks.NewLockInternals(w.waiter, driver, "/lock", "lock-", 1)
			require.NoError(t, err)
			return acquire(t, lock)
		}
		lease := take()
		var held sync.WaitGroup
		for range waiting {
			held.Go(func() { release(t, take()) })
		}
		time.Sleep(time.Second)
		driver.asked.Store(0)
		release(t, lease)
		held.Wait()
		require.LessOrEqual(t, driver.asked.Load(), int64(waiting+waiting/4))
	})
}

// TestLineReaderWaitsForNoReaderOfItsOwn: between a reader and another reader of its client a
// writer gives up.
func TestLineReaderWaitsForNoReaderOfItsOwn(t *testing.T) {
	onFakeTime(t, func(t *testing.T, w longWait) {
		rw := newReadWrite(t, w.waiter, "/rw")
		first := acquire(t, rw.ReadLock())
		ctx, giveUp := context.WithCancel(context.Background())
		writer := acquireLater(ctx, newReadWrite(t, w.holder, "/rw").WriteLock())
		time.Sleep(time.Second)
		second := acquireLater(context.Background(), rw.ReadLock())
		time.Sleep(time.Second)
		requireWaiting(t, second)
		giveUp()
		require.ErrorIs(t, await(t, writer).err, context.Canceled)
		release(t, requireAtOnce(t, second))
		release(t, first)
	})
}

// TestLineMemoryOfWaiters: a waiter does not take more memory for the number of others. It runs
// in a process of its own, as what earlier tests have left in this one is freed at any time.
func TestLineMemoryOfWaiters(t *testing.T) {
	const alone = "CURATOR_TEST_ALONE"
	if os.Getenv(alone) == "" {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestLineMemoryOfWaiters$", "-test.v")
		cmd.Env = append(os.Environ(), alone+"=1")
		output, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", output)
		require.Contains(t, string(output), "--- PASS: TestLineMemoryOfWaiters")
		return
	}
	perWaiter := func(n int) float64 {
		server := zktest.NewServer(t)
		holder, client := zktest.Client(t, server), zktest.Client(t, server)
		mutex := newMutex(t, holder, "/lock")
		lease := acquire(t, mutex)
		before := memory()
		results, giveUp := waiters(t, client, n)
		ctx := zktest.Context(t)
		for { // until each watches its own node, and none asks for anything
			counts, err := server.FourLetterWord(ctx, "wchs")
			require.NoError(t, err)
			var conns, paths, watches int
			_, err = fmt.Sscanf(counts, "%d connections watching %d paths\nTotal watches:%d", &conns, &paths, &watches)
			require.NoError(t, err, counts)
			if paths == n+1 {
				break
			}
			time.Sleep(5 * time.Millisecond)
		}
		used := memory() - before
		giveUp()
		requireGivenUp(t, results, n)
		release(t, lease)
		return float64(used) / float64(n)
	}
	perWaiter(250) // what is made once
	few, many := perWaiter(250), perWaiter(1500)
	t.Logf("of 250: %.0f bytes each, of 1,500: %.0f", few, many)
	require.Less(t, many, 1.5*few)
}

func memory() int64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc + stats.StackInuse)
}

// TestLineTryThatMustFailCreatesNothing: where a contender is known to be in the way a try
// asks for a list. On a free lock it takes one round trip.
func TestLineTryThatMustFailCreatesNothing(t *testing.T) {
	onFakeTime(t, func(t *testing.T, w longWait) {
		mutex := newMutex(t, w.waiter, "/lock")
		release(t, acquire(t, mutex)) // makes the folder
		sent := countRequests(t, w.server)
		lease, err := mutex.TryAcquire(context.Background())
		require.NoError(t, err)
		require.Equal(t, 1, sent.since(zkserver.OpCreate2, zkserver.OpGetChildren2), "its node is the neighbour of the last one")

		_, err = mutex.TryAcquire(context.Background())
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
		lease, err = mutex.TryAcquire(context.Background())
		require.NoError(t, err)
		release(t, lease)
	})
}

// lingeringDriver takes its time after it has created a node.
type lingeringDriver struct {
	locks.StandardLockInternalsDriver
	created func()
}

func (lingeringDriver) Shrinks(string) bool { return true }

func (d lingeringDriver) CreatesTheLock(
	ctx context.Context, client *framework.Framework, session *framework.Session, path string, data []byte,
) (locks.LockNode, error) {
	node, err := d.StandardLockInternalsDriver.CreatesTheLock(ctx, client, session, path, data)
	d.created()
	return node, err
}

// TestLineTryIsCountedOnce: a try whose node is in the list that another try has asked for, but which does not know of it
// yet, is one contender and not two.
func TestLineTryIsCountedOnce(t *testing.T) {
	onFakeTime(t, func(t *testing.T, w longWait) {
		var slow atomic.Bool
		driver := lingeringDriver{locks.StandardLockInternalsDriver{StandardLockInternalsSorter: mutexSorter}, func() {
			if slow.CompareAndSwap(true, false) {
				time.Sleep(time.Second)
			}
		}}
		lock, err := locks.NewLockInternals(w.waiter, driver, "/lock", "lock-", 2)
		require.NoError(t, err)
		first, second := acquire(t, lock), acquire(t, lock)
		_, err = lock.TryAcquire(context.Background())
		require.ErrorIs(t, err, locks.ErrNotAcquired) // from now on it looks first
		release(t, first)
		release(t, second)

		slow.Store(true)
		begun := time.Now()
		other := make(chan outcome, 1)
		go func() {
			lease, err := lock.TryAcquire(context.Background())
			other <- outcome{lease, err}
		}()
		synctest.Wait()
		lease, err := lock.TryAcquire(context.Background())
		require.NoError(t, err)
		require.Equal(t, time.Second, time.Since(begun), "it knows when the other try does")
		o := <-other
		require.NoError(t, o.err)

		_, err = lock.TryAcquire(context.Background())
		require.ErrorIs(t, err, locks.ErrNotAcquired)
		release(t, lease)
		release(t, o.lease)
	})
}

// TestLineTryIsNotAnsweredByAnOlderList: a list that was sent before a try began, and
// names a contender that has gone by then, is no answer to it.
func TestLineTryIsNotAnsweredByAnOlderList(t *testing.T) {
	onFakeTime(t, func(t *testing.T, w longWait) {
		mutex := newMutex(t, w.waiter, "/lock")
		lease := acquire(t, newMutex(t, w.holder, "/lock"))
		_, err := mutex.TryAcquire(context.Background())
		require.ErrorIs(t, err, locks.ErrNotAcquired) // from now on it looks first

		answer, lists := make(chan struct{}), 0
		client := w.waiter.Session().ID()
		thaw := w.server.FreezeReads(client)
		defer w.server.Intercept(func(r zkserver.Request) zkserver.Fault {
			if r.SessionID != client || r.Op != zkserver.OpGetChildren2 {
				return zkserver.Pass
			}
			if lists++; lists == 1 {
				return zkserver.HoldUntil(answer) // and tell what is true now
			}
			thaw()
			return zkserver.Pass
		})()
		older, newer := make(chan error, 1), make(chan outcome, 1)
		go func() { _, err := mutex.TryAcquire(context.Background()); older <- err }()
		synctest.Wait() // the list is made, and its answer on the way
		release(t, lease)
		go func() {
			lease, err := mutex.TryAcquire(context.Background())
			newer <- outcome{lease, err}
		}()
		synctest.Wait()
		close(answer)
		require.ErrorIs(t, <-older, locks.ErrNotAcquired)
		o := <-newer
		require.NoError(t, o.err)
		release(t, o.lease)
	})
}

// TestLineTriesAtOnce: tries of one client that could all succeed do not keep each other out.
func TestLineTriesAtOnce(t *testing.T) {
	onFakeTime(t, func(t *testing.T, w longWait) {
		const n = 32
		try := func(lock locks.InterProcessLock) (leases []*locks.Lease) {
			var mu sync.Mutex
			var all sync.WaitGroup
			for range n {
				all.Go(func() {
					if lease, err := lock.TryAcquire(context.Background()); err == nil {
						mu.Lock()
						defer mu.Unlock()
						leases = append(leases, lease)
					}
				})
			}
			all.Wait()
			return leases
		}
		permits, err := locks.NewInterProcessSemaphore(w.waiter, "/permits", locks.FixedLeases(n))
		require.NoError(t, err)
		for _, test := range []struct {
			lock locks.InterProcessLock
			want int
		}{{permits, n}, {newReadWrite(t, w.waiter, "/rw").ReadLock(), n}, {newMutex(t, w.waiter, "/lock"), 1}} {
			for range 2 {
				leases := try(test.lock)
				require.Len(t, leases, test.want, "%s", test.lock.Path())
				releaseAll(t, leases)
			}
		}
	})
}

// TestLineOwnNodeGoesWithAllAhead: a vandal deletes them by hand at once. The waiter does not get the lock
// with a node that is gone, and queues again. Behind a contender that waits, too, it has not watched its node yet.
func TestLineOwnNodeGoesWithAllAhead(t *testing.T) {
	for ahead := 1; ahead <= 2; ahead++ {
		onFakeTime(t, func(t *testing.T, w longWait) {
			held := acquire(t, newMutex(t, w.holder, "/lock"))
			var between sync.WaitGroup
			if ahead == 2 {
				waits := acquireLater(context.Background(), newMutex(t, w.holder, "/lock"))
				between.Go(func() { (<-waits).lease.Release(context.Background()) }) //nolint:errcheck // a loss is not what is tested
				awaitQueue(t, newMutex(t, w.holder, "/lock"), 2)
			}
			mutex := newMutex(t, w.waiter, "/lock")
			waiting := acquireLater(context.Background(), mutex)
			time.Sleep(time.Second / 2)
			queue := awaitQueue(t, mutex, ahead+1)
			var vandal []framework.Op
			// The waiter's node first: between the events of one transaction the waiter may act on the first,
			// as if the second had come after the grant.
			for _, contender := range slices.Backward(queue) {
				vandal = append(vandal, framework.DeleteOp(contender.Path))
			}
			_, err := w.holder.Transact(t.Context(), vandal...)
			require.NoError(t, err)
			o := await(t, waiting)
			require.NoError(t, o.err)
			require.NotEqual(t, queue[ahead].Path, o.lease.Path())
			require.NoError(t, o.lease.Err())
			release(t, o.lease)
			require.Error(t, held.Release(t.Context()), "it was lost")
			between.Wait()
		})
	}
}
