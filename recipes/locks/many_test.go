// SPDX-License-Identifier: Apache-2.0

package locks_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
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

// acquireMany acquires n locks with folders of their own below /many, from a few goroutines.
func acquireMany(t *testing.T, client *framework.Framework, n, goroutines int) []*locks.Lease {
	t.Helper()
	ctx, leases, errs := zktest.Context(t), make([]*locks.Lease, n), make([]error, n)
	var next atomic.Int64
	var all sync.WaitGroup
	for range goroutines {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				m, err := locks.NewInterProcessMutex(client, fmt.Sprintf("/many/%d", i))
				if err == nil {
					leases[i], err = m.Acquire(ctx)
				}
				errs[i] = err
			}
		})
	}
	all.Wait()
	require.NoError(t, errors.Join(errs...))
	return leases
}

// TestRequestsOfManyLocks: a node and a list that find no folder, the folder, a node and a list, and the watch of the
// holder are six requests for each lock. Its deletion is one.
func TestRequestsOfManyLocks(t *testing.T) {
	const n, atFirst = 200, 10
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		client := zktest.Client(t, server)
		sent := countRequests(t, server)
		leases := acquireMany(t, client, n, 1)
		time.Sleep(time.Second) // until each holder watches its node
		require.Equal(t, n, server.Stats().Watches)
		taken := sent.since(zkserver.OpCreateContainer, zkserver.OpCreate2, zkserver.OpGetChildren2, zkserver.OpGetData)
		require.LessOrEqual(t, taken, 6*n+atFirst)

		require.NoError(t, locks.ReleaseAll(zktest.Context(t), leases...))
		require.Equal(t, n, sent.since(zkserver.OpDelete, zkserver.OpRemoveWatches, zkserver.OpGetData, zkserver.OpGetChildren2))
		for _, lease := range leases {
			require.ErrorIs(t, lease.Err(), locks.ErrReleased)
		}
	})
}

// TestManyLocksAreReleasedByCloseAtOnce: the end of the session deletes all nodes.
func TestManyLocksAreReleasedByCloseAtOnce(t *testing.T) {
	const n = 100
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		client := zktest.Client(t, server)
		leases := acquireMany(t, client, n, 1)
		time.Sleep(time.Second)
		sent := countRequests(t, server)
		require.NoError(t, client.Close())
		require.Zero(t, sent.since(zkserver.OpDelete))
		lost := new(locks.LostError)
		for _, lease := range leases {
			require.ErrorAs(t, lease.Err(), &lost)
		}
		other := zktest.Client(t, server)
		for i := range n {
			lease := must.Get(newMutex(t, other, fmt.Sprintf("/many/%d", i)).TryAcquire(t.Context()))(t)
			release(t, lease)
		}
	})
}

// TestManyReleasesAreUnderWayAtOnce: no release waits for the reply to another.
func TestManyReleasesAreUnderWayAtOnce(t *testing.T) {
	const n = 100
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		leases := acquireMany(t, zktest.Client(t, server), n, 1)
		answer := make(chan struct{})
		sent := countRequests(t, server)
		defer server.Intercept(func(r zkserver.Request) zkserver.Fault {
			if r.Op == zkserver.OpDelete {
				return zkserver.HoldUntil(answer)
			}
			return zkserver.Pass
		})()
		released := make(chan error, 1)
		// With a context that ends by the first release: the others are waited for all the same.
		go func() { released <- locks.ReleaseAll(leases[0].Context(zktest.Context(t)), append(leases, nil)...) }()
		synctest.Wait()
		for _, lease := range leases {
			require.ErrorIs(t, lease.Err(), locks.ErrReleased)
		}
		require.Empty(t, released)
		close(answer)
		require.NoError(t, <-released)
		require.Equal(t, n, sent.since(zkserver.OpDelete))
		require.NoError(t, locks.ReleaseAll(zktest.Context(t), leases...), "again")
		require.Zero(t, sent.since(zkserver.OpDelete))
	})
}

// TestManyReleaseAllEndsWithItsContext: then the deletions go on in the background.
func TestManyReleaseAllEndsWithItsContext(t *testing.T) {
	require.Error(t, locks.ReleaseAll(nil)) //nolint:staticcheck // what a nil context does
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		leases := acquireMany(t, zktest.Client(t, server), 3, 1)
		answer := make(chan struct{})
		defer server.Intercept(func(r zkserver.Request) zkserver.Fault {
			if r.Op == zkserver.OpDelete {
				return zkserver.HoldUntil(answer)
			}
			return zkserver.Pass
		})()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		err := locks.ReleaseAll(ctx, leases...)
		require.ErrorIs(t, err, framework.ErrCleanupPending)
		for _, lease := range leases {
			require.ErrorContains(t, err, lease.Path())
		}
		close(answer)
		synctest.Wait()
		require.Zero(t, server.Stats().Ephemerals)
	})
}

// maxHeapOfAHeldLock is how many bytes of the heap a held lock may take, with its mutex and
// its lease. It is about 2,300. Some of these are for what the client remembers of its ephemeral znodes.
const maxHeapOfAHeldLock = 2800

// TestManyMemoryOfManyLocks runs in a process of its own, as what earlier tests have left in this
// one is freed at any time. The server stays in this one.
func TestManyMemoryOfManyLocks(t *testing.T) {
	const serverEnv, n = "CURATOR_TEST_SERVER", 1500
	server := os.Getenv(serverEnv)
	if server == "" {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestManyMemoryOfManyLocks$", "-test.v")
		// What it measures depends on how eager the collector is.
		cmd.Env = append(os.Environ(), serverEnv+"="+zktest.NewServer(t).Addr(), "GOGC=100")
		output, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", output)
		require.Contains(t, string(output), "--- PASS: TestManyMemoryOfManyLocks")
		t.Log(string(output))
		return
	}
	client := zktest.Client(t, server)
	require.NoError(t, locks.ReleaseAll(t.Context(), acquireMany(t, client, 100, 8)...)) // what is made once
	before := memory()
	leases := acquireMany(t, client, n, 8)
	for ctx := zktest.Context(t); zktest.At("server", server).Counts(t).Watches < n; { // until each holder watches its node
		require.NoError(t, ctx.Err())
		time.Sleep(20 * time.Millisecond)
	}
	each := float64(memory()-before) / n
	t.Logf("%.0f bytes each", each)
	require.Less(t, each, float64(maxHeapOfAHeldLock))
	require.NoError(t, locks.ReleaseAll(zktest.Context(t), leases...))
}
