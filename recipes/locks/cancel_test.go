// SPDX-License-Identifier: Apache-2.0

package locks_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/seeds"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zkproxy"
	"github.com/gocurator/curator/testing/zktest"
)

// fate is what happens to one request of a call, at the moment at which the
// caller's context ends.
type fate struct {
	name      string
	direction zkproxy.Direction
	verdict   zkproxy.Verdict
}

var fates = []fate{
	{"answered", zkproxy.ToServer, zkproxy.Pass},
	{"request lost with the connection", zkproxy.ToServer, zkproxy.CutBefore},
	{"reply lost with the connection", zkproxy.ToClient, zkproxy.CutBefore},
	{"request never answered", zkproxy.ToServer, zkproxy.Drop},
	{"applied and never answered", zkproxy.ToClient, zkproxy.Drop},
}

// cell is one run of TestCancelledAtEveryRequest.
type cell struct {
	server   zktest.Backend
	link     *zkproxy.Proxy
	client   *framework.Framework
	mutex    *locks.InterProcessMutex
	rw       *locks.InterProcessReadWriteLock
	leases   *locks.InterProcessSemaphoreV2 // two
	before   zktest.Counts
	routines int
}

// requestsOfAWait is how many requests one who waits makes at least: create, list, watch,
// and a look at the own node.
const requestsOfAWait = 4

// certainOfAWait is how many of these are surely answered before the wait ends: the lock may
// be granted while the look at the own node is under way.
const certainOfAWait = requestsOfAWait - 1

// TestCancelledAtEveryRequest ends the context of a call at each of its requests
// in turn, with each fate of that request, and checks that nothing is left:
// neither znode nor watch within a second of the link being whole again, nor
// goroutine.
//
// It needs real ZooKeeper. On the embedded server TestEveryFaultAtEveryRequest has these
// cells and more, without a network and on a fake clock.
func TestCancelledAtEveryRequest(t *testing.T) {
	calls := []struct {
		name     string
		requests int // at least; the real number is found by going on until the call needs no more
		prepare  func(t *testing.T, c *cell) (call func(context.Context) error, tidy func())
		fates    int // the first so many, if not all
	}{
		{"acquire a free lock", 3, prepareFree, 0},
		{"wait for a lock", certainOfAWait, prepareWait, 0},
		{"try a held lock", 3, prepareTry, 0},
		{"release", 1, prepareRelease, 0},
		{"read behind a writer", certainOfAWait, prepareRead, 0},
		{"write behind a reader", certainOfAWait, prepareWrite, 0},
		{"downgrade", 2, prepareDowngrade, 0},
		{"acquire two leases", 4, prepareLeases, 0},
		{"wait for a lease of a semaphore", certainOfAWait, prepareLease, 0},
		{"acquire two locks as one", 4, prepareMulti, 0},
		{"wait for a condition and be signalled", 9, prepareCondition, 1},
	}
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		if server.Name() == "zkserver" {
			t.Skip("everyfault_test.go has these cells, and more, on a fake clock")
		}
		routines := runtime.NumGoroutine()
		cells := 0
		t.Run("cells", func(t *testing.T) {
			for _, call := range calls {
				for _, f := range fates[:cmp.Or(call.fates, len(fates))] {
					name := call.name + ", " + f.name
					t.Run(name, func(t *testing.T) {
						k := 1
						for newCell(t, server).run(t, fmt.Sprintf("%s, request %d", name, k), f, k, call.prepare) {
							k++
						}
						require.GreaterOrEqual(t, k-1, call.requests)
						cells += k - 1
					})
				}
			}
		})
		awaitGoroutines(t, "all cells", routines)
		t.Logf("%d cells of call, request and fate", cells)
		require.GreaterOrEqual(t, cells, 230)
	})
}

