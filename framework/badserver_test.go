// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// TestBadServers is the list of what go-zookeeper v1.0.4 cannot stand, or cannot
// tell, each row in the words of what a server, the network or another client does
// and of what comes of it there. Here each ends in an error of its kind, or in none,
// long before the context of the call does; the client can be closed within two
// seconds, takes less than 64 MiB meanwhile and leaves no goroutine.
//
// What a lock makes of them is in TestLockAtABadServer of recipes/locks; more
// garbage, without end, is in the fuzz targets of internal/conduit and internal/wire.
func TestBadServers(t *testing.T) {
	tests := []struct {
		does, there string
		test        func(t *testing.T)
	}{
		{"a session timeout of 0", "panics", answeredWith(connectReply(0))},
		{"a negative session timeout", "panics", answeredWith(connectReply(-4000))},
		{"a list of 0x7fffffff names", "out of memory", listedAs(0x7f, 0xff, 0xff, 0xff)},
		{"a list of 0xffffffff names", "out of memory", listedAs(0xff, 0xff, 0xff, 0xff)},
		{"a short protected name, and a lost reply", "panics", protectedNextToAShortName},
		{"a frame of 0xffffffff bytes", "takes 4 GiB", huge([]byte{0xff, 0xff, 0xff, 0xff}, framework.ErrConnectionLost)},
		{"a frame of 0x40000000 bytes", "takes 1 GiB", huge([]byte{0x40, 0, 0, 0}, framework.ErrTooLarge)},
		{"HTTP", "takes 1 GiB and hangs", anHTTPServer},
		{"a connect reply without its body", "hangs, also Close", answeredWith(connectReply(4000)[:4])},
		{"a server that is paused", "loses the session", pausedOneByOne},
		{"more than six events at once", "drops the rest", manyEvents},
		{"a wait for a watch that is given up", "keeps the watch", watchesGivenUp},
		{"data that the server refuses", "loses the connection", tooMuchData},
		{"a reply that does not come", "blocks", noReply},
		{"a frame too short for a header", "waits for ever", repliedWith(func(int32) []byte { return []byte{0, 0, 0, 2, 1, 1} })},
		{"the reply to another request", "waits for ever", repliedWith(func(xid int32) []byte { return replyFrame(xid-1, 0, nil) })},
		{"a reply above the limit", "loses the connection at every try", tooLongAList},
	}
	require.Len(t, tests, 17)
	for i, test := range tests {
		t.Run(fmt.Sprintf("%d %s", i+1, test.does), func(t *testing.T) {
			t.Logf("go-zookeeper v1.0.4: %s", test.there)
			withinBounds(t, test.test)
		})
	}
}

