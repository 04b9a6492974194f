// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/interop"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// kazooName is what kazoo calls the nodes of its Lock.
const kazooName = "__lock__"

// kazooLock is a lock of ours that queues with kazoo's Lock.
func kazooLock(tb testing.TB, client *framework.Framework, path string) *locks.LockInternals {
	tb.Helper()
	driver := locks.StandardLockInternalsDriver{
		StandardLockInternalsSorter: locks.StandardLockInternalsSorter{LockName: kazooName},
	}
	l, err := locks.NewLockInternals(client, driver, path, kazooName, 1)
	require.NoError(tb, err)
	return l
}

// makeFolder makes a folder that stays when it is empty, which kazoo expects.
func makeFolder(t *testing.T, server zktest.Backend, path, data string) {
	t.Helper()
	_, err := zktest.Client(t, server.ConnectString()).Create(zktest.Context(t), path, []byte(data), framework.CreatingParentsIfNeeded())
	require.NoError(t, err)
}

// Four clients in Go and four of kazoo's: one hold at a time, and in the order in which the server has created their nodes.
func TestKazooLockContest(t *testing.T) {
	onZooKeeper(t, func(t *testing.T, server zktest.Backend) {
		const each = 4
		turns := *turns
		const path = "/locks/contest"
		makeFolder(t, server, path, "")
		m := newMeeting(t, server)
		observer := kazooLock(t, m.observer(t), path)
		for i := range each {
			m.kazoo(t, turns, "contend", "lock", path)

			who := "go" + strconv.Itoa(i)
			m.holds[who], m.counter = turns, m.counter+turns
			m.ours(t, func(client *framework.Framework) func(context.Context) error {
				lock := kazooLock(t, client, path)
				return func(ctx context.Context) error {
					return m.contend(ctx, who, lock, turns)
				}
			})
		}
		f := m.end(t, observer)
		require.Empty(t, f.overtook, "an older contender was overtaken")
		require.Equal(t, 1, f.most)
	})
}

// kazooSemaphore is a semaphore of ours in the layout of kazoo's: every child of the
// folder is a lease, whatever its name, and whoever has the lock beside the folder
// may add one.
type kazooSemaphore struct{ turn, leases *locks.LockInternals }

func newKazooSemaphore(tb testing.TB, client *framework.Framework, path string) kazooSemaphore {
	tb.Helper()
	leases, err := locks.NewLockInternals(client, kazooLeases{}, path, "lease", permits)
	require.NoError(tb, err)
	return kazooSemaphore{kazooLock(tb, client, path+"-"+kazooName), leases}
}

func (s kazooSemaphore) Path() string { return s.leases.Path() }

func (s kazooSemaphore) Acquire(ctx context.Context) (lease *locks.Lease, err error) {
	turn, err := s.turn.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	lease, err = s.leases.Acquire(turn.Context(ctx))
	return lease, errors.Join(err, turn.Release(context.WithoutCancel(ctx)))
}

func (s kazooSemaphore) TryAcquire(ctx context.Context) (lease *locks.Lease, err error) {
	turn, err := s.turn.TryAcquire(ctx)
	if err != nil {
		return nil, err
	}
	lease, err = s.leases.TryAcquire(turn.Context(ctx))
	return lease, errors.Join(err, turn.Release(context.WithoutCancel(ctx)))
}

// kazooLeases is the driver of the leases. They have no order.
type kazooLeases struct{}

func (kazooLeases) Contends(string) bool    { return true }
func (kazooLeases) Compare(a, b string) int { return cmp.Compare(a, b) }

func (kazooLeases) CreatesTheLock(
	ctx context.Context, client *framework.Framework, session *framework.Session, path string, data []byte,
) (node locks.LockNode, err error) {
	node.Path, err = client.Create(ctx, path, data, framework.CreatingParentsIfNeeded(),
		framework.WithProtection(), framework.WithMode(framework.Ephemeral), framework.InSession(session),
		framework.StoringStatIn(&node.Stat), framework.ListingSiblingsIn(&node.Children))
	return node, err
}

