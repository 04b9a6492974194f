// SPDX-License-Identifier: Apache-2.0

package locks_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

func newSharedSemaphore(t *testing.T, client *framework.Framework, n int) (*locks.InterProcessSemaphore, *locks.SharedLeases) {
	t.Helper()
	shared := must.Get(locks.NewSharedLeases(client, "/max", n))(t)
	s := must.Get(locks.NewInterProcessSemaphore(client, "/permits", shared))(t)
	return s, shared
}

// TestSemaphoreMaximumFallsDuringALook: the number is lowered while somebody who waits lists the
// leases. Whoever saw both in the order in which they were made would not let him in.
func TestSemaphoreMaximumFallsDuringALook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		held, shared := newSharedSemaphore(t, zktest.Client(t, server), 3)
		leases := []*locks.Lease{acquire(t, held), acquire(t, held), acquire(t, held)}
		ctx, giveUp := context.WithCancel(context.Background())
		defer giveUp()
		before := acquireLater(ctx, held)
		synctest.Wait()
		client := zktest.Client(t, server)
		s, _ := newSharedSemaphore(t, client, 3)
		waiting := acquireLater(zktest.Context(t), s)
		time.Sleep(time.Second)

		look := make(chan struct{})
		var looking atomic.Bool
		server.Intercept(func(r zkserver.Request) zkserver.Fault {
			if r.SessionID == client.Session().ID() && r.Op == zkserver.OpGetChildren2 {
				looking.Store(true)
				return zkserver.HoldUntil(look)
			}
			return zkserver.Pass
		})
		giveUp() // not the first in the queue: who comes after it lists
		require.ErrorIs(t, await(t, before).err, locks.ErrNotAcquired)
		synctest.Wait()
		require.True(t, looking.Load())
		require.NoError(t, shared.Set(zktest.Context(t), 1))
		release(t, leases[0])
		close(look)
		synctest.Wait()
		requireWaiting(t, waiting)
		releaseAll(t, leases[1:])
		o := await(t, waiting)
		require.NoError(t, o.err)
		release(t, o.lease)
	})
}