func newCell(t *testing.T, server zktest.Backend) *cell {
	t.Helper()
	c := &cell{server: server, link: zktest.NewProxy(t, server.Addr())}
	c.client = zktest.Client(t, server.ConnectStringVia(c.link.Addr()))
	c.mutex = newMutex(t, c.client, "/locks/cell")
	c.rw = newReadWrite(t, c.client, "/locks/cell")
	c.leases = newSemaphore(t, c.client, "/locks/cell", locks.FixedLeases(2))
	return c
}

// run makes the call and reports whether it had a k-th request.
func (c *cell) run(
	t *testing.T, name string, f fate, k int, prepare func(*testing.T, *cell) (func(context.Context) error, func()),
) (reached bool) {
	t.Helper()
	call, tidy := prepare(t, c)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	hit := make(chan struct{})
	var once sync.Once
	first := c.link.Requests()
	remove := c.link.Intercept(func(frame zkproxy.Frame) zkproxy.Verdict {
		if frame.Index != first+k || frame.Direction != f.direction {
			return zkproxy.Pass
		}
		verdict := zkproxy.Verdict(zkproxy.Pass)
		once.Do(func() {
			verdict = f.verdict
			close(hit) // first: the end of the call must not be seen before it
			cancel()
		})
		return verdict
	})
	result := make(chan error, 1)
	go func() { result <- call(ctx) }()
	select {
	case <-hit:
		// The next reply reveals a lost one, so this request ends the wait of a release, which
		// ignores the context, before the next ping does.
		require.NoError(t, c.client.Sync(withLimit(t), "/"), name)
	case err := <-result:
		result <- err
	case <-time.After(limit):
	}
	select {
	case err := <-result:
		requireDefinite(t, name, err)
	case <-time.After(limit):
		t.Fatalf("%s: the call has not returned", name)
	}
	remove()
	tidy()
	select {
	case <-hit:
	default:
		require.NoError(t, c.client.Close())
		return false
	}

	require.NoError(t, c.client.Sync(withLimit(t), "/"), name) // as above, if the call ended first
	c.server.AwaitCounts(t, c.before, limit)
	awaitGoroutines(t, name, c.routines)
	for _, lock := range []locks.InterProcessLock{c.mutex, c.rw.WriteLock()} {
		lease, err := lock.TryAcquire(withLimit(t))
		require.NoError(t, err, name)
		release(t, lease)
	}
	leases, err := c.leases.TryAcquireN(withLimit(t), 2)
	require.NoError(t, err, name)
	releaseAll(t, leases)
	require.NoError(t, c.client.Close(), name)
	c.before.Sessions--
	c.server.AwaitCounts(t, c.before, limit)
	return true
}

// requireDefinite checks that the end of a call is one of those that its contract
// names: success, not acquired, lost, or released with the deletion pending.
func requireDefinite(t *testing.T, name string, err error) {
	t.Helper()
	var lost *locks.LostError
	if err == nil || errors.As(err, &lost) ||
		errors.Is(err, locks.ErrNotAcquired) || errors.Is(err, framework.ErrCleanupPending) || errors.Is(err, context.Canceled) {
		return
	}
	t.Errorf("%s: the call ended with %v", name, err)
}

// baseline remembers what there is before the call.
func (c *cell) baseline(t *testing.T) {
	t.Helper()
	require.NoError(t, c.client.Sync(withLimit(t), "/"))
	c.before = c.server.Counts(t)
	c.routines = runtime.NumGoroutine()
}

func prepareFree(t *testing.T, c *cell) (func(context.Context) error, func()) {
	c.baseline(t)
	return func(ctx context.Context) error {
		lease, err := c.mutex.Acquire(ctx)
		if err != nil {
			return err
		}
		// The context came to its end too late for this call: give the lock back.
		return lease.Release(context.WithoutCancel(ctx))
	}, func() {}
}

