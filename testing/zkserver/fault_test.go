// SPDX-License-Identifier: Apache-2.0

package zkserver_test

import (
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/testing/zkserver"
)

// once intercepts the next request of one type that comes before the test ends.
func once(t *testing.T, srv *zkserver.Server, op zkserver.OpCode, f zkserver.Fault) {
	t.Helper()
	done := false
	t.Cleanup(srv.Intercept(func(r zkserver.Request) zkserver.Fault {
		if r.Op != op || done {
			return zkserver.Pass
		}
		done = true
		return f
	}))
}

func TestFaultLostRequestsAndReplies(t *testing.T) {
	for name, tt := range map[string]struct {
		fault         zkserver.Fault
		applied, ends bool
	}{
		"LoseRequest":      {zkserver.LoseRequest, false, true},
		"LoseReply":        {zkserver.LoseReply, true, true},
		"NeverAnswer":      {zkserver.NeverAnswer, false, false},
		"ApplyNeverAnswer": {zkserver.ApplyNeverAnswer, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			srv := start(t)
			c, other := rawTo(t, srv, connection{}), rawTo(t, srv, connection{})
			c.watchMissing(t, "/a")
			other.watchMissing(t, "/a")
			once(t, srv, zkserver.OpCreate, tt.fault)

			// A request before it and one after it leave in the same write.
			first := must.Get(c.send(9, body{}.str("/first")))(t)
			must.Get(c.send(1, createBody("/a", "", 0)))(t)
			last := must.Get(c.send(9, body{}.str("/last")))(t)

			reply, err := c.receive()
			require.NoError(t, err, "the reply to an earlier request arrives")
			require.Equal(t, first, reply.xid)
			require.Empty(t, reply.events)
			if tt.ends {
				c.hungUp(t)
				require.Empty(t, c.pending)
			} else {
				reply = must.Get(c.receive())(t)
				require.Equal(t, last, reply.xid)
			}
			var want []rawEvent
			if tt.applied {
				want = []rawEvent{{1, "/a"}}
			}
			require.Equal(t, want, other.events(t))
			if !tt.ends {
				require.Equal(t, want, reply.events)
			}
			require.Equal(t, tt.applied, other.code(t, 3, body{}.str("/a").flag(false)) == 0)
			require.Equal(t, 2, srv.Stats().Sessions)
		})
	}
}

func TestRespondWith(t *testing.T) {
	srv := start(t)
	c := rawTo(t, srv, connection{})
	garbage := []byte{0, 0, 0, 3, 'x', 'y', 'z'}
	once(t, srv, zkserver.OpCreate, zkserver.RespondWith(garbage))
	must.Get(c.send(1, createBody("/a", "", 0)))(t)
	require.Equal(t, "xyz", string(must.Get(c.read())(t)))
	c.must(t, 3, body{}.str("/a").flag(false))
}

