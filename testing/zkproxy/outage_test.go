// SPDX-License-Identifier: Apache-2.0

package zkproxy_test

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/testing/zkproxy"
)

func TestPauseHoldsEverythingUp(t *testing.T) {
	server := startServer(t)
	p := start(t, server.addr())
	c, leaving := connect(t, p.Addr()), connect(t, p.Addr())
	p.Pause(true)
	p.Pause(true)
	c.send(1, zkproxy.OpCreate, "/a")
	c.send(2, zkproxy.OpCreate, "/b")
	require.NoError(t, leaving.conn.Close())
	late := dial(t, p.Addr())
	late.sendBody([]byte("connect"))
	c.requireSilence()
	late.requireSilence()
	require.Empty(t, server.received)
	require.Empty(t, server.ended)
	p.Pause(false)
	p.Pause(false)
	c.requireReply(1)
	c.requireReply(2)
	late.receive()
	require.Error(t, server.end())
}

func TestPauseEndsWithTheConnection(t *testing.T) {
	server := startServer(t)
	p := start(t, server.addr())
	c := connect(t, p.Addr())
	p.Pause(true)
	c.send(1, zkproxy.OpCreate, "/a")
	p.Cut()
	c.requireReset()
	connecting := dial(t, p.Addr())
	connecting.sendBody([]byte("connect"))
	require.NoError(t, p.Close(), "does not wait for the end of the pause")
}

func TestCutNext(t *testing.T) {
	server := startServer(t)
	p := start(t, server.addr())
	old := connect(t, p.Addr())
	p.CutNext(2)
	for range 2 {
		again := connect(t, p.Addr()) // the handshake arrives
		_, err := again.conn.Read(make([]byte, 1))
		require.ErrorIs(t, err, io.EOF)
	}
	connect(t, p.Addr()).call(1, zkproxy.OpSync, "/")
	old.call(1, zkproxy.OpSync, "/")
	p.CutNext(1)
	p.CutNext(0)
	connect(t, p.Addr()).call(1, zkproxy.OpSync, "/")
}

func TestCutOffAnswersPings(t *testing.T) {
	server := startServer(t)
	p := start(t, server.addr())
	c := connect(t, p.Addr())
	c.call(1, zkproxy.OpSync, "/")
	server.next()
	p.CutOff()
	for range 3 {
		c.send(-2, zkproxy.OpPing, "")
		require.Equal(t, header(-2, 1, 0), c.receive(), "the zxid is the last that the client has seen")
	}
	c.send(2, zkproxy.OpCreate, "/a")
	c.send(-2, zkproxy.OpPing, "")
	const pings, lost, answered = 4, zkproxy.Swallowed, zkproxy.Answered
	swallowed := 0
	awaitMatch(t, p, func(e zkproxy.Event) bool {
		if e.Frame.Kind == zkproxy.Ping && e.Action == lost {
			swallowed++
		}
		return swallowed == pings
	})
	c.requireSilence()
	require.Empty(t, server.received)
	var what []zkproxy.Action
	for _, e := range p.Log() {
		if e.Frame.Kind == zkproxy.Ping {
			what = append(what, e.Action)
		}
	}
	require.Equal(t, []zkproxy.Action{lost, answered, lost, answered, lost, answered, lost}, what)

	p.Heal()
	c.requireReset()
	connect(t, p.Addr()).call(-2, zkproxy.OpPing, "")
}

func TestAnswer(t *testing.T) {
	server := startServer(t)
	p := start(t, server.addr())
	c := connect(t, p.Addr())
	p.Intercept(zkproxy.Nth(2, zkproxy.OpCreate, zkproxy.Answer(header(2, 9, -110))))
	p.Intercept(zkproxy.NthReply(1, zkproxy.OpSync, zkproxy.Answer(header(3, 9, -7))))
	c.call(1, zkproxy.OpCreate, "/a")
	server.next()
	c.send(2, zkproxy.OpCreate, "/b")
	require.Equal(t, header(2, 9, -110), c.receive())
	require.Equal(t, []zkproxy.Action{zkproxy.Answered}, actions(p, zkproxy.ToServer, 2))
	c.send(3, zkproxy.OpSync, "/")
	require.Equal(t, header(3, 9, -7), c.receive())
	require.Equal(t, request(3, zkproxy.OpSync, "/"), server.next(), "a reply is replaced, its request was forwarded")
	c.call(4, zkproxy.OpCreate, "/c")
}

func TestAnswerIntoABlackhole(t *testing.T) {
	server := startServer(t)
	p := start(t, server.addr())
	c := connect(t, p.Addr())
	p.Intercept(zkproxy.Nth(1, zkproxy.OpCreate, zkproxy.Answer(header(1, 9, 0))))
	p.Blackhole(zkproxy.ToClient)
	c.send(1, zkproxy.OpCreate, "/a")
	await(t, p, zkproxy.Swallowed)
	c.requireSilence()
	p.Heal()
	c.requireReset()
}
