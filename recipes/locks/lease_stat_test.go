// SPDX-License-Identifier: Apache-2.0

package locks_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zktest"
)

// TestLeaseSaysWhatItsHoldIs: since when, in which session, and whether alone.
func TestLeaseSaysWhatItsHoldIs(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t).Addr())
	rw := newReadWrite(t, client, "/locks/rw")
	semaphoreMutex := must.Get(locks.NewInterProcessSemaphoreMutex(client, "/locks/semaphore-mutex"))(t)
	shared := must.Get(locks.NewSharedLeases(client, "/locks/max", 1))(t)
	first := must.Get(locks.NewInterProcessSemaphore(client, "/locks/first", locks.FixedLeases(2)))(t)
	for _, test := range []struct {
		lock      locks.InterProcessLock
		exclusive bool
	}{
		{newMutex(t, client, "/locks/mutex"), true},
		{newMutex(t, client, "/locks/handoff", locks.WithLocalHandoff(2)), true},
		{rw.WriteLock(), true},
		{rw.ReadLock(), false},
		{semaphoreMutex, true},
		{first, false},
		{newSemaphore(t, client, "/locks/two", locks.FixedLeases(2)), false},
		{newSemaphore(t, client, "/locks/one-now", shared), false},
		{openInternals(t, client, "/locks/own"), true},
	} {
		before := time.Now()
		lease := acquire(t, test.lock)
		require.WithinRange(t, lease.Since(), before, time.Now())
		require.Equal(t, client.Session(), lease.Session())
		require.Equal(t, test.exclusive, lease.Exclusive(), "%T", test.lock)
		release(t, lease)
	}
	writer := acquire(t, rw.WriteLock())
	again := must.Get(rw.WriteLock().Acquire(writer.Context(zktest.Context(t))))(t)
	require.Equal(t, writer.Since(), again.Since(), "one hold")
	reader := must.Get(rw.ReadLock().Acquire(writer.Context(zktest.Context(t))))(t)
	require.False(t, reader.Exclusive(), "a downgraded writer is a reader among others")
	for _, lease := range []*locks.Lease{again, writer, reader} {
		release(t, lease)
	}
}