// inTime returns a context that a call to a bad server must not need.
func inTime(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// answeredWith is a server that says the same to whoever connects.
func answeredWith(says []byte) func(*testing.T) {
	return func(t *testing.T) {
		addr, connections := babbler(t, says)
		neverConnects(t, addr, connections)
	}
}

func anHTTPServer(t *testing.T) {
	var connections atomic.Int64
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	neverConnects(t, strings.TrimPrefix(server.URL, "http://"), &connections)
}

// childrenAnswered calls Children once, is answered as told, and returns the error.
// Then the server is itself again, and so must be the client.
func childrenAnswered(t *testing.T, says func(xid int32) []byte) error {
	t.Helper()
	server := zktest.NewServer(t)
	f := zktest.Client(t, server.Addr(), framework.WithRetryPolicy(retry.None()))
	remove := server.Intercept(func(r zkserver.Request) zkserver.Fault {
		if r.Op == zkserver.OpGetChildren2 {
			return zkserver.RespondWith(says(r.Xid))
		}
		return zkserver.Pass
	})
	var w *framework.Watch
	_, failure := f.Children(inTime(t), "/", framework.Watched(&w))
	require.Error(t, failure)
	require.NotErrorIs(t, failure, context.DeadlineExceeded)
	require.False(t, framework.OutcomeUnknown(failure), "a read has none")
	require.Nil(t, w)
	remove()
	require.NoError(t, f.Sync(inTime(t), "/")) // waits for the connection
	require.NoError(t, verbs["children"](inTime(t), f, "/"))
	closeInTime(t, f)
	return failure
}

// listedAs is a server whose list of names has a length that is not true.
func listedAs(count ...byte) func(*testing.T) {
	return func(t *testing.T) {
		err := childrenAnswered(t, func(xid int32) []byte { return replyFrame(xid, 0, count) })
		require.ErrorIs(t, err, framework.ErrMalformedReply)
		require.False(t, framework.Retryable(err))
	}
}

// repliedWith is a server whose reply is not one to the request.
func repliedWith(says func(xid int32) []byte) func(*testing.T) {
	return func(t *testing.T) {
		err := childrenAnswered(t, says)
		require.ErrorIs(t, err, framework.ErrConnectionLost)
		require.True(t, framework.Retryable(err))
	}
}

// huge is a server that announces a frame as long as that, in place of its connect
// reply and in place of another.
func huge(length []byte, want error) func(*testing.T) {
	return func(t *testing.T) {
		answeredWith(length)(t)
		require.ErrorIs(t, childrenAnswered(t, func(int32) []byte { return length }), want)
	}
}

func protectedNextToAShortName(t *testing.T) {
	server := zktest.NewServer(t)
	f := zktest.Client(t, server.Addr())
	ctx := inTime(t)
	mustCreate(t, f, "/a/_c_a", framework.CreatingParentsIfNeeded())
	var lost atomic.Bool
	server.Intercept(func(r zkserver.Request) zkserver.Fault {
		if r.Op == zkserver.OpCreate2 && lost.CompareAndSwap(false, true) {
			return zkserver.LoseReply
		}
		return zkserver.Pass
	})
	path := must.Get(f.Create(ctx, "/a/x", nil, framework.WithProtection()))(t)
	require.True(t, lost.Load())
	names := must.Get(f.Children(ctx, "/a"))(t)
	_, name := framework.SplitPath(path)
	require.ElementsMatch(t, []string{"_c_a", name}, names)
	closeInTime(t, f)
}

// pausedOneByOne pauses the server that the client is connected to, again and again,
// while the others are healthy: the session goes on at one of them each time.
func pausedOneByOne(t *testing.T) {
	inMemory(t, func(t *testing.T, n *memnet) {
		servers := &pausable{n: n}
		f := must.Get(framework.New("a:1,b:1,c:1", framework.WithDialer(servers.dial), framework.WithSessionTimeout(memSession)))(t)
		states := recordStates(f)
		require.NoError(t, f.Start())
		states.expect(t, framework.Connected)
		session := f.Session()
		for range 20 {
			servers.pauseCurrent()
			require.NoError(t, verbs["get"](inTime(t), f, "/"))
			states.expect(t, framework.Suspended, framework.Reconnected)
			require.Same(t, session, f.Session())
			require.NoError(t, session.Err())
		}
		states.none(t)
		closeInTime(t, f)
	})
}

func manyEvents(t *testing.T) {
	inMemory(t, func(t *testing.T, n *memnet) {
		const outages = 4
		f, states := n.newClient(t)
		busy := make(chan struct{})
		slow := make(chan framework.ConnectionState, 2*outages+1)
		f.OnConnectionState(func(s framework.ConnectionState) {
			<-busy
			slow <- s
		})
		require.NoError(t, f.Start())
		states.expect(t, framework.Connected)
		for range outages {
			n.cut()
			states.expect(t, framework.Suspended, framework.Reconnected)
		}
		close(busy)
		require.Equal(t, framework.Connected, <-slow)
		for range outages {
			require.Equal(t, framework.Suspended, <-slow)
			require.Equal(t, framework.Reconnected, <-slow)
		}
		closeInTime(t, f)
	})
}

func watchesGivenUp(t *testing.T) {
	server := zktest.NewServer(t)
	f := zktest.Client(t, server.Addr())
	backend := zktest.Embedded(server)
	before := backend.Counts(t)
	for range 100 {
		var data, names *framework.Watch
		must.Get(f.Get(inTime(t), "/", framework.Watched(&data)))(t)
		must.Get(f.Children(inTime(t), "/", framework.Watched(&names)))(t)
		data.Cancel()
		names.Cancel()
	}
	backend.AwaitCounts(t, before, patience)
	closeInTime(t, f)
}

func tooMuchData(t *testing.T) {
	server := zktest.NewServer(t)
	f := zktest.Client(t, server.Addr())
	states := recordStates(f)
	requests := countRequests(server)
	for range 20 {
		err := f.Set(inTime(t), "/", make([]byte, framework.DefaultMaxRequestSize))
		require.ErrorIs(t, err, framework.ErrTooLarge)
		require.False(t, framework.Retryable(err))
		require.False(t, framework.OutcomeUnknown(err))
	}
	require.Zero(t, requests())
	states.none(t)
	closeInTime(t, f)
}

func noReply(t *testing.T) {
	server := zktest.NewServer(t)
	f := zktest.Client(t, server.Addr())
	arrived := make(chan struct{})
	server.Intercept(func(r zkserver.Request) zkserver.Fault {
		if r.Op == zkserver.OpSetData {
			close(arrived)
			return zkserver.NeverAnswer
		}
		return zkserver.Pass
	})
	ctx, cancel := context.WithCancelCause(inTime(t))
	go func() {
		<-arrived
		server.Pause() // so that nothing else is answered either
		cancel(errWhy)
	}()
	err := f.Set(ctx, "/", nil)
	require.ErrorIs(t, err, errWhy)
	require.True(t, framework.OutcomeUnknown(err))
	closeInTime(t, f)
	server.Resume()
}

func tooLongAList(t *testing.T) {
	server := zktest.NewServer(t)
	f := zktest.Client(t, server.Addr(), framework.WithMaxReplySize(1024),
		framework.WithRetryPolicy(retry.NTimes(3, time.Millisecond)))
	states := recordStates(f)
	for i := range 30 {
		mustCreate(t, f, fmt.Sprintf("/%030d", i))
	}
	_, err := f.Children(inTime(t), "/")
	require.ErrorIs(t, err, framework.ErrTooLarge)
	require.ErrorContains(t, err, "at most 1024")
	require.False(t, framework.Retryable(err), "it would be as large once more")
	require.NoError(t, f.Sync(inTime(t), "/"))
	states.none(t)
	closeInTime(t, f)
}