func TestFaultsOfConnectRequests(t *testing.T) {
	connectFails := func(t *testing.T, srv *zkserver.Server) {
		t.Helper()
		_, err := tryRaw(t, srv, connection{})
		require.Error(t, err)
	}
	t.Run("LoseRequest", func(t *testing.T) {
		srv := start(t)
		once(t, srv, zkserver.OpCreateSession, zkserver.LoseRequest)
		connectFails(t, srv)
		require.Zero(t, srv.Stats().Sessions)
	})
	t.Run("LoseReply", func(t *testing.T) {
		srv := start(t)
		once(t, srv, zkserver.OpCreateSession, zkserver.LoseReply)
		connectFails(t, srv)
		require.Equal(t, 1, srv.Stats().Sessions)
		require.Zero(t, srv.Stats().Connections)
	})
	t.Run("FailWith", func(t *testing.T) {
		srv := start(t)
		c := rawTo(t, srv, connection{})
		once(t, srv, zkserver.OpCreateSession, zkserver.FailWith(-112))
		refused := rawTo(t, srv, connection{session: c.session, password: c.password})
		require.Zero(t, refused.session)
		refused.hungUp(t)
		c.must(t, 11, body{})
	})
	t.Run("RespondWith", func(t *testing.T) {
		srv := start(t)
		answer := body{}.int(0).int(5000).long(42).str(string(make([]byte, 16))).flag(false)
		once(t, srv, zkserver.OpCreateSession, zkserver.RespondWith(body{}.str(string(answer.b)).b))
		c := rawTo(t, srv, connection{})
		require.EqualValues(t, 42, c.session)
		c.must(t, 1, createBody("/e", "", 1))
		require.Equal(t, 1, srv.Sessions()[0].Ephemerals)
	})
	for name, tt := range map[string]struct {
		fault    zkserver.Fault
		sessions int
	}{
		"NeverAnswer":      {zkserver.NeverAnswer, 0},
		"ApplyNeverAnswer": {zkserver.ApplyNeverAnswer, 1},
	} {
		t.Run(name, func(t *testing.T) {
			srv := start(t)
			once(t, srv, zkserver.OpCreateSession, tt.fault)
			nc, err := dialTCP(srv.Addr())
			require.NoError(t, err)
			defer nc.Close()
			c := &rawClient{nc: nc}
			require.NoError(t, c.write(body{}.int(0).long(0).int(5000).long(0).str("")))
			must.Get(c.send(1, createBody("/a", "", 0)))(t)
			if tt.sessions == 0 {
				require.NoError(t, nc.SetReadDeadline(time.Now().Add(50*time.Millisecond)))
				_, err = nc.Read(make([]byte, 1))
				require.ErrorContains(t, err, "timeout")
			} else {
				require.Zero(t, must.Get(c.receive())(t).err, "requests are served")
			}
			require.Equal(t, tt.sessions, srv.Stats().Sessions)
			require.Equal(t, 5+tt.sessions, srv.Stats().Znodes)
		})
	}
}

func TestDelayHoldsBackOneConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, connect := piped(t)
		c, other := connect(connection{timeoutMs: 10_000}), connect(connection{timeoutMs: 10_000})
		once(t, srv, zkserver.OpCreate, zkserver.Delay(3*time.Second))
		began := time.Now()
		must.Get(c.send(1, createBody("/a", "", 0)))(t)
		synctest.Wait()
		require.EqualValues(t, -101, other.code(t, 3, body{}.str("/a").flag(false)))
		require.Zero(t, time.Since(began))
		require.Zero(t, must.Get(c.receive())(t).err)
		require.Equal(t, 3*time.Second, time.Since(began))
	})
}

// TestFaultHeldRequestOfALostSession is a request that arrives, waits, and is served after its session has ended: never.
func TestFaultHeldRequestOfALostSession(t *testing.T) {
	srv := start(t)
	asked := make(chan struct{})
	t.Cleanup(srv.Intercept(func(r zkserver.Request) zkserver.Fault {
		if r.Op != zkserver.OpCreate {
			return zkserver.Pass
		}
		close(asked)
		return zkserver.HoldUntil(make(chan struct{}))
	}))
	c := rawTo(t, srv, connection{})
	must.Get(c.send(1, createBody("/e", "", 1)))(t)
	<-asked
	require.True(t, srv.KillSession(c.session))
	c.hungUp(t)
	require.Equal(t, 5, srv.Stats().Znodes)
}

