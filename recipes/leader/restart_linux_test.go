// SPDX-License-Identifier: Apache-2.0

package leader_test

import (
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/leader"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// TestRestartedLeaderStaysLeader: a program that is killed and started again in its session leads on, in the same term, and only a
// Close gives the leadership to the next candidate.
func TestRestartedLeaderStaysLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		file := framework.WithSessionFile(filepath.Join(t.TempDir(), "session"))
		client := zktest.Client(t, server, file)
		before := awaitLeadership(t, started(t, client, leader.WithID("a")))
		other := started(t, zktest.Client(t, server), leader.WithID("b"))
		awaitCandidates(t, client, 2)
		zktest.KillProcess(t, server, client)

		again := zktest.Client(t, server, file)
		latch := started(t, again, leader.WithID("a"))
		lease := awaitLeadership(t, latch)
		require.Equal(t, before.Token(), lease.Token())
		time.Sleep(time.Minute) // what was not adopted is deleted
		require.NoError(t, lease.Err())
		require.True(t, latch.HasLeadership())
		require.False(t, other.HasLeadership())
		awaitCandidates(t, again, 2)
		require.NoError(t, latch.Close())
		require.Greater(t, awaitLeadership(t, other).Token(), before.Token())
	})
}

// TestRestartedLeaderThatHasProclaimed has no label any more: its place is not adopted, and then deleted.
func TestRestartedLeaderThatHasProclaimed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		file := framework.WithSessionFile(filepath.Join(t.TempDir(), "session"))
		client := zktest.Client(t, server, file)
		first := started(t, client, leader.WithID("a"))
		awaitLeadership(t, first)
		require.NoError(t, first.Proclaim(t.Context(), []byte("10.0.0.1:80")))
		other := started(t, zktest.Client(t, server), leader.WithID("b"))
		awaitCandidates(t, client, 2)
		zktest.KillProcess(t, server, client)
		again := started(t, zktest.Client(t, server, file), leader.WithID("a"))
		time.Sleep(time.Minute)
		require.True(t, other.HasLeadership())
		require.False(t, again.HasLeadership())
	})
}
