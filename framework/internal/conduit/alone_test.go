// SPDX-License-Identifier: Apache-2.0

package conduit_test

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework/internal/conduit"
	"github.com/gocurator/curator/internal/testkit/must"
)

// A caller may write its call itself. A server that does not read must not keep it.
func TestAloneCallerIsNotKeptByAServerThatDoesNotRead(t *testing.T) {
	giveUp := func(t *testing.T, c *conduit.Conduit, length int) {
		t.Helper()
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		call := &conduit.Call{Op: 3, Body: make([]byte, length)}
		require.ErrorIs(t, c.Do(ctx, call), conduit.ErrAbandoned)
		require.Less(t, time.Since(began), sessionTimeout/2, "a write may take two thirds of the session timeout")
	}
	t.Run("a long call", func(t *testing.T) {
		listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
		defer func() { require.NoError(t, listener.Close()) }()
		c, told := open(t, newNetwork(t), func(cfg *conduit.Config) {
			cfg.Servers, cfg.Dial = []string{listener.Addr().String()}, new(net.Dialer).DialContext
		})
		server := must.Get(listener.Accept())(t)
		defer func() { require.NoError(t, server.Close()) }()
		must.Get(server.Write(handshake(int32(sessionTimeout.Milliseconds()), 0x51)))(t)
		require.Equal(t, "connected 51 fresh=true", <-told.told)
		giveUp(t, c, 16<<20) // more than a socket has room for
	})
	t.Run("a connection without a buffer", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			n := newNetwork(t)
			n.deaf.Store(true)
			c, told := open(t, n)
			p := <-n.peers
			must.Get(p.Read(make([]byte, 1<<10)))(t)
			p.send(handshake(int32(sessionTimeout.Milliseconds()), 0x51))
			require.Equal(t, "connected 51 fresh=true", <-told.told)
			giveUp(t, c, 10)
		})
	})
}
