// SPDX-License-Identifier: Apache-2.0

package locks_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/testing/zktest"
)

// TestMutexUnderQuorumErrorPolicy: turns of it leave nothing behind, and a lease
// ends synchronously as under the other policies.
//
// See redisson#7272 and redisson#1626.
func TestMutexUnderQuorumErrorPolicy(t *testing.T) {
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		client := zktest.Client(t, server.ConnectString(),
			framework.WithErrorPolicy(framework.QuorumErrorPolicy), framework.WithServerTiming(500*time.Millisecond, 2))
		before := server.Counts(t)
		mutex := newMutex(t, client, "/locks/quorum")
		for range 20 {
			lease, err := mutex.Acquire(t.Context())
			require.NoError(t, err)
			require.NoError(t, lease.Err())
			again, err := mutex.Acquire(lease.Context(t.Context()))
			require.NoError(t, err)
			require.NoError(t, again.Release(t.Context()))
			require.NoError(t, lease.Err())
			require.NoError(t, lease.Release(t.Context()))
		}
		server.AwaitCounts(t, before, limit)

		lease, err := mutex.Acquire(t.Context())
		require.NoError(t, err)
		require.NoError(t, client.Delete(t.Context(), lease.Path()))
		<-lease.Done()
		require.Error(t, lease.Release(t.Context()))
		server.AwaitCounts(t, before, limit)
	})
}
