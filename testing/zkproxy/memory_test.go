// SPDX-License-Identifier: Apache-2.0

package zkproxy_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/testing/zkproxy"
	"github.com/gocurator/curator/testing/zkserver"
)

// inMemory connects to a proxy without a socket.
func inMemory(t *testing.T, p *zkproxy.Proxy) *client {
	t.Helper()
	conn := must.Get(p.Dial(t.Context(), "", ""))(t)
	return newClient(t, conn)
}

// openSession asks a real server for a session of ten seconds.
func (c *client) openSession() {
	c.t.Helper()
	request := binary.BigEndian.AppendUint32(make([]byte, 12), 10_000) // after protocol version and zxid
	request = append(request, make([]byte, 8)...)                      // a new session
	request = append(binary.BigEndian.AppendUint32(request, 16), make([]byte, 16)...)
	c.sendBody(request)
	require.NotZero(c.t, binary.BigEndian.Uint64(c.receive()[8:]))
}

// TestMemoryInABubble has client, proxy and server share a fake clock, on which latency is exact and a session that is cut off
// expires in no time while its pings are answered.
func TestMemoryInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := must.Get(zkserver.Start(zkserver.WithoutListener()))(t)
		defer server.Close()
		p := start(t, "memory:2181", zkproxy.WithoutListener(), zkproxy.WithDialer(server.Dial))
		require.Empty(t, p.Addr())
		c := inMemory(t, p)
		c.openSession()

		p.Delay(time.Second)
		began := time.Now()
		c.call(1, zkproxy.OpSync, "/")
		require.Equal(t, 2*time.Second, time.Since(began), "there and back")
		p.Delay(0)

		p.CutOff()
		p.Rate(100) // a ping takes 120 ms, the answer 200 ms
		began = time.Now()
		for range 4 {
			time.Sleep(3 * time.Second)
			c.call(-2, zkproxy.OpPing, "")
		}
		expired := must.Get(server.Await(t.Context(), func(e zkserver.Event) bool { return e.Kind == zkserver.SessionExpired }))(t)
		require.NotZero(t, expired.SessionID)
		require.Less(t, time.Since(began), 14*time.Second)
		p.Heal()
		_, err := c.conn.Read(make([]byte, 1))
		require.ErrorIs(t, err, io.EOF, "a reset, in memory")
	})
}

func TestDialRefused(t *testing.T) {
	p := start(t, "memory:2181", zkproxy.WithoutListener(), zkproxy.WithDialer(
		func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("no such server") }))
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("enough")
	cancel(cause)
	_, err := p.Dial(ctx, "", "")
	require.ErrorIs(t, err, cause)
	p.Refuse(true)
	_, err = p.Dial(t.Context(), "", "")
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	p.Refuse(false)
	_, err = inMemory(t, p).conn.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
	require.Equal(t, "no such server", await(t, p, zkproxy.Unserved).Detail)
	require.NoError(t, p.Close())
	_, err = p.Dial(t.Context(), "", "")
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
}

// TestMemoryEndsInMemory ends one direction after the other, through two proxies.
func TestMemoryEndsInMemory(t *testing.T) {
	server := startServer(t)
	first := start(t, server.addr(), zkproxy.WithoutListener())
	second := start(t, "memory:2181", zkproxy.WithoutListener(), zkproxy.WithDialer(first.Dial))
	c := inMemory(t, second)
	c.greet()
	c.send(1, zkproxy.OpSync, "/")
	require.NoError(t, c.conn.CloseWrite())
	c.requireReply(1)
	_, err := c.conn.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
	require.ErrorIs(t, server.end(), io.EOF)
	await(t, first, zkproxy.Ended)
	await(t, second, zkproxy.Ended)
}
