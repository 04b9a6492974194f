// SPDX-License-Identifier: Apache-2.0

package locks_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// wrongDriver is a mutex whose waiters have to wait for what wrong returns.
type wrongDriver struct {
	locks.StandardLockInternalsDriver

	wrong func(contenders []string, ours string) []string
}

func (d wrongDriver) GetsTheLock(contenders []string, ours string, maxLeases int) (locks.PredicateResults, error) {
	result, err := d.StandardLockInternalsDriver.GetsTheLock(contenders, ours, maxLeases)
	if err == nil && !result.GetsTheLock {
		result.PathsToWatch = d.wrong(contenders, ours)
	}
	return result, err
}

// TestDriverThatIsWrong gets an error that says so, and leaves no node.
func TestDriverThatIsWrong(t *testing.T) {
	for name, test := range map[string]struct {
		wrong func(contenders []string, ours string) []string
		want  string
	}{
		"nobody": {func([]string, string) []string { return []string{"nobody"} }, `has to wait for "nobody", expected one of the contenders`},
		"itself": {func(_ []string, ours string) []string { return []string{ours} }, "has to wait for itself"},
		"twice": {
			func(contenders []string, _ string) []string { return []string{contenders[0], contenders[0]} },
			"expected names that differ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			onFakeTime(t, func(t *testing.T, w longWait) {
				driver := wrongDriver{locks.StandardLockInternalsDriver{StandardLockInternalsSorter: mutexSorter}, test.wrong}
				lock, err := locks.NewLockInternals(w.waiter, driver, "/lock", "lock-", 1)
				require.NoError(t, err)
				held := acquire(t, newMutex(t, w.holder, "/lock"))
				_, err = lock.Acquire(withDeadline(t, time.Minute))
				require.ErrorContains(t, err, test.want)
				require.ErrorContains(t, err, "locks_test.wrongDriver")
				awaitQueue(t, newMutex(t, w.holder, "/lock"), 1)
				release(t, held)
			})
		})
	}
}

// priority is a mutex whose urgent contenders come first: no lock, as an urgent newcomer
// stands before the holder.
type priority struct {
	locks.StandardLockInternalsDriver
}

func (priority) Contends(name string) bool {
	return strings.Contains(name, "-lock-")
}

func (d priority) Compare(a, b string) int {
	if d := strings.Count(b, "urgent") - strings.Count(a, "urgent"); d != 0 {
		return d
	}
	return d.StandardLockInternalsDriver.Compare(a, b)
}

// notingPriority is a priority that cannot be compared with another one.
type notingPriority struct {
	priority

	note func()
}

// TestDriverThatLetsANewcomerIn before a contender of this process that holds the lock gets an error,
// whatever driver has let that one in, in whatever view of the client.
func TestDriverThatLetsANewcomerIn(t *testing.T) {
	priorityOf := func(lockName string) priority {
		return priority{locks.StandardLockInternalsDriver{
			StandardLockInternalsSorter: locks.StandardLockInternalsSorter{LockName: lockName},
		}}
	}
	usual := priorityOf("lock-")
	pointer := &usual
	for name, drivers := range map[string]struct{ holder, newcomer locks.LockInternalsDriver }{
		"the same value":      {usual, priorityOf("lock-")},
		"the same pointer":    {pointer, pointer},
		"two pointers":        {pointer, new(usual)},
		"a value, a pointer":  {usual, pointer},
		"two lock names":      {priorityOf("usual-lock-"), priorityOf("urgent-lock-")},
		"two with a function": {notingPriority{usual, func() {}}, notingPriority{usual, func() {}}},
		"one with a function": {usual, notingPriority{usual, func() {}}},
		"another type":        {locks.StandardLockInternalsDriver{StandardLockInternalsSorter: mutexSorter}, usual},
	} {
		t.Run(name, func(t *testing.T) {
			onFakeTime(t, func(t *testing.T, w longWait) {
				open := func(client *framework.Framework, path, lockName string, driver locks.LockInternalsDriver) *locks.LockInternals {
					lock, err := locks.NewLockInternals(client, driver, path, lockName, 1)
					require.NoError(t, err)
					return lock
				}
				view, err := w.waiter.UsingNamespace("a")
				require.NoError(t, err)
				holder, newcomer := open(w.waiter, "/a/lock", "usual-lock-", drivers.holder), open(view, "/lock", "urgent-lock-", drivers.newcomer)
				held := acquire(t, holder)
				_, err = newcomer.Acquire(withDeadline(t, time.Minute))
				require.ErrorContains(t, err, "which holds the lock")
				require.NoError(t, held.Err())
				awaitQueue(t, holder, 1)
				release(t, held)
				release(t, acquire(t, newcomer))
			})
		})
	}
}

// thinkingDriver is a semaphore that thinks for a while before it lets one contender in.
type thinkingDriver struct {
	locks.StandardLockInternalsDriver

	think func(ours string)
}

func (d thinkingDriver) GetsTheLock(contenders []string, ours string, maxLeases int) (locks.PredicateResults, error) {
	result, err := d.StandardLockInternalsDriver.GetsTheLock(contenders, ours, maxLeases)
	if result.GetsTheLock {
		d.think(ours)
	}
	return result, err
}

