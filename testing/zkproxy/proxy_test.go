// SPDX-License-Identifier: Apache-2.0

package zkproxy_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/testing/zkproxy"
)

func start(t *testing.T, target string, opts ...zkproxy.Option) *zkproxy.Proxy {
	t.Helper()
	p := must.Get(zkproxy.Start(target, opts...))(t)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

// await waits for an event with the given action and returns it.
func await(t *testing.T, p *zkproxy.Proxy, action zkproxy.Action) zkproxy.Event {
	t.Helper()
	return awaitMatch(t, p, func(e zkproxy.Event) bool { return e.Action == action })
}

func awaitMatch(t *testing.T, p *zkproxy.Proxy, match func(zkproxy.Event) bool) zkproxy.Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	e, err := p.Await(ctx, match)
	require.NoError(t, err, "log: %v", p.Log())
	return e
}

func TestProxyFramesPassUnchangedAndAreNumbered(t *testing.T) {
	server := startServer(t)
	p := start(t, server.addr())
	c := connect(t, p.Addr())
	c.call(1, zkproxy.OpCreate, "/a")
	require.Equal(t, request(1, zkproxy.OpCreate, "/a"), server.next())
	c.call(-2, zkproxy.OpPing, "")
	c.call(-1000, zkproxy.OpAddWatch, "/b")
	c.send(2, zkproxy.OpGetData, "/c")
	require.Equal(t, "/watched", string(c.receive()[28:]))
	c.requireReply(2)
	require.Equal(t, 3, p.Requests())

	var frames []zkproxy.Frame
	for i, e := range p.Log() {
		require.Equal(t, i+1, e.Seq)
		require.Nil(t, e.Frame.Body)
		if e.Action == zkproxy.Forwarded {
			require.Equal(t, 1, e.Frame.Conn)
			e.Frame.Conn = 0
			frames = append(frames, e.Frame)
		}
	}
	const in, out = zkproxy.ToServer, zkproxy.ToClient
	require.Equal(t, []zkproxy.Frame{
		{Direction: in, Kind: zkproxy.Handshake},
		{Direction: out, Kind: zkproxy.Handshake},
		{Direction: in, Kind: zkproxy.Request, Index: 1, Xid: 1, Op: zkproxy.OpCreate, Path: "/a"},
		{Direction: out, Kind: zkproxy.Reply, Index: 1, Xid: 1, Op: zkproxy.OpCreate, Path: "/a", Zxid: 1},
		{Direction: in, Kind: zkproxy.Ping, Xid: -2, Op: zkproxy.OpPing},
		{Direction: out, Kind: zkproxy.Ping, Xid: -2, Op: zkproxy.OpPing, Zxid: 2},
		{Direction: in, Kind: zkproxy.Request, Index: 2, Xid: -1000, Op: zkproxy.OpAddWatch, Path: "/b"},
		{Direction: out, Kind: zkproxy.Reply, Index: 2, Xid: -1000, Op: zkproxy.OpAddWatch, Path: "/b", Zxid: 3},
		{Direction: in, Kind: zkproxy.Request, Index: 3, Xid: 2, Op: zkproxy.OpGetData, Path: "/c"},
		{Direction: out, Kind: zkproxy.Notification, Xid: -1, Path: "/watched", Zxid: 4},
		{Direction: out, Kind: zkproxy.Reply, Index: 3, Xid: 2, Op: zkproxy.OpGetData, Path: "/c", Zxid: 5},
	}, frames)
	require.True(t, slices.IsSortedFunc(p.Log(), func(a, b zkproxy.Event) int { return int(a.At - b.At) }))
}

func TestProxyFourLetterWordsPassRaw(t *testing.T) {
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer listener.Close()
	got := make(chan string, 1)
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			got <- err.Error()
			return
		}
		defer conn.Close()
		word, _ := io.ReadAll(conn) // until the client shuts its side, which must not end the other
		_, _ = io.WriteString(conn, "rw")
		got <- string(word)
	}()

	p := start(t, listener.Addr().String())
	p.Intercept(func(zkproxy.Frame) zkproxy.Verdict { return zkproxy.Drop })
	c := dial(t, p.Addr())
	must.Get(io.WriteString(c.conn, "isro"))(t)
	require.NoError(t, c.conn.CloseWrite())
	require.Equal(t, "rw", string(must.Get(io.ReadAll(c.conn))(t)))
	require.Equal(t, "isro", <-got)
	require.Zero(t, p.Requests())
}

