// SPDX-License-Identifier: Apache-2.0

package locks_test

import (
	"context"
	"fmt"
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

// slowDriver waits before the request that creates a node, or after its reply.
type slowDriver struct {
	locks.StandardLockInternalsDriver

	before, after <-chan struct{}
	created       *[]string // the paths of the nodes
}

func (d slowDriver) CreatesTheLock(
	ctx context.Context, client *framework.Framework, session *framework.Session, path string, data []byte,
) (locks.LockNode, error) {
	<-d.before
	node, err := d.StandardLockInternalsDriver.CreatesTheLock(ctx, client, session, path, data)
	*d.created = append(*d.created, node.Path)
	<-d.after
	return node, err
}

// slowQueue is a slowDriver whose lists can be kept.
type slowQueue struct{ slowDriver }

func (slowQueue) Shrinks(string) bool { return true }

// slowAcquisition is an acquisition whose create waits for start, and whose list is learned at finish.
type slowAcquisition struct {
	start, finish chan struct{}
	created       []string
	result        <-chan outcome
}

func acquireSlowly(t *testing.T, client *framework.Framework, shrinking bool) *slowAcquisition {
	t.Helper()
	a := &slowAcquisition{start: make(chan struct{}), finish: make(chan struct{})}
	slow := slowDriver{
		StandardLockInternalsDriver: locks.StandardLockInternalsDriver{StandardLockInternalsSorter: mutexSorter},
		before:                      a.start, after: a.finish, created: &a.created,
	}
	var driver locks.LockInternalsDriver = slow
	if shrinking {
		driver = slowQueue{slow}
	}
	lock, err := locks.NewLockInternals(client, driver, "/lock", "lock-", 1)
	require.NoError(t, err)
	a.result = acquireLater(context.Background(), lock)
	return a
}

// TestLineOlderListCostsNoPlace: a later acquisition of the same client creates its node
// earlier, so its list lacks a node that is there by now. The waiter keeps its node, whether
// it meets that list at once or after it has used its own.
func TestLineOlderListCostsNoPlace(t *testing.T) {
	for _, shrinking := range []bool{false, true} {
		for _, atOnce := range []bool{false, true} {
			t.Run(fmt.Sprintf("shrinking %t, at once %t", shrinking, atOnce), func(t *testing.T) {
				onFakeTime(t, func(t *testing.T, w longWait) {
					lease := acquire(t, newMutex(t, w.holder, "/lock"))
					waiter := acquireSlowly(t, w.waiter, shrinking)
					synctest.Wait() // its list has its number
					earlier := acquireSlowly(t, w.waiter, shrinking)
					close(earlier.start)
					synctest.Wait() // the list with the greater number is answered
					if atOnce {
						close(earlier.finish)
						synctest.Wait()
					}
					close(waiter.start)
					close(waiter.finish)
					synctest.Wait()
					if !atOnce {
						close(earlier.finish)
					}
					time.Sleep(time.Second) // the waiter looks again, to watch its own node

					release(t, lease)
					for _, a := range []*slowAcquisition{earlier, waiter} {
						o := await(t, a.result)
						require.NoError(t, o.err)
						require.Equal(t, []string{o.lease.Path()}, a.created, "one node")
						release(t, o.lease)
					}
				})
			})
		}
	}
}

// TestLineListBoundToASession: acquisitions that their callers have bound to a session share a list
// with one that is not bound. When the session ends they fail, but it does not.
func TestLineListBoundToASession(t *testing.T) {
	for range 5 { // any of them may be the one that asks for the list
		onFakeTime(t, func(t *testing.T, w longWait) {
			lease := acquire(t, newMutex(t, w.holder, "/lock"))
			session, mutex := w.waiter.Session(), newMutex(t, w.waiter, "/lock")
			bound := make(chan error, 3)
			for range cap(bound) {
				go func() {
					bound <- w.waiter.Retry(context.Background(), func(ctx context.Context) error {
						_, err := mutex.Acquire(ctx)
						return err
					}, framework.InSession(session))
				}()
			}
			free := acquireLater(context.Background(), mutex)
			time.Sleep(time.Second)

			answer := make(chan struct{})
			pass := w.server.Intercept(zkserver.Nth(1, zkserver.OpGetChildren2, zkserver.HoldUntil(answer)))
			require.Equal(t, 1, w.server.Cut(session.ID(), 1))
			time.Sleep(5 * time.Second) // they wait for the list
			pass()
			require.True(t, w.server.KillSession(session.ID()))
			close(answer)
			for range cap(bound) {
				require.ErrorIs(t, <-bound, framework.ErrSessionEnded)
			}
			release(t, lease)
			o := await(t, free)
			require.NoError(t, o.err)
			release(t, o.lease)
		})
	}
}

// faultyQueue panics once when it compares names, after it was armed.
type faultyQueue struct {
	locks.StandardLockInternalsDriver
	armed *atomic.Bool
}

func (faultyQueue) Shrinks(string) bool { return true }

func (d faultyQueue) Compare(a, b string) int {
	if d.armed.CompareAndSwap(true, false) {
		panic("the user's own fault")
	}
	return d.StandardLockInternalsDriver.Compare(a, b)
}

// TestLinePanicWhileAListIsSortedCostsNoPlace: after an outage two waiters of one client share a
// list, and the driver panics when the first of them sorts it.
func TestLinePanicWhileAListIsSortedCostsNoPlace(t *testing.T) {
	onFakeTime(t, func(t *testing.T, w longWait) {
		held := acquire(t, newMutex(t, w.holder, "/lock"))
		driver := faultyQueue{locks.StandardLockInternalsDriver{StandardLockInternalsSorter: mutexSorter}, new(atomic.Bool)}
		client := zktest.Client(t, w.server, framework.WithRetryPolicy(retry.None()), framework.WithConnectionTimeout(time.Second))
		lock, err := locks.NewLockInternals(client, driver, "/lock", "lock-", 1)
		require.NoError(t, err)
		first, second := acquireRecovering(lock), acquireRecovering(lock)
		time.Sleep(time.Second)
		places := awaitQueue(t, lock, 3)

		driver.armed.Store(true)
		time.AfterFunc(3*time.Second, w.server.Refuse())
		require.Equal(t, 1, w.server.Cut(client.Session().ID(), 1))
		time.Sleep(9 * time.Second)
		require.False(t, driver.armed.Load(), "it has panicked")
		var o outcome
		other := second
		select {
		case o = <-first:
		case o = <-second:
			other = first
		}
		require.Error(t, o.err, "one has panicked")
		release(t, held)
		lease := requireAtOnce(t, other)
		require.Contains(t, []string{places[1].Path, places[2].Path}, lease.Path())
		release(t, lease)
	})
}