// TestDriverThatThinks decides by a list that is older than the hold of a later contender.
// It is right nevertheless: by a newer list both have the lock.
func TestDriverThatThinks(t *testing.T) {
	onFakeTime(t, func(t *testing.T, w longWait) {
		third, goOn := atomic.Pointer[string]{}, make(chan struct{})
		driver := thinkingDriver{
			locks.StandardLockInternalsDriver{StandardLockInternalsSorter: mutexSorter},
			func(ours string) {
				if name := third.Load(); name != nil && *name == ours {
					<-goOn
				}
			},
		}
		lock, err := locks.NewLockInternals(w.waiter, &driver, "/lock", "lock-", 2)
		require.NoError(t, err)
		held := []*locks.Lease{acquire(t, lock), acquire(t, lock)}
		waiting := acquireLater(t.Context(), lock)
		queue := awaitQueue(t, lock, 3)
		_, name := framework.SplitPath(queue[2].Path)
		third.Store(&name)
		last := acquireLater(t.Context(), lock)
		awaitQueue(t, lock, 4)
		synctest.Wait()

		release(t, held[0])
		synctest.Wait() // the third one thinks
		requireWaiting(t, waiting)
		release(t, held[1])
		fourth := requireAtOnce(t, last)
		close(goOn)
		release(t, requireAtOnce(t, waiting))
		release(t, fourth)
	})
}

// TestDriverMoreWatchesThanOneRequestTakes: a waiter of the first semaphore watches all
// places, whose names are more than a server accepts at once.
func TestDriverMoreWatchesThanOneRequestTakes(t *testing.T) {
	onFakeTime(t, func(t *testing.T, w longWait) {
		const permits = 300
		path := "/" + strings.Repeat("x", 5000)
		require.Greater(t, permits*len(path), 1<<20)
		open := func(client *framework.Framework) *locks.InterProcessSemaphore {
			s, err := locks.NewInterProcessSemaphore(client, path, locks.FixedLeases(permits))
			require.NoError(t, err)
			return s
		}
		var held []*locks.Lease
		holder := open(w.holder)
		for range permits {
			held = append(held, acquire(t, holder))
		}
		waiting := acquireLater(context.Background(), open(w.waiter))
		time.Sleep(time.Second)
		requireWaiting(t, waiting)
		release(t, held[permits/2])
		release(t, requireAtOnce(t, waiting))
		releaseAll(t, held)
	})
}

// failingDriver fails to decide.
type failingDriver struct {
	locks.StandardLockInternalsDriver

	fail func() error
}

func (d failingDriver) GetsTheLock([]string, string, int) (locks.PredicateResults, error) {
	return locks.PredicateResults{}, d.fail()
}

func newFailing(t *testing.T, client *framework.Framework, path string, fail func() error, opts ...locks.Option) *locks.LockInternals {
	t.Helper()
	driver := failingDriver{locks.StandardLockInternalsDriver{StandardLockInternalsSorter: mutexSorter}, fail}
	internals, err := locks.NewLockInternals(client, driver, path, "lock-", 1, opts...)
	require.NoError(t, err)
	return internals
}

// What comes after the creation fails: the error is told as it is, and the node is
// gone. For a node that is said to be missing it is tried again first.
//
// See zk-ruby#49, zk-ruby#51, aiozk#34, kazoo#429, CURATOR-315, CURATOR-335, CURATOR-462 and
// etcd#21128.
func TestDriverFailureAfterTheCreationLeavesNoNode(t *testing.T) {
	tryAtOnce(t, func(t *testing.T, server zktest.Backend, path string) {
		trouble := errors.New("trouble")
		client := zktest.Client(t, server.ConnectString(), framework.WithRetryPolicy(retry.NTimes(2, time.Millisecond)))
		for cause, want := range map[error]int{
			trouble: 1, fmt.Errorf("not there: %w", framework.ErrNoNode): 3,
		} {
			asked := 0
			_, err := newFailing(t, client, path, func() error { asked++; return cause }).Acquire(zktest.Context(t))
			require.ErrorIs(t, err, cause)
			require.Equal(t, want, asked)
			requireNoChildren(t, client, path)
		}
	})
}

// What comes after the creation fails, and so does the deletion of the node, as the
// connection and then the session end: the first failure is the one that is told.
func TestDriverFirstFailureIsTold(t *testing.T) {
	tryAtOnce(t, func(t *testing.T, server zktest.Backend, path string) {
		trouble := errors.New("trouble")
		client, link := zktest.ClientViaProxy(t, server,
			framework.WithRetryPolicy(retry.None()), framework.WithConnectionTimeout(time.Second/2))
		internals := newFailing(t, client, path, func() error {
			link.Refuse(true)
			link.Cut()
			zktest.KillSession(t, client, server.Addr())
			return trouble
		})
		_, err := internals.Acquire(zktest.Context(t))
		require.ErrorIs(t, err, trouble)
		awaitQueue(t, newMutex(t, zktest.Client(t, server.ConnectString()), path), 0)
	})
}

// TestWithCleanupTimeoutWaitsForTheDeletion: the context of the caller ends while the node of a
// failed acquisition is being deleted.
func TestWithCleanupTimeoutWaitsForTheDeletion(t *testing.T) {
	onFakeTime(t, func(t *testing.T, w longWait) {
		trouble, answer := errors.New("trouble"), make(chan struct{})
		w.server.Intercept(zkserver.Nth(1, zkserver.OpDelete, zkserver.HoldUntil(answer)))
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		result := acquireLater(ctx, newFailing(t, w.waiter, "/lock", func() error { return trouble }, locks.WithCleanupTimeout(10*time.Second)))
		time.Sleep(time.Second)
		cancel()
		time.Sleep(time.Second)
		require.Empty(t, result, "it waits")
		close(answer)
		require.ErrorIs(t, await(t, result).err, trouble)
		requireNoChildren(t, w.holder, "/lock")
	})
}
