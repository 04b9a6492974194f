// SPDX-License-Identifier: Apache-2.0

package zkproxy_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/testing/zkproxy"
)

func TestRefuseResetsNewConnectionsOnly(t *testing.T) {
	server := startServer(t)
	p := start(t, server.addr())
	old := connect(t, p.Addr())
	p.Refuse(true)
	requireRefused(t, p.Addr())
	require.Equal(t, 2, await(t, p, zkproxy.Refused).Frame.Conn)
	old.call(1, zkproxy.OpSync, "/")
	p.Refuse(false)
	connect(t, p.Addr()).call(1, zkproxy.OpSync, "/")
}

func TestBlackholeToServerLosesRequests(t *testing.T) {
	server := startServer(t)
	p := start(t, server.addr())
	c := connect(t, p.Addr())
	p.Blackhole(zkproxy.ToServer)
	c.send(1, zkproxy.OpCreate, "/a")
	await(t, p, zkproxy.Swallowed)
	require.Empty(t, server.received)

	fresh := dial(t, p.Addr())
	fresh.sendBody([]byte("connect"))
	awaitMatch(t, p, func(e zkproxy.Event) bool { return e.Action == zkproxy.Swallowed && e.Frame.Conn == 2 })
	fresh.requireSilence()

	p.Heal()
	c.requireReset()
	fresh.requireReset()
	require.Empty(t, server.received, "what was swallowed never arrives")
	connect(t, p.Addr()).call(1, zkproxy.OpSync, "/")
}

func TestBlackholeHidesUnreachableTarget(t *testing.T) {
	p := start(t, "127.0.0.1:1")
	p.Blackhole(zkproxy.ToClient)
	c := dial(t, p.Addr())
	await(t, p, zkproxy.Swallowed)
	c.requireSilence()
	p.Heal()
	c.requireReset()
}

func TestDelayIsLatencyNotThroughput(t *testing.T) {
	const delay, calls = 100 * time.Millisecond, 200
	server := startServer(t)
	p := start(t, server.addr())
	c := connect(t, p.Addr())
	p.Delay(delay)
	begun := time.Now()
	for xid := range int32(calls) {
		c.send(xid+1, zkproxy.OpSync, "/")
	}
	for xid := range int32(calls) {
		c.requireReply(xid + 1)
	}
	took := time.Since(begun)
	require.GreaterOrEqual(t, took, 2*delay)
	require.Less(t, took, calls*delay, "frames wait for each other")
}

func TestRateLimitsBytesPerSecond(t *testing.T) {
	server := startServer(t)
	p := start(t, server.addr())
	c := connect(t, p.Addr())
	p.Rate(100_000)
	begun := time.Now()
	c.call(1, zkproxy.OpSync, string(make([]byte, 20_000)))
	require.GreaterOrEqual(t, time.Since(begun), 200*time.Millisecond)
	require.Len(t, server.next(), 20_012)

	p.Rate(10) // a piece is one byte
	c.send(2, zkproxy.OpSync, "/")
	awaitMatch(t, p, func(e zkproxy.Event) bool { return e.Action == zkproxy.Forwarded && e.Frame.Xid == 2 })
	p.Blackhole(zkproxy.ToServer)
	require.Equal(t, "in part", await(t, p, zkproxy.Swallowed).Detail)
	p.Heal()
	c.requireReset()
	require.True(t, isReset(server.end()), "the server has a part of the frame, and no more is to follow")
}

func TestCutEndsWhatIsDelayedOrStalled(t *testing.T) {
	server := startServer(t)
	p := start(t, server.addr())
	stalled, delayed := connect(t, p.Addr()), connect(t, p.Addr())
	p.Intercept(func(zkproxy.Frame) zkproxy.Verdict { return zkproxy.Stall })
	stalled.send(1, zkproxy.OpSync, "/")
	await(t, p, zkproxy.Stalled)
	p.Delay(time.Hour)
	delayed.send(1, zkproxy.OpSync, "/")
	p.Cut()
	stalled.requireReset()
	delayed.requireReset()
	require.True(t, isReset(server.end()))
	require.True(t, isReset(server.end()))
	require.NoError(t, p.Close(), "no goroutine waits for the hour to end")
	require.Empty(t, server.received)
}
