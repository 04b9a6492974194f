// SPDX-License-Identifier: Apache-2.0

package locks_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// TestLineOfAFolderThatIsMadeAgain: between two turns of a client the folder is deleted, created
// and filled up to the number of the client's last node. Its next node has the number after that,
// and must not be taken for the next one in the old folder.
func TestLineOfAFolderThatIsMadeAgain(t *testing.T) {
	server := zktest.NewServer(t)
	client, other := zktest.Client(t, server), zktest.Client(t, server)
	mutex := newMutex(t, client, "/lock")
	const turns = 4
	for range turns {
		release(t, acquire(t, mutex))
	}
	sent := countRequests(t, server)
	release(t, acquire(t, mutex))
	require.Zero(t, sent.since(zkserver.OpGetChildren2), "a client alone needs no list")

	require.NoError(t, other.Delete(t.Context(), "/lock"))
	_, err := other.Create(t.Context(), "/lock", nil, framework.WithMode(framework.Container))
	require.NoError(t, err)
	theirs := newMutex(t, other, "/lock")
	first := acquire(t, theirs)
	ctx, giveUp := context.WithCancel(t.Context())
	var waiting []<-chan outcome
	for n := 2; n <= turns+1; n++ {
		waiting = append(waiting, acquireLater(ctx, theirs))
		awaitQueue(t, theirs, n)
	}
	sent.since(zkserver.OpGetChildren2)
	_, err = mutex.TryAcquire(t.Context())
	require.ErrorIs(t, err, locks.ErrNotAcquired)
	require.Equal(t, 1, sent.since(zkserver.OpGetChildren2), "it lists after its creation")
	giveUp()
	for _, result := range waiting {
		require.ErrorIs(t, await(t, result).err, context.Canceled)
	}
	release(t, first)
}
