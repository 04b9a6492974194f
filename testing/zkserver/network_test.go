// SPDX-License-Identifier: Apache-2.0

package zkserver_test

import (
	"io"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/testing/zkserver"
)

// inMemory runs a test on the fake clock with a server of its own and two clients with sessions of ten seconds.
func inMemory(t *testing.T, test func(t *testing.T, srv *zkserver.Server, a, b *rawClient)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		srv := start(t, zkserver.WithoutListener())
		test(t, srv, dialed(t, srv, connection{timeoutMs: 10_000}), dialed(t, srv, connection{timeoutMs: 10_000}))
	})
}

// silent checks that a client hears nothing for a while, and not even that its connection has ended.
func (c *rawClient) silent(tb testing.TB, d time.Duration) {
	tb.Helper()
	require.NoError(tb, c.nc.SetReadDeadline(time.Now().Add(d)))
	_, err := c.nc.Read(make([]byte, 1))
	var timeout net.Error
	require.ErrorAs(tb, err, &timeout)
	require.True(tb, timeout.Timeout(), "got %v", err)
}

func kinds(events []zkserver.Event) []zkserver.EventKind {
	list := make([]zkserver.EventKind, 0, len(events))
	for _, e := range events {
		list = append(list, e.Kind)
	}
	return list
}

func TestBlackholeToServer(t *testing.T) {
	inMemory(t, func(t *testing.T, srv *zkserver.Server, a, b *rawClient) {
		a.must(t, 1, createBody("/e", "", 1))
		b.must(t, 4, body{}.str("/e").flag(true))
		began, mark := time.Now(), len(srv.Log())
		heal := srv.Blackhole(a.session, zkserver.ToServer)
		must.Get(a.send(1, createBody("/lost", "", 0)))(t)
		time.Sleep(8 * time.Second)
		b.must(t, 11, body{})
		require.Equal(t, rawEvent{2, "/e"}, waitForEvent(t, b))
		lived := time.Since(began)
		require.Greater(t, lived, 10*time.Second, "what is lost keeps no session alive")
		require.LessOrEqual(t, lived, 10*time.Second+500*time.Millisecond)
		a.hungUp(t) // the other direction is open
		heal()
		heal()
		require.EqualValues(t, -101, b.code(t, 3, body{}.str("/lost").flag(false)))
		require.Equal(t, []zkserver.EventKind{
			zkserver.Commanded, zkserver.Swallowed, zkserver.Served, zkserver.SessionExpired, zkserver.Commanded, zkserver.Served,
		}, kinds(srv.Log()[mark:]))
		lost := srv.Log()[mark+1]
		require.Equal(t, "/lost", lost.Request.Path)
		require.Equal(t, a.session, lost.SessionID)
		require.Equal(t, 1, lost.Conn)
	})
}

func TestBlackholeToClient(t *testing.T) {
	inMemory(t, func(t *testing.T, srv *zkserver.Server, a, b *rawClient) {
		heal := srv.Blackhole(a.session, zkserver.ToClient)
		must.Get(a.send(1, createBody("/a", "", 0)))(t)
		a.silent(t, 9*time.Second)
		require.Zero(t, b.code(t, 3, body{}.str("/a").flag(false)), "it is applied")
		must.Get(a.send(11, body{}))(t)
		a.silent(t, 9*time.Second)
		b.must(t, 11, body{})
		require.Len(t, srv.Sessions(), 2, "and keeps the session alive")
		a.silent(t, 2*time.Second)
		b.must(t, 11, body{})
		require.Len(t, srv.Sessions(), 1)
		a.silent(t, time.Hour) // even the end of the connection
		heal()
		a.hungUp(t)
	})
}

func TestBlackholeForAll(t *testing.T) {
	inMemory(t, func(t *testing.T, srv *zkserver.Server, a, b *rawClient) {
		spared := dialed(t, srv, connection{timeoutMs: 10_000})
		heal := srv.Blackhole(0, zkserver.Both)
		late := must.Get(srv.Dial(t.Context(), "", ""))(t)
		c := &rawClient{nc: late}
		require.NoError(t, c.write(body{}.int(0).long(0).int(5000).long(0).str("")))
		must.Get(a.send(11, body{}))(t)
		a.silent(t, time.Second)
		c.silent(t, time.Second)
		require.NoError(t, b.nc.Close())
		time.Sleep(time.Second)
		require.Equal(t, 3, srv.Stats().Connections, "nobody tells that one has hung up")
		heal()
		a.hungUp(t)
		c.hungUp(t)
		spared.must(t, 11, body{}) // it has lost nothing
		time.Sleep(2 * time.Second)
		require.Equal(t, 1, srv.Stats().Connections)
	})
}

func TestBlackholeDoesNotHoldCloseUp(t *testing.T) {
	srv := must.Get(zkserver.Start())(t)
	c, gone := rawTo(t, srv, connection{}), rawTo(t, srv, connection{})
	srv.Blackhole(0, zkserver.Both)
	must.Get(c.send(11, body{}))(t)
	require.NoError(t, gone.nc.Close())
	require.True(t, srv.KillSession(c.session))
	require.NoError(t, srv.Close())
}