// byAnother has another session acquire; tidy releases.
func byAnother(t *testing.T, c *cell, acquireAs func(*framework.Framework) *locks.Lease) (tidy func()) {
	t.Helper()
	other := zktest.Client(t, c.server.ConnectString())
	require.NoError(t, other.Sync(withLimit(t), "/")) // all its goroutines run now
	c.baseline(t)
	lease := acquireAs(other)
	return func() { release(t, lease) }
}

// heldByAnother has another session hold the mutex.
func heldByAnother(t *testing.T, c *cell) (tidy func()) {
	t.Helper()
	return byAnother(t, c, func(other *framework.Framework) *locks.Lease {
		return acquire(t, newMutex(t, other, "/locks/cell"))
	})
}

// waitFor waits for a lock that is held. The call that has no k-th request must end too:
// when it has made the requests that it makes in any case, and no more for a while.
func waitFor(t *testing.T, c *cell, lock locks.InterProcessLock) func(context.Context) error {
	t.Helper()
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		last := c.link.Requests() // before the call makes any
		go func() {
			for least := last + requestsOfAWait; ; last = c.link.Requests() {
				select {
				case <-time.After(200 * time.Millisecond):
				case <-ctx.Done():
					return
				}
				if last >= least && c.link.Requests() == last {
					cancel()
				}
			}
		}()
		lease, err := lock.Acquire(ctx)
		require.Error(t, err)
		require.Nil(t, lease)
		return err
	}
}

func prepareWait(t *testing.T, c *cell) (func(context.Context) error, func()) {
	tidy := heldByAnother(t, c)
	return waitFor(t, c, c.mutex), tidy
}

func prepareRead(t *testing.T, c *cell) (func(context.Context) error, func()) {
	tidy := byAnother(t, c, func(other *framework.Framework) *locks.Lease {
		return acquire(t, newReadWrite(t, other, "/locks/cell").WriteLock())
	})
	return waitFor(t, c, c.rw.ReadLock()), tidy
}

func prepareWrite(t *testing.T, c *cell) (func(context.Context) error, func()) {
	tidy := byAnother(t, c, func(other *framework.Framework) *locks.Lease {
		return acquire(t, newReadWrite(t, other, "/locks/cell").ReadLock())
	})
	return waitFor(t, c, c.rw.WriteLock()), tidy
}

// prepareDowngrade has the writer's lease survive the call, if the link does.
func prepareDowngrade(t *testing.T, c *cell) (func(context.Context) error, func()) {
	c.baseline(t)
	writer := acquire(t, c.rw.WriteLock())
	call := func(ctx context.Context) error {
		lease, err := c.rw.ReadLock().Acquire(writer.Context(ctx))
		if err != nil {
			return err
		}
		return lease.Release(context.WithoutCancel(ctx))
	}
	return call, func() { requireDefinite(t, "release of the writer", writer.Release(withLimit(t))) }
}

func prepareLeases(t *testing.T, c *cell) (func(context.Context) error, func()) {
	c.baseline(t)
	return func(ctx context.Context) error {
		leases, err := c.leases.AcquireN(ctx, 2)
		for _, lease := range leases {
			err = errors.Join(err, lease.Release(context.WithoutCancel(ctx)))
		}
		return err
	}, func() {}
}

// prepareLease has another session hold all leases.
func prepareLease(t *testing.T, c *cell) (func(context.Context) error, func()) {
	var second *locks.Lease
	tidy := byAnother(t, c, func(other *framework.Framework) *locks.Lease {
		leases, err := newSemaphore(t, other, "/locks/cell", locks.FixedLeases(2)).TryAcquireN(withLimit(t), 2)
		require.NoError(t, err)
		second = leases[1]
		return leases[0]
	})
	return waitFor(t, c, c.leases), func() { tidy(); release(t, second) }
}

func prepareMulti(t *testing.T, c *cell) (func(context.Context) error, func()) {
	multi := newMulti(t, c.mutex, c.rw.WriteLock())
	c.baseline(t)
	return func(ctx context.Context) error {
		lease, err := multi.Acquire(ctx)
		if err != nil {
			return err
		}
		return lease.Release(context.WithoutCancel(ctx))
	}, func() {}
}