func (kazooLeases) GetsTheLock(contenders []string, ours string, maxLeases int) (locks.PredicateResults, error) {
	if !slices.Contains(contenders, ours) {
		return locks.PredicateResults{}, framework.ErrNoNode
	}
	return locks.PredicateResults{GetsTheLock: len(contenders) <= maxLeases}, nil
}

// Four clients of each side never have more leases together than there are.
func TestKazooSemaphoreContest(t *testing.T) {
	onZooKeeper(t, func(t *testing.T, server zktest.Backend) {
		const each = 4
		turns := *turns
		const path = "/locks/contest"
		makeFolder(t, server, path, strconv.Itoa(permits)) // where kazoo keeps the number
		makeFolder(t, server, path+"-"+kazooName, "")
		m := newMeeting(t, server)
		observer := newKazooSemaphore(t, m.observer(t), path)
		for i := range each {
			m.kazoo(t, turns, "share", "semaphore", path, strconv.Itoa(permits))

			who := "go" + strconv.Itoa(i)
			m.holds[nth(who, 0)] = turns
			m.ours(t, func(client *framework.Framework) func(context.Context) error {
				semaphore := newKazooSemaphore(t, client, path)
				return func(ctx context.Context) error { return m.share(ctx, who, once(semaphore), turns) }
			})
		}
		f := m.end(t, observer.leases)
		require.LessOrEqual(t, f.most, permits, "leases at one time")
	})
}

// Either side counts the leases of the other: with all of them taken, nobody gets one.
func TestKazooSemaphoreLeasesOfBothSides(t *testing.T) {
	eachBackend(t, func(t *testing.T, server zktest.Backend) {
		const path = "/locks/both"
		makeFolder(t, server, path, strconv.Itoa(permits)) // where kazoo keeps the number
		makeFolder(t, server, path+"-"+kazooName, "")
		ours := newKazooSemaphore(t, zktest.Client(t, server.ConnectString()), path)
		python := newKazoo(t, server)
		python.do(t, "semaphore", "m", path, strconv.Itoa(permits))
		python.acquire(t, "m")
		var leases []*locks.Lease
		for range permits - 1 {
			lease, err := ours.TryAcquire(zktest.Context(t))
			require.NoError(t, err)
			leases = append(leases, lease)
		}
		_, err := ours.TryAcquire(zktest.Context(t))
		require.ErrorIs(t, err, locks.ErrNotAcquired)

		python.do(t, "release", "m")
		lease, err := ours.TryAcquire(zktest.Context(t))
		require.NoError(t, err)
		require.Empty(t, python.do(t, "acquire", "m", "20"), "Go has all of them")
		require.NoError(t, lease.Release(zktest.Context(t)))
		python.acquire(t, "m")
		python.do(t, "release", "m")
		for _, lease := range leases {
			require.NoError(t, lease.Release(zktest.Context(t)))
		}
		require.Empty(t, awaitQueue(t, ours.leases, 0))
	})
}

// Each side sees the other hold and wait, hears of its end, and takes its turn.
func TestKazooAndGoQueueTogether(t *testing.T) {
	eachBackend(t, func(t *testing.T, server zktest.Backend) {
		const path = "/locks/both"
		makeFolder(t, server, path, "")
		client := zktest.Client(t, server.ConnectString())
		ours := kazooLock(t, client, path)
		python, gone := newKazoo(t, server), newKazoo(t, server)
		python.do(t, "lock", "m", path)
		gone.do(t, "lock", "m", path)

		node, czxid := gone.acquire(t, "m")
		_, err := ours.TryAcquire(zktest.Context(t))
		require.ErrorIs(t, err, locks.ErrNotAcquired)
		queue := awaitQueue(t, ours, 1)
		require.Equal(t, node, queue[0].Path)
		require.Equal(t, czxid, queue[0].Token)
		require.Equal(t, gone.Name(), queue[0].Identity)

		got := make(chan *locks.Lease, 1)
		go func() {
			lease, err := ours.Acquire(zktest.Context(t))
			if err != nil {
				t.Errorf("acquire: %v", err)
			}
			got <- lease
		}()
		awaitQueue(t, ours, 2)
		gone.close(t) // and with it the session
		lease := <-got
		require.Empty(t, python.do(t, "acquire", "m", "20"))
		turn := python.Begin("acquire", "m")
		awaitQueue(t, ours, 2)
		zktest.KillSession(t, client)
		hold, err := turn(zktest.Context(t))
		require.NoError(t, err)
		require.Len(t, hold, 2)
		<-lease.Done()
		python.do(t, "release", "m")
		require.Empty(t, awaitQueue(t, ours, 0))
	})
}

