// SPDX-License-Identifier: Apache-2.0

package locks_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zktest"
)

// hide takes away the right to read a node, so that the server tells nobody of its end.
func hide(t *testing.T, admin *framework.Framework, path string) {
	t.Helper()
	require.NoError(t, admin.SetACL(zktest.Context(t), path, []framework.ACL{{Perms: permDelete, Scheme: "world", ID: "anyone"}}))
}

// TestUnreadablePredecessor: a waiter that may not read the one before it fails at once.
func TestUnreadablePredecessor(t *testing.T) {
	for ahead := range 2 {
		onFakeTime(t, func(t *testing.T, w longWait) {
			mutex := newMutex(t, w.holder, "/lock")
			held := acquire(t, mutex)
			var waiting []<-chan outcome
			for range ahead {
				waiting = append(waiting, acquireLater(context.Background(), mutex))
			}
			queue := awaitQueue(t, mutex, ahead+1)
			_, err := newMutex(t, w.waiter, "/lock").Acquire(withDeadline(t, time.Millisecond)) // knows the server's version from here on
			require.ErrorIs(t, err, locks.ErrNotAcquired)
			time.Sleep(time.Second) // those ahead have read their own nodes
			hide(t, w.holder, queue[ahead].Path)
			began := time.Now()
			_, err = newMutex(t, w.waiter, "/lock").Acquire(context.Background())
			require.ErrorIs(t, err, framework.ErrNoAuth)
			require.Zero(t, time.Since(began))
			release(t, held)
			for _, o := range waiting {
				release(t, await(t, o).lease)
			}
		})
	}
}

// TestUnreadableRightToReadIsTakenAwayDuringTheWait, which nobody is told of, nor then of the end
// of the one before. With the next connection the waiter looks for itself.
func TestUnreadableRightToReadIsTakenAwayDuringTheWait(t *testing.T) {
	for name, c := range map[string]struct {
		open func(testing.TB, *framework.Framework, string) locks.InterProcessLock
		hide func(held *locks.Lease) string
		err  error
	}{
		"of the node before":      {openMutex, func(held *locks.Lease) string { return held.Path() }, nil},
		"of the folder of leases": {openSemaphoreOf1, func(*locks.Lease) string { return "/lock/leases" }, framework.ErrNoAuth},
	} {
		t.Run(name, func(t *testing.T) {
			onFakeTime(t, func(t *testing.T, w longWait) {
				held := acquire(t, c.open(t, w.holder, "/lock"))
				waiting := acquireLater(context.Background(), c.open(t, w.waiter, "/lock"))
				time.Sleep(time.Second)
				hide(t, w.holder, c.hide(held))
				release(t, held)
				time.Sleep(time.Minute)
				require.Empty(t, waiting, "the server tells of it")
				require.Equal(t, 1, w.server.Cut(w.waiter.Session().ID(), 1))
				next := await(t, waiting)
				require.ErrorIs(t, next.err, c.err)
				if next.err == nil {
					release(t, next.lease)
				}
			})
		})
	}
}
