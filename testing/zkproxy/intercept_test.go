// SPDX-License-Identifier: Apache-2.0

package zkproxy_test

import (
	"io"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/testing/zkproxy"
)

// on returns an interceptor with the given verdict for request or reply number index.
func on(d zkproxy.Direction, index int, v zkproxy.Verdict) func(zkproxy.Frame) zkproxy.Verdict {
	return func(f zkproxy.Frame) zkproxy.Verdict {
		if f.Direction == d && f.Index == index {
			return v
		}
		return zkproxy.Pass
	}
}

// actions returns what was done to request or reply number index.
func actions(p *zkproxy.Proxy, d zkproxy.Direction, index int) []zkproxy.Action {
	var actions []zkproxy.Action
	for _, e := range p.Log() {
		if e.Frame.Direction == d && e.Frame.Index == index {
			actions = append(actions, e.Action)
		}
	}
	return actions
}

func TestCutAfterHandshakeAndPing(t *testing.T) {
	server := startServer(t)
	for _, kind := range []zkproxy.Kind{zkproxy.Handshake, zkproxy.Ping} {
		p := start(t, server.addr())
		p.Intercept(func(f zkproxy.Frame) zkproxy.Verdict {
			if f.Kind == kind {
				return zkproxy.CutAfter
			}
			return nil
		})
		c := dial(t, p.Addr())
		c.sendBody([]byte("connect"))
		if kind == zkproxy.Ping {
			c.receive()
			c.send(-2, zkproxy.OpPing, "")
		}
		c.requireReset()
		require.Equal(t, kind, await(t, p, zkproxy.Withheld).Frame.Kind)
	}
}

func TestCutAfterReplyArrives(t *testing.T) {
	server := startServer(t)
	p := start(t, server.addr())
	p.Intercept(on(zkproxy.ToClient, 1, zkproxy.CutAfter))
	c := connect(t, p.Addr())
	c.call(1, zkproxy.OpCreate, "/a")
	_, err := readFrame(c.conn)
	require.ErrorIs(t, err, io.EOF)
	require.Equal(t, 1, await(t, p, zkproxy.Ended).Frame.Conn)
}

func TestDuplicate(t *testing.T) {
	server := startServer(t)
	p := start(t, server.addr())
	p.Intercept(on(zkproxy.ToServer, 1, zkproxy.Duplicate))
	c := connect(t, p.Addr())
	c.call(1, zkproxy.OpCreate, "/a")
	c.requireReply(1)
	c.call(2, zkproxy.OpCreate, "/b")
	for range 2 {
		require.Equal(t, request(1, zkproxy.OpCreate, "/a"), server.next())
	}
	require.Equal(t, []zkproxy.Action{zkproxy.Duplicated, zkproxy.Forwarded, zkproxy.Forwarded}, actions(p, zkproxy.ToServer, 1))
	require.Equal(t, []zkproxy.Action{zkproxy.Forwarded, zkproxy.Forwarded}, actions(p, zkproxy.ToClient, 1))
}

func TestReplace(t *testing.T) {
	server := startServer(t)
	p := start(t, server.addr())
	p.Intercept(on(zkproxy.ToServer, 1, zkproxy.Replace(request(7, zkproxy.OpDelete, "/other"))))
	p.Intercept(on(zkproxy.ToClient, 1, zkproxy.Replace("?")))
	c := connect(t, p.Addr())
	c.send(1, zkproxy.OpCreate, "/a")
	require.Equal(t, request(7, zkproxy.OpDelete, "/other"), server.next())
	require.Equal(t, "?", string(c.receive()))
	e := awaitMatch(t, p, func(e zkproxy.Event) bool {
		return e.Action == zkproxy.Replaced && e.Frame.Direction == zkproxy.ToClient
	})
	require.Equal(t, "/other", e.Frame.Path, "the reply belongs to what was sent")

	p.Intercept(on(zkproxy.ToServer, 2, zkproxy.Replace(nil)))
	c.send(2, zkproxy.OpCreate, "/b")
	awaitMatch(t, p, func(e zkproxy.Event) bool { return e.Action == zkproxy.Forwarded && e.Frame.Index == 2 })
}

