// SPDX-License-Identifier: Apache-2.0

package conduit_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework/internal/conduit"
)

// TestCloseIsBounded closes a conduit in every state a server can bring it into.
// That nothing is left running is what the end of a synctest bubble checks.
func TestCloseIsBounded(t *testing.T) {
	for name, prepare := range map[string]func(t *testing.T, n *network) *conduit.Conduit{
		"the server is absent": func(t *testing.T, n *network) *conduit.Conduit {
			t.Helper()
			n.hang.Store(true)
			c, _ := open(t, n)
			return c
		},
		"the server hangs in the handshake": func(t *testing.T, n *network) *conduit.Conduit {
			t.Helper()
			c, _ := open(t, n)
			<-(<-n.peers).connect
			return c
		},
		"the server does not even read": func(t *testing.T, n *network) *conduit.Conduit {
			t.Helper()
			n.deaf.Store(true)
			c, _ := open(t, n)
			<-n.peers
			return c
		},
		"the server hangs after the handshake": func(t *testing.T, n *network) *conduit.Conduit {
			t.Helper()
			c, _, p := connected(t, n)
			p.silent.Store(true)
			return c
		},
		"between two connections": func(t *testing.T, n *network) *conduit.Conduit {
			t.Helper()
			c, told, p := connected(t, n)
			n.hang.Store(true)
			require.NoError(t, p.Close())
			require.Equal(t, "disconnected", <-told.told)
			return c
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := prepare(t, newNetwork(t))
				synctest.Wait()
				began := time.Now()
				require.EqualError(t, c.Close(), unconfirmed)
				require.LessOrEqual(t, time.Since(began), 6*time.Second)
			})
		})
	}
}

// closing closes the conduit, and returns the request that the server then gets.
func closing(t *testing.T, c *conduit.Conduit, p *peer) (done <-chan error, end frame) {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- c.Close() }()
	end = <-p.frames
	require.EqualValues(t, opClose, end.op)
	return ended, end
}

func TestCloseTellsTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, told, p := connected(t, newNetwork(t))
		done, end := closing(t, c, p)
		p.reply(end.xid, 9, 0, nil)
		require.NoError(t, <-done)
		require.Equal(t, "disconnected", <-told.told)
	})
}

// TestCloseWaitsForASlowServer: without its answer the session would stay until it times out.
func TestCloseWaitsForASlowServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, p := connected(t, newNetwork(t))
		done, end := closing(t, c, p)
		time.Sleep(4 * time.Second)
		p.reply(end.xid, 9, 0, nil)
		require.NoError(t, <-done)
	})
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

// TestCloseNoPingFollowsTheEndOfTheSession when the server takes longer to answer than a ping is away.
func TestCloseNoPingFollowsTheEndOfTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const timeout = 900 * time.Millisecond // pings go after a third of it
		n := newNetwork(t)
		c, told := open(t, n)
		p := <-n.peers
		p.silent.Store(true)
		p.accept(0x51, timeout)
		require.Equal(t, "connected 51 fresh=true", <-told.told)
		done, end := closing(t, c, p)
		time.Sleep(timeout / 2)
		followed := len(p.frames)
		p.reply(end.xid, 9, 0, nil)
		require.NoError(t, <-done)
		require.Zero(t, followed)
	})
}

// TestCloseCallsThatTheWindowHoldsAtCloseAreNotSent once a reply makes room for them.
func TestCloseCallsThatTheWindowHoldsAtCloseAreNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, p := connected(t, newNetwork(t))
		first := start(t.Context(), c, &conduit.Call{Op: 5, Body: make([]byte, 900<<10)})
		written := <-p.frames
		held := start(t.Context(), c, &conduit.Call{Op: 5, Body: make([]byte, 900<<10)})
		synctest.Wait()
		require.Empty(t, p.frames)
		done, end := closing(t, c, p)
		p.reply(written.xid, 8, 0, nil)
		require.NoError(t, (<-first).err)
		synctest.Wait()
		followed := len(p.frames)
		p.reply(end.xid, 9, 0, nil)
		require.NoError(t, <-done)
		require.Zero(t, followed)
		require.ErrorIs(t, (<-held).err, conduit.ErrNotSent)
	})
}

func TestCloseFailsWhatIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, p := connected(t, newNetwork(t))
		done := start(t.Context(), c, &conduit.Call{Op: 3})
		<-p.frames
		require.EqualError(t, c.Close(), unconfirmed)
		require.ErrorIs(t, (<-done).err, conduit.ErrUnanswered)
	})
}