func TestCutSeveralTimes(t *testing.T) {
	inMemory(t, func(t *testing.T, srv *zkserver.Server, a, b *rawClient) {
		require.Equal(t, 1, srv.Cut(a.session, 3))
		a.hungUp(t)
		want := connection{session: a.session, password: a.password}
		for range 2 {
			again := dialed(t, srv, want)
			require.Equal(t, a.session, again.session, "the handshake succeeds")
			again.hungUp(t)
		}
		dialed(t, srv, want).must(t, 11, body{})
		b.must(t, 11, body{})
	})
}

func TestRefuse(t *testing.T) {
	srv := start(t)
	c := rawTo(t, srv, connection{})
	allow := srv.Refuse()
	also := srv.Refuse()
	refused := func() {
		t.Helper()
		nc, err := dialTCP(srv.Addr()) // which may see the reset already
		if err == nil {
			defer nc.Close()
			_, err = handshake(nc, connection{})
		}
		require.True(t, ended(err), "got %v", err)
	}
	refused()
	_, err := srv.Dial(t.Context(), "", "")
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	c.must(t, 11, body{})
	allow()
	allow()
	refused()
	also()
	rawTo(t, srv, connection{})
	require.Contains(t, kinds(srv.Log()), zkserver.Refused)
}

func TestThrottle(t *testing.T) {
	inMemory(t, func(t *testing.T, srv *zkserver.Server, a, b *rawClient) {
		a.must(t, 1, createBody("/a", "", 0))
		restore := srv.Throttle(a.session, 1000)
		began := time.Now()
		a.must(t, 5, body{}.str("/a").str(string(make([]byte, 5000))).int(-1))
		require.InDelta(t, 5.1, time.Since(began).Seconds(), 0.1)
		began = time.Now()
		a.must(t, 4, body{}.str("/a").flag(false))
		require.InDelta(t, 5.1, time.Since(began).Seconds(), 0.1)
		began = time.Now()
		b.must(t, 4, body{}.str("/a").flag(false))
		require.Zero(t, time.Since(began), "others are as fast as ever")
		restore()
		restore()
		a.must(t, 4, body{}.str("/a").flag(false))
		require.Zero(t, time.Since(began))
		require.Panics(t, func() { srv.Throttle(0, 0) })
	})
}

func TestThrottleForAllEndsWithTheConnection(t *testing.T) {
	srv := start(t)
	c, reader := rawTo(t, srv, connection{}), rawTo(t, srv, connection{})
	c.must(t, 1, createBody("/a", string(make([]byte, 10_000)), 0))
	srv.Throttle(0, 1)
	_, err := c.send(4, body{}.str("/a").flag(false)) // takes half a minute to arrive
	require.NoError(t, err)
	srv.Cut(c.session, 1)
	c.hungUp(t)
	require.True(t, srv.Send(reader.session, make([]byte, 10_000)))
	require.NoError(t, srv.Close())
	reader.hungUp(t)
}

func TestSend(t *testing.T) {
	srv := start(t)
	c := rawTo(t, srv, connection{})
	require.True(t, srv.Send(c.session, []byte("garbage")))
	got := make([]byte, len("garbage"))
	must.Get(io.ReadFull(c.nc, got))(t)
	require.Equal(t, "garbage", string(got))
	c.must(t, 11, body{})
	require.False(t, srv.Send(c.session+1, nil))
	c.nc.Close()
	must.Get(srv.Await(t.Context(), func(e zkserver.Event) bool { return e.Kind == zkserver.Ended && e.Conn == 1 }))(t)
	require.False(t, srv.Send(c.session, nil))
}

func TestDirectionString(t *testing.T) {
	require.Equal(t, "ToServer", zkserver.ToServer.String())
	require.Equal(t, "ToClient", zkserver.ToClient.String())
	require.Equal(t, "Both", zkserver.Both.String())
	require.Equal(t, "Direction(0)", zkserver.Direction(0).String())
}

func TestNetworkMaxClientConnections(t *testing.T) {
	srv := start(t, zkserver.WithMaxClientConnections(2))
	first, second := dialed(t, srv, connection{}), rawTo(t, srv, connection{})
	_, err := srv.Dial(t.Context(), "", "")
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	log := srv.Log()
	require.Equal(t, zkserver.Refused, log[len(log)-1].Kind)
	require.Equal(t, "127.0.0.1 has 2 connections", log[len(log)-1].Detail)
	second.must(t, 11, body{})
	first.must(t, -11, body{})
	first.hungUp(t)
	dialed(t, srv, connection{}).must(t, 11, body{})
	pipe, _ := net.Pipe() // which has no address
	srv.ServeConn(pipe)
	require.NoError(t, pipe.Close())
}