func TestHooksSeeRequestsInOrder(t *testing.T) {
	srv := start(t)
	var seen []zkserver.Request
	remove := srv.Intercept(func(r zkserver.Request) zkserver.Fault {
		seen = append(seen, r)
		return zkserver.Pass
	})
	c := rawTo(t, srv, connection{})
	c.must(t, 1, createBody("/a", "", 0))
	c.must(t, 14, multiOf(5, body{}.str("/a").str("").int(-1), 2, body{}.str("/a").int(-1)))
	c.must(t, 11, body{})
	c.code(t, 22, multiOf())
	c.code(t, 3, body{})
	c.must(t, 101, body{}.long(0).strs().strs().strs())
	remove()
	remove()
	c.must(t, 9, body{}.str("/unseen"))

	again := rawTo(t, srv, connection{session: c.session, password: c.password})
	t.Cleanup(srv.Intercept(func(r zkserver.Request) zkserver.Fault {
		seen = append(seen, r)
		return zkserver.Pass
	}))
	again.must(t, 2+7, body{}.str("/"))
	again.must(t, 22, multiOf(4, body{}.str("/a").flag(false), 4, body{}.str("/b").flag(false)))
	require.Equal(t, []zkserver.Request{
		{1, 0, 0, zkserver.OpCreateSession, "", nil},
		{2, c.session, 1, zkserver.OpCreate, "/a", nil},
		{3, c.session, 2, zkserver.OpMulti, "/a", nil},
		{4, c.session, -2, zkserver.OpPing, "", nil},
		{5, c.session, 4, zkserver.OpMultiRead, "", nil},
		{6, c.session, 5, zkserver.OpExists, "", nil},
		{7, c.session, 6, zkserver.OpSetWatches, "", nil},
		{8, c.session, 1, zkserver.OpSync, "/", nil},
		{9, c.session, 2, zkserver.OpMultiRead, "/a", []string{"/a", "/b"}},
	}, seen)
}

// TestHooksDoNotOverlap has many connections call two hooks that share what no lock guards. The second hook is asked
// only when the first has passed.
func TestHooksDoNotOverlap(t *testing.T) {
	srv := start(t)
	total, second, indexes := 0, 0, map[int]bool{}
	t.Cleanup(srv.Intercept(func(r zkserver.Request) zkserver.Fault {
		total++
		indexes[r.Index] = true
		if r.Op == zkserver.OpSync && total%2 == 0 {
			return zkserver.FailWith(-4)
		}
		return zkserver.Pass
	}))
	t.Cleanup(srv.Intercept(func(zkserver.Request) zkserver.Fault {
		second++
		return zkserver.Pass
	}))
	const clients, requests = 8, 50
	var failed int
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range clients {
		c := rawTo(t, srv, connection{})
		wg.Go(func() {
			for range requests {
				reply, err := c.call(9, body{}.str("/"))
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				if reply.err == -4 {
					failed++
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	require.Equal(t, clients*(requests+1), total)
	require.Len(t, indexes, total)
	require.Equal(t, total, second+failed)
	require.Positive(t, failed)
}

func TestHooksMayUseTheServer(t *testing.T) {
	srv := start(t)
	c := rawTo(t, srv, connection{})
	var remove func()
	remove = srv.Intercept(func(r zkserver.Request) zkserver.Fault {
		remove()
		srv.KillSession(r.SessionID)
		return zkserver.Pass
	})
	must.Get(c.send(1, createBody("/e", "", 1)))(t)
	c.hungUp(t)
	require.Equal(t, zkserver.Stats{Znodes: 5}, srv.Stats())
}

// TestHookThatExits, as a failing assertion in it does, ends the connection rather than leaving its client
// without an answer.
func TestHookThatExits(t *testing.T) {
	srv := start(t)
	c := rawTo(t, srv, connection{})
	remove := srv.Intercept(func(r zkserver.Request) zkserver.Fault {
		if r.Op == zkserver.OpCreate {
			runtime.Goexit()
		}
		return zkserver.Pass
	})
	must.Get(c.send(1, createBody("/a", "", 0)))(t)
	c.hungUp(t)
	remove()
}

// TestFaultsThatWouldNeverCome are refused, or a test would pass without them.
func TestFaultsThatWouldNeverCome(t *testing.T) {
	require.PanicsWithValue(t, "zkserver: Nth of request 0, expected 1 for the first", func() {
		zkserver.Nth(0, zkserver.OpCreate2, zkserver.LoseReply)
	})
	require.PanicsWithValue(t, "zkserver: HoldUntil a nil channel, expected one that releases the request", func() { zkserver.HoldUntil(nil) })
	require.PanicsWithValue(t, "zkserver: Intercept of a nil hook, expected a func(Request) Fault", func() { start(t).Intercept(nil) })
}

func TestOpCodeString(t *testing.T) {
	require.Equal(t, "getChildren2", zkserver.OpGetChildren2.String())
	require.Equal(t, "closeSession", zkserver.OpCloseSession.String())
	require.Equal(t, "opcode(999)", zkserver.OpCode(999).String())
}