// kazoo's Lock and InterProcessMutex ignore each other's nodes, and so do Curator's
// read/write lock and kazoo's: on one path, both sides hold.
func TestKazooLockOtherLocksIgnoreKazoo(t *testing.T) {
	eachBackend(t, func(t *testing.T, server zktest.Backend) {
		const path = "/locks/apart"
		makeFolder(t, server, path, "")
		client := zktest.Client(t, server.ConnectString())
		mutex := newMutex(t, client, path)
		rw, err := locks.NewInterProcessReadWriteLock(client, path)
		require.NoError(t, err)
		python := newKazoo(t, server)
		python.do(t, "lock", "plain", path)
		python.do(t, "lock", "told", path, "lock-", "__WRIT__")
		python.acquire(t, "plain")
		for _, ours := range []locks.InterProcessLock{mutex, rw.WriteLock()} {
			lease, err := ours.TryAcquire(zktest.Context(t))
			require.NoError(t, err, "ours does not see kazoo's")
			require.Empty(t, python.do(t, "acquire", "told", "20"))
			require.NoError(t, lease.Release(zktest.Context(t)))
		}
		python.do(t, "release", "plain")

		lease, err := mutex.TryAcquire(zktest.Context(t))
		require.NoError(t, err)
		python.acquire(t, "plain")
		python.do(t, "release", "plain")
		require.Empty(t, python.do(t, "acquire", "told", "20"), "kazoo sees ours if it is told its name")
		require.NoError(t, lease.Release(zktest.Context(t)))
		python.acquire(t, "told")
		python.do(t, "release", "told")
	})
}

// kazoo makes sure of its folder once. When a folder that Go has made has been empty
// for a while, the server deletes it, and kazoo's next acquisition fails: so a folder
// that is shared with kazoo must be one that stays.
func TestKazooNeedsAFolderThatStays(t *testing.T) {
	needsJava(t)
	server := zktest.Embedded(zktest.NewServer(t, zkserver.WithContainerCheckInterval(10*time.Millisecond)))
	makeChroot(t, server)
	client := zktest.Client(t, server.ConnectString())
	ours := kazooLock(t, client, "/locks/container")
	lease, err := ours.Acquire(zktest.Context(t))
	require.NoError(t, err)
	python := newKazoo(t, server)
	python.do(t, "lock", "m", "/locks/container")
	turn := python.Begin("acquire", "m")
	awaitQueue(t, ours, 2)
	require.NoError(t, lease.Release(zktest.Context(t)))
	_, err = turn(zktest.Context(t))
	require.NoError(t, err)
	python.do(t, "release", "m")
	awaitGone(t, client, "/locks/container")
	_, err = python.Do(zktest.Context(t), "acquire", "m")
	var raised *interop.PythonError
	require.ErrorAs(t, err, &raised)
	require.Equal(t, "NoNodeError", raised.Class)

	lease, err = ours.Acquire(zktest.Context(t))
	require.NoError(t, err, "ours makes it again")
	require.NoError(t, lease.Release(zktest.Context(t)))
}

// What goes wrong in Python is told, and Close ends the process and leaves nothing.
func TestKazooLockWhatGoesWrongInPython(t *testing.T) {
	needsJava(t)
	python, err := interop.StartKazoo()
	require.NoError(t, err)
	var wg sync.WaitGroup
	for _, name := range []string{"a", "b"} {
		wg.Go(func() {
			_, err := python.Actor(name).Do(zktest.Context(t), "sing", "a song")
			var raised *interop.PythonError
			if !errors.As(err, &raised) || raised.Class != "AttributeError" {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	wg.Wait()
	require.NoError(t, python.Close())
	_, err = python.Actor("a").Do(zktest.Context(t), "version")
	require.ErrorContains(t, err, "python is gone")
}
