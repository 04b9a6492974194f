// SPDX-License-Identifier: Apache-2.0

package zkserver_test

import (
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/testing/zkserver"
)

func TestCloseIsIdempotentAndFinal(t *testing.T) {
	srv, err := zkserver.Start()
	require.NoError(t, err)
	c := rawTo(t, srv, connection{})
	require.NoError(t, srv.Close())
	require.NoError(t, srv.Close())
	c.hungUp(t)

	require.ErrorIs(t, srv.Stop(), zkserver.ErrClosed)
	require.ErrorIs(t, srv.Restart(), zkserver.ErrClosed)
	_, err = net.DialTimeout("tcp", srv.Addr(), patience)
	require.Error(t, err)
}

func TestCloseDoesNotWaitForClients(t *testing.T) {
	srv, err := zkserver.Start()
	require.NoError(t, err)
	rawTo(t, srv, connection{})
	half, err := dialTCP(srv.Addr()) // never says anything
	require.NoError(t, err)
	defer half.Close()
	srv.Pause()
	rawToPaused(t, srv)
	require.NoError(t, srv.Close())
}

func rawToPaused(t *testing.T, srv *zkserver.Server) {
	t.Helper()
	nc, err := dialTCP(srv.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { nc.Close() })
	require.NoError(t, (&rawClient{nc: nc}).write(body{}.int(0).long(0).int(5000).long(0).str("")))
}

func TestRestartWhenTheAddressIsTaken(t *testing.T) {
	srv := start(t)
	require.NoError(t, srv.Stop())
	taken, err := net.Listen("tcp", srv.Addr())
	require.NoError(t, err)
	require.ErrorContains(t, srv.Restart(), "zkserver: listen tcp")
	require.NoError(t, taken.Close())
	require.NoError(t, srv.Restart())
	rawTo(t, srv, connection{})
}

func TestServeConn(t *testing.T) {
	srv, err := zkserver.Start(zkserver.WithoutListener())
	require.NoError(t, err)
	client, server := net.Pipe()
	srv.ServeConn(server)
	c, err := handshake(client, connection{timeoutMs: 5000})
	require.NoError(t, err)
	c.must(t, 1, createBody("/a", "", 1))
	who := c.must(t, 107, body{})
	require.Equal(t, "[]", identities(nil, &who.fields), "a pipe has no address to be known by")
	require.NoError(t, srv.Close())
	c.hungUp(t)

	late, refused := net.Pipe()
	defer late.Close()
	srv.ServeConn(refused)
	_, err = late.Read(make([]byte, 1))
	require.Error(t, err)
}

func TestSessionsExpireDuringPause(t *testing.T) {
	srv := start(t, zkserver.WithTick(10*time.Millisecond))
	c := rawTo(t, srv, connection{timeoutMs: 20})
	c.must(t, 1, createBody("/e", "", 1))
	srv.Pause()
	_, err := c.send(4, body{}.str("/e").flag(false))
	require.NoError(t, err)
	require.Eventually(t, func() bool { return srv.Stats().Sessions == 0 }, patience, time.Millisecond)
	require.Zero(t, srv.Stats().Ephemerals)
	srv.Resume()
	c.hungUp(t)
}

// TestLifecycleClientThatDoesNotRead asks for far more than the server keeps for a client that reads nothing.
func TestLifecycleClientThatDoesNotRead(t *testing.T) {
	srv := start(t, zkserver.WithMaxQueued(8<<20))
	c, other := rawTo(t, srv, connection{}), rawTo(t, srv, connection{})
	const size = 1_000_000
	c.must(t, 1, createBody("/big", string(make([]byte, size)), 0))
	for range 200 {
		if _, err := c.send(4, body{}.str("/big").flag(false)); err != nil {
			break // cut already
		}
	}
	require.Eventually(t, func() bool { return srv.Stats().Connections == 1 }, patience, time.Millisecond)
	require.Equal(t, 2, srv.Stats().Sessions)
	other.must(t, 3, body{}.str("/big").flag(false))
}

// TestLifecycleAnswerWithoutMeasure asks for the same large node very often in one request.
func TestLifecycleAnswerWithoutMeasure(t *testing.T) {
	srv := start(t, zkserver.WithMaxQueued(8<<20))
	c, other := rawTo(t, srv, connection{}), rawTo(t, srv, connection{})
	c.must(t, 1, createBody("/big", string(make([]byte, 1_000_000)), 0))
	reads := make([]any, 0, 2*1000)
	for range 1000 { // a gigabyte in all
		reads = append(reads, 4, body{}.str("/big").flag(false))
	}
	_, err := c.send(22, multiOf(reads...))
	require.NoError(t, err)
	reply, err := c.receive()
	require.NoError(t, err)
	require.EqualValues(t, -5, reply.err)
	c.hungUp(t)
	other.must(t, 3, body{}.str("/big").flag(false))
}
