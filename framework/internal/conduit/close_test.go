// SPDX-License-Identifier: Apache-2.0

package conduit_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework/internal/conduit"
)

// closing closes the conduit, and returns the request that the server then gets.
func closing(t *testing.T, c *conduit.Conduit, p *peer) (done <-chan error, end frame) {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- c.Close() }()
	end = <-p.frames
	require.EqualValues(t, opClose, end.op)
	return ended, end
}

// TestCloseNothingFollowsTheEndOfTheSession: the server would meet it with a reset, which may cost
// the client the answer.
func TestCloseNothingFollowsTheEndOfTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, p := connected(t, newNetwork(t))
		done, end := closing(t, c, p)
		late := start(t.Context(), c, &conduit.Call{Op: 3})
		synctest.Wait()
		followed, refused := len(p.frames), len(late)
		p.reply(end.xid, 9, 0, nil)
		require.NoError(t, <-done)
		require.Zero(t, followed)
		require.Equal(t, 1, refused, "at once, not when the connection ends")
		err := (<-late).err
		require.ErrorIs(t, err, conduit.ErrNotSent)
		require.ErrorIs(t, err, conduit.ErrClosed)
	})
}
