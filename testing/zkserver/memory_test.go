// SPDX-License-Identifier: Apache-2.0

package zkserver_test

import (
	"context"
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/testing/zkserver"
)

// dialed connects a raw client in memory. Its session outlives a slow machine unless the test asks for less.
func dialed(t *testing.T, srv *zkserver.Server, want connection) *rawClient {
	t.Helper()
	nc, err := srv.Dial(t.Context(), "tcp", "anywhere:2181")
	require.NoError(t, err)
	t.Cleanup(func() { nc.Close() })
	if want.timeoutMs == 0 {
		want.timeoutMs = 30_000
	}
	c, err := handshake(nc, want)
	require.NoError(t, err)
	return c
}

func TestDial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := start(t, zkserver.WithoutListener())
		c := dialed(t, srv, connection{timeoutMs: 5000})
		require.Equal(t, "127.0.0.1:1", c.nc.LocalAddr().String())
		require.Equal(t, "memory", c.nc.LocalAddr().Network())
		require.Equal(t, "127.0.0.1:1", srv.Sessions()[0].Addr)
		who := c.must(t, 107, body{})
		require.Equal(t, `["ip:127.0.0.1"]`, identities(nil, &who.fields))
		c.must(t, 1, createBody("/e", "", 1))
		c.must(t, -11, body{})
		c.hungUp(t)
		require.Equal(t, zkserver.Stats{Znodes: 5}, srv.Stats())
	})
}

func TestDialRefused(t *testing.T) {
	srv, err := zkserver.Start(zkserver.WithoutListener())
	require.NoError(t, err)
	ended, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("enough")
	cancel(cause)
	_, err = srv.Dial(ended, "", "")
	require.ErrorIs(t, err, cause)

	require.NoError(t, srv.Stop())
	_, err = srv.Dial(t.Context(), "", "")
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	require.ErrorContains(t, err, "zkserver: dial: ")
	require.NoError(t, srv.Restart())
	c := dialed(t, srv, connection{})
	require.NoError(t, srv.Close())
	c.hungUp(t)
	_, err = srv.Dial(t.Context(), "", "")
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
}

// ends returns the two ends of a connection in memory.
func ends(t *testing.T) (net.Conn, net.Conn) {
	t.Helper()
	client, server := zkserver.MemoryPipe()
	t.Cleanup(func() { client.Close(); server.Close() })
	return client, server
}

func TestMemoryConnEnds(t *testing.T) {
	t.Run("reader gone", func(t *testing.T) {
		a, b := ends(t)
		require.NoError(t, b.Close())
		_, err := a.Write([]byte("x"))
		require.ErrorIs(t, err, syscall.EPIPE)
		_, err = b.Read(make([]byte, 1))
		require.ErrorIs(t, err, net.ErrClosed)
		_, err = b.Write([]byte("x"))
		require.ErrorIs(t, err, net.ErrClosed)
	})
	t.Run("half closed", func(t *testing.T) {
		a, b := ends(t)
		_, err := a.Write([]byte("last"))
		require.NoError(t, err)
		require.NoError(t, a.(interface{ CloseWrite() error }).CloseWrite())
		got, err := io.ReadAll(b)
		require.NoError(t, err)
		require.Equal(t, "last", string(got))
		_, err = b.Write([]byte("still open"))
		require.NoError(t, err)
		_, err = a.Read(make([]byte, 10))
		require.NoError(t, err)
		_, err = a.Write([]byte("x"))
		require.ErrorIs(t, err, syscall.EPIPE)
	})
	t.Run("while waiting", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			a, b := ends(t)
			results := make(chan error, 2)
			go func() {
				_, err := a.Read(make([]byte, 1))
				results <- err
			}()
			go func() {
				_, err := a.Write(make([]byte, 1<<20))
				results <- err
			}()
			synctest.Wait()
			require.Empty(t, results)
			a.Close()
			require.ErrorIs(t, <-results, net.ErrClosed)
			require.ErrorIs(t, <-results, net.ErrClosed)
			_, err := io.ReadAll(b)
			require.NoError(t, err)
		})
	})
}
