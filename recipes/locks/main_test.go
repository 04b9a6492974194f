// SPDX-License-Identifier: Apache-2.0

package locks_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/internal/testkit/seeds"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zktest"
)

func TestMain(m *testing.M) {
	seeds.Rapid(100)
	zktest.Main(m)
}

// limit bounds what a test waits for, generously: a test that needs it has failed.
const limit = 2 * time.Minute

func newMutex(tb testing.TB, client *framework.Framework, path string, opts ...locks.Option) *locks.InterProcessMutex {
	tb.Helper()
	m := must.Get(locks.NewInterProcessMutex(client, path, opts...))(tb)
	return m
}

func newReadWrite(tb testing.TB, client *framework.Framework, path string, opts ...locks.Option) *locks.InterProcessReadWriteLock {
	tb.Helper()
	rw := must.Get(locks.NewInterProcessReadWriteLock(client, path, opts...))(tb)
	return rw
}

// acquire acquires within the limit.
func acquire(tb testing.TB, lock locks.InterProcessLock) *locks.Lease {
	tb.Helper()
	lease := must.Get(lock.Acquire(zktest.Context(tb)))(tb)
	return lease
}

func release(tb testing.TB, lease *locks.Lease) {
	tb.Helper()
	require.NoError(tb, lease.Release(zktest.Context(tb)))
}

func releaseAll(tb testing.TB, leases []*locks.Lease) {
	tb.Helper()
	for _, lease := range leases {
		release(tb, lease)
	}
}

// outcome is the result of an acquisition in another goroutine.
type outcome struct {
	lease *locks.Lease
	err   error
}

func acquireLater(ctx context.Context, lock locks.InterProcessLock) <-chan outcome {
	result := make(chan outcome, 1)
	go func() {
		lease, err := lock.Acquire(ctx)
		result <- outcome{lease, err}
	}()
	return result
}

func await(tb testing.TB, result <-chan outcome) outcome {
	tb.Helper()
	select {
	case o := <-result:
		return o
	case <-time.After(limit):
		tb.Fatal("the acquisition has not returned")
		return outcome{}
	}
}

func awaitDone(tb testing.TB, done <-chan struct{}, what string) {
	tb.Helper()
	select {
	case <-done:
	case <-time.After(limit):
		tb.Fatalf("%s has not come", what)
	}
}

// queue is what can be asked who contends for it.
type queue interface {
	Participants(ctx context.Context) ([]locks.Participant, error)
}

// awaitQueue waits until the lock has n contenders, and returns them.
func awaitQueue(tb testing.TB, m queue, n int) []locks.Participant {
	tb.Helper()
	ctx := zktest.Context(tb)
	var last []locks.Participant
	for {
		participants, err := m.Participants(ctx)
		require.NoError(tb, err, "last there were %v", last)
		last = participants
		if len(participants) == n {
			return participants
		}
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			tb.Fatalf("the queue has %d contenders, want %d", len(participants), n)
		}
	}
}

// requireNoChildren asks that a lock's folder is empty. The server may have removed
// it already, as it does with containers that became empty.
func requireNoChildren(tb testing.TB, client *framework.Framework, path string) {
	tb.Helper()
	children, err := client.Children(zktest.Context(tb), path)
	if !errors.Is(err, framework.ErrNoNode) {
		require.NoError(tb, err)
	}
	require.Empty(tb, children, path)
}

// whileHeld adds to the counts what one hold of a lock has at the server: its node
// and the watch on it.
func whileHeld(c zktest.Counts) zktest.Counts {
	c.Ephemerals++
	c.Watches++
	return c
}

// cancelled returns a context that ends with the test.
func cancelled(tb testing.TB) context.Context {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	tb.Cleanup(cancel)
	return ctx
}