// prepareCondition has another session signal as soon as it gets the lock, for which
// it waits.
func prepareCondition(t *testing.T, c *cell) (func(context.Context) error, func()) {
	condition, err := c.mutex.NewCondition("/locks/cell-changed")
	require.NoError(t, err)
	other := zktest.Client(t, c.server.ConnectString())
	require.NoError(t, other.Sync(withLimit(t), "/")) // all its goroutines run now
	c.baseline(t)
	lease := acquire(t, c.mutex)
	m := newMutex(t, other, "/locks/cell")
	signal, err := m.NewCondition("/locks/cell-changed")
	require.NoError(t, err)
	signaller := acquireLater(withLimit(t), m)
	awaitQueue(t, m, 2)
	signalled := make(chan error, 1)
	go func() {
		o := <-signaller
		signalled <- errors.Join(o.err, signal.Signal(context.Background(), o.lease), o.lease.Release(context.Background()))
	}()
	call := func(ctx context.Context) error {
		again, err := condition.Await(ctx, lease)
		if err != nil {
			require.Nil(t, again)
			return err
		}
		return again.Release(context.WithoutCancel(ctx))
	}
	return call, func() {
		require.NoError(t, c.client.Sync(withLimit(t), "/")) // the signaller waits for what was lost
		require.NoError(t, <-signalled)
	}
}

func prepareTry(t *testing.T, c *cell) (func(context.Context) error, func()) {
	tidy := heldByAnother(t, c)
	return func(ctx context.Context) error {
		lease, err := c.mutex.TryAcquire(ctx)
		require.Error(t, err)
		require.Nil(t, lease)
		return err
	}, tidy
}

func prepareRelease(t *testing.T, c *cell) (func(context.Context) error, func()) {
	c.baseline(t)
	lease := acquire(t, c.mutex)
	return func(ctx context.Context) error { return lease.Release(ctx) }, func() {}
}

func awaitGoroutines(t *testing.T, name string, want int) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for runtime.NumGoroutine() > want {
		if time.Now().After(deadline) {
			stacks := make([]byte, 1<<20)
			t.Fatalf("%s: %d goroutines, before it were %d\n%s", name, runtime.NumGoroutine(), want,
				stacks[:runtime.Stack(stacks, true)])
		}
		time.Sleep(100 * time.Microsecond)
	}
}

// Neither tries nor timed-out waits pile anything up, however many there are.
func TestTryAcquireTenThousandTimesLeavesNothing(t *testing.T) {
	tries := 2_000
	if seeds.Long() {
		tries = 10_000
	}
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		holder := zktest.Client(t, server.ConnectString())
		client := zktest.Client(t, server.ConnectString())
		for _, c := range []*framework.Framework{holder, client} {
			require.NoError(t, c.Sync(withLimit(t), "/")) // all its goroutines run now
		}
		held := whileHeld(server.Counts(t))
		lease := acquire(t, newMutex(t, holder, "/locks/tries"))
		server.AwaitCounts(t, held, limit)
		routines := runtime.NumGoroutine()
		m := newMutex(t, client, "/locks/tries")
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				for i := range tries / 10 {
					if err := tryOnce(m, i%10 == 0); err == nil {
						t.Error("the lock was acquired while it was held")
						return
					}
				}
			})
		}
		wg.Wait()
		server.AwaitCounts(t, held, limit)
		awaitGoroutines(t, "after the tries", routines)
		require.NoError(t, lease.Err())
		release(t, lease)
	})
}

func tryOnce(m *locks.InterProcessMutex, wait bool) error {
	if !wait {
		_, err := m.TryAcquire(context.Background())
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Millisecond)
	defer cancel()
	_, err := m.Acquire(ctx)
	return err
}