func TestStallHoldsDirectionUntilHeal(t *testing.T) {
	server := startServer(t)
	p := start(t, server.addr())
	remove := p.Intercept(on(zkproxy.ToClient, 1, zkproxy.Stall))
	c, other := connect(t, p.Addr()), connect(t, p.Addr())
	c.send(1, zkproxy.OpCreate, "/a")
	await(t, p, zkproxy.Stalled)
	c.send(2, zkproxy.OpCreate, "/b")
	server.next()
	require.Equal(t, request(2, zkproxy.OpCreate, "/b"), server.next(), "the other direction goes on")
	other.call(1, zkproxy.OpSync, "/")
	c.requireSilence()
	remove()
	p.Heal()
	c.requireReply(1)
	c.requireReply(2)
	c.call(3, zkproxy.OpSync, "/")
}

func TestInterceptFirstVerdictOtherThanPassHolds(t *testing.T) {
	server := startServer(t)
	p := start(t, server.addr())
	asked := make(chan string, 100)
	intercept := func(name string, v zkproxy.Verdict) func() {
		return p.Intercept(func(f zkproxy.Frame) zkproxy.Verdict {
			if f.Kind != zkproxy.Request {
				return nil
			}
			asked <- name
			return v
		})
	}
	intercept("first", zkproxy.Pass)
	remove := intercept("second", zkproxy.Drop)
	intercept("third", zkproxy.CutBefore)
	c := connect(t, p.Addr())
	c.send(1, zkproxy.OpCreate, "/a")
	await(t, p, zkproxy.Dropped)
	remove()
	remove() // a second time
	c.send(2, zkproxy.OpCreate, "/b")
	c.requireReset()
	for _, name := range []string{"first", "second", "first", "third"} {
		require.Equal(t, name, <-asked)
	}
	require.Empty(t, asked)
}

func TestInterceptorMayBlockAndUseTheProxy(t *testing.T) {
	server := startServer(t)
	p := start(t, server.addr())
	reached, leave := make(chan struct{}), make(chan struct{})
	p.Intercept(func(f zkproxy.Frame) zkproxy.Verdict {
		if f.Path == "/block" && f.Direction == zkproxy.ToServer {
			close(reached)
			<-leave
			p.Blackhole(zkproxy.ToServer)
		}
		return zkproxy.Pass
	})
	blocked, other := connect(t, p.Addr()), connect(t, p.Addr())
	blocked.send(1, zkproxy.OpCreate, "/block")
	<-reached
	other.call(1, zkproxy.OpSync, "/")
	close(leave)
	require.Equal(t, "/block", await(t, p, zkproxy.Swallowed).Frame.Path, "the black hole that it opened takes its own frame")
}

// TestInterceptorThatExits, as a failing assertion in it does, costs the connection.
func TestInterceptorThatExits(t *testing.T) {
	server := startServer(t)
	p := start(t, server.addr())
	p.Intercept(func(f zkproxy.Frame) zkproxy.Verdict {
		if f.Index == 1 {
			runtime.Goexit()
		}
		return zkproxy.Pass
	})
	c := connect(t, p.Addr())
	c.send(1, zkproxy.OpCreate, "/a")
	c.requireReset()
}

// TestFaultsThatWouldNeverCome are refused, or a test would pass without them.
func TestFaultsThatWouldNeverCome(t *testing.T) {
	p := start(t, startServer(t).addr())
	require.PanicsWithValue(t, "zkproxy: Intercept of a nil function, expected a func(Frame) Verdict", func() { p.Intercept(nil) })
	for _, count := range []func(int, int32, zkproxy.Verdict) func(zkproxy.Frame) zkproxy.Verdict{zkproxy.Nth, zkproxy.NthReply} {
		require.PanicsWithValue(t, "zkproxy: the frame with number 0, expected 1 for the first", func() { count(0, zkproxy.OpCreate2, zkproxy.Drop) })
	}
}
