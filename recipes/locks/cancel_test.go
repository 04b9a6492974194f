// SPDX-License-Identifier: Apache-2.0

package locks_test

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/hardship"
	"github.com/gocurator/curator/internal/testkit/seeds"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zktest"
)

// TestCancelledAtEveryRequest ends the context of calls at each of their requests on real
// ZooKeeper. On the embedded server TestEveryFaultAtEveryRequest does that with all calls.
//
// See zk-ruby#49, zk-ruby#51, aiozk#34, kazoo#429, CURATOR-315, CURATOR-335, CURATOR-462 and
// etcd#21128.
func TestCancelledAtEveryRequest(t *testing.T) {
	names := []string{
		"InterProcessMutex: " + free, "InterProcessMutex: " + behind, "InterProcessMutex: " + tryHeld, "InterProcessMutex: " + releasing,
		"ReadLock: " + behind, "WriteLock: " + behind, "ReadLock: Acquire by the writer",
		"InterProcessSemaphoreV2: " + behind, "InterProcessSemaphoreV2: AcquireN of two free ones",
		"InterProcessMultiLock: Acquire of free members",
	}
	calls := slices.DeleteFunc(everyFaultCalls(), func(call hardship.Call) bool { return !slices.Contains(names, call.Name) })
	require.Len(t, calls, len(names))
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		if server.Name() != "zookeeper" {
			t.Skip("it is for real servers")
		}
		t.Logf("%d requests at which the context ended", hardship.OnZooKeeper(t, server, calls))
	})
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
//
// See CURATOR-14 and CURATOR-654.
func TestTryAcquireTenThousandTimesLeavesNothing(t *testing.T) {
	tries := 2_000
	if seeds.Long() {
		tries = 10_000
	}
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		holder := zktest.Client(t, server.ConnectString())
		client := zktest.Client(t, server.ConnectString())
		for _, c := range []*framework.Framework{holder, client} {
			require.NoError(t, c.Sync(zktest.Context(t), "/")) // all its goroutines run now
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