func TestGarbageResetsConnection(t *testing.T) {
	server := startServer(t)
	for name, garbage := range map[string][]byte{
		"length too long":   {0, 0, 1, 1, 9, 9},
		"length negative":   {0xff, 0xff, 0xff, 0xff},
		"request too short": {0, 0, 0, 7, 1, 2, 3, 4, 5, 6, 7},
		"HTTP":              []byte("GET / HTTP/1.1\r\n\r\n"),
	} {
		t.Run(name, func(t *testing.T) {
			p := start(t, server.addr(), zkproxy.WithMaxFrame(256))
			c := connect(t, p.Addr())
			must.Get(c.conn.Write(garbage))(t)
			c.requireReset()
			require.NotEmpty(t, await(t, p, zkproxy.Garbage).Detail)
			connect(t, p.Addr()).call(1, zkproxy.OpSync, "/")
		})
	}
	t.Run("from server", func(t *testing.T) {
		p := start(t, server.addr())
		chained := start(t, p.Addr())
		p.Intercept(func(f zkproxy.Frame) zkproxy.Verdict {
			if f.Kind == zkproxy.Reply {
				return zkproxy.Replace("short")
			}
			return zkproxy.Pass
		})
		c := connect(t, chained.Addr())
		c.send(1, zkproxy.OpSync, "/")
		c.requireReset()
		require.Equal(t, zkproxy.ToClient, await(t, chained, zkproxy.Garbage).Frame.Direction)
	})
}

func TestProxyPartOfFrameIsNotForwarded(t *testing.T) {
	server := startServer(t)
	p := start(t, server.addr())
	c := connect(t, p.Addr())
	must.Get(c.conn.Write([]byte{0, 0, 0, 12, 0, 0, 0, 1}))(t)
	require.NoError(t, c.conn.Close())
	require.ErrorIs(t, server.end(), io.EOF)
	require.Empty(t, server.received)
}

func TestSetTargetLeavesExistingConnections(t *testing.T) {
	first, second := startServer(t), startServer(t)
	p := start(t, first.addr())
	old := connect(t, p.Addr())
	p.SetTarget(second.addr())
	connect(t, p.Addr()).call(1, zkproxy.OpSync, "/new")
	old.call(1, zkproxy.OpSync, "/old")
	require.Equal(t, request(1, zkproxy.OpSync, "/old"), first.next())
	require.Equal(t, request(1, zkproxy.OpSync, "/new"), second.next())
}

func TestClose(t *testing.T) {
	server := startServer(t)
	p := must.Get(zkproxy.Start(server.addr()))(t)
	c := connect(t, p.Addr())
	require.NoError(t, p.Close())
	c.requireReset()
	_, err := net.Dial("tcp", p.Addr())
	require.Error(t, err)
	require.NoError(t, p.Close(), "a second time")
	require.NotEmpty(t, p.Log())
}

func TestStartRefusesBadInput(t *testing.T) {
	for _, target := range []string{"nowhere", "localhost:99999", "localhost:2181/app"} {
		_, err := zkproxy.Start(target)
		require.ErrorContains(t, err, fmt.Sprintf("target is %q, expected host:port", target))
	}
	_, err := zkproxy.Start("localhost:1", zkproxy.WithMaxFrame(15))
	require.ErrorContains(t, err, "longest frame is 15 bytes")
	_, err = zkproxy.Start("localhost:1", zkproxy.WithDialTimeout(0))
	require.ErrorContains(t, err, "dial timeout is 0s")
	_, err = zkproxy.Start("localhost:1", zkproxy.WithDialer(nil))
	require.ErrorContains(t, err, "nil dialer")
}

func TestAwaitEndsWithContext(t *testing.T) {
	p := start(t, "127.0.0.1:1")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := p.Await(ctx, func(zkproxy.Event) bool { return true })
	require.ErrorIs(t, err, context.Canceled)
}

// TestProxyCommandsAreInTheLog, among what they do.
func TestProxyCommandsAreInTheLog(t *testing.T) {
	p := start(t, startServer(t).addr())
	connect(t, p.Addr())
	p.Delay(time.Second)
	p.Delay(0)
	p.Rate(1000)
	p.Rate(0)
	p.Pause(true)
	p.Pause(false)
	p.Blackhole(zkproxy.ToClient)
	p.CutOff()
	p.Heal()
	p.SetTarget("other:2181")
	p.CutNext(2)
	p.Refuse(true)
	p.Cut()
	var commands []string
	log := p.Log()
	for _, e := range log {
		if e.Action == zkproxy.Commanded {
			commands = append(commands, e.Detail)
		}
	}
	require.Equal(t, []string{
		"Delay 1s", "Delay 0s", "Rate 1000", "Rate 0", "Pause true", "Pause false", "Blackhole ToClient", "CutOff", "Heal",
		"SetTarget other:2181", "CutNext 2", "Refuse true", "Cut",
	}, commands)
	require.Equal(t, zkproxy.Reset, log[len(log)-1].Action, "what Cut does follows it")
}
