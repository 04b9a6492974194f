// SPDX-License-Identifier: Apache-2.0

package zkserver_test

import (
	"math"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/testing/zkserver"
)

// piped starts a server without a listener inside a synctest bubble and returns it with a function that connects.
func piped(t *testing.T, opts ...zkserver.Option) (*zkserver.Server, func(connection) *rawClient) {
	t.Helper()
	srv := start(t, append(opts, zkserver.WithoutListener())...)
	return srv, func(want connection) *rawClient {
		t.Helper()
		client, server := net.Pipe()
		t.Cleanup(func() { client.Close() })
		srv.ServeConn(server)
		c, err := handshake(client, want)
		require.NoError(t, err)
		return c
	}
}

// waitForEvent returns the next event without sending anything.
func waitForEvent(t *testing.T, c *rawClient) rawEvent {
	t.Helper()
	frame, err := c.read()
	require.NoError(t, err)
	r := reader{b: frame}
	require.EqualValues(t, -1, r.int(), "xid of an event")
	require.EqualValues(t, -1, r.long(), "zxid of an event")
	require.Zero(t, r.int())
	kind := r.int()
	require.EqualValues(t, 3, r.int())
	e := rawEvent{kind, r.str()}
	require.NoError(t, r.err)
	return e
}

func TestReadOnlyByteIsAnsweredOnlyIfSent(t *testing.T) {
	srv := start(t)
	for _, noReadOnly := range []bool{true, false} {
		c := rawTo(t, srv, connection{noReadOnly: noReadOnly}) // which fails on any other length
		c.must(t, 11, body{})
	}
}

func TestSessionIDsAndPasswords(t *testing.T) {
	srv := start(t)
	a, b := rawTo(t, srv, connection{}), rawTo(t, srv, connection{})
	require.Positive(t, a.session)
	require.Equal(t, a.session+1, b.session)
	require.NotEqual(t, a.password, b.password)
	require.Len(t, a.password, 16)
	var ids []int64
	for _, info := range srv.Sessions() {
		ids = append(ids, info.ID)
	}
	require.Equal(t, []int64{a.session, b.session}, ids)
}

func TestKillSession(t *testing.T) {
	srv := start(t)
	victim, observer := rawTo(t, srv, connection{}), rawTo(t, srv, connection{})
	victim.must(t, 1, createBody("/e1", "", 1))
	victim.must(t, 1, createBody("/e2", "", 1))
	victim.must(t, 4, body{}.str("/e1").flag(true))
	observer.must(t, 4, body{}.str("/e1").flag(true))
	observer.must(t, 8, body{}.str("/").flag(true))
	require.Equal(t, 2, srv.Sessions()[0].Ephemerals)

	require.True(t, srv.KillSession(victim.session))
	require.False(t, srv.KillSession(victim.session))
	require.ElementsMatch(t, []rawEvent{{2, "/e1"}, {4, "/"}}, observer.events(t))
	victim.hungUp(t)
	require.Zero(t, srv.Stats().Ephemerals)
	require.Zero(t, srv.Stats().Watches)
	root := observer.must(t, 12, body{}.str("/").flag(false))
	require.Equal(t, []string{"zookeeper"}, root.fields.strs())
	require.Equal(t, root.zxid, root.fields.stat().pzxid, "one transaction for both nodes")

	refused := rawTo(t, srv, connection{session: victim.session, password: victim.password})
	require.Zero(t, refused.session)
}

// TestRestartGivesFullTimeouts stops the server for longer than the timeout.
func TestRestartGivesFullTimeouts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, connect := piped(t)
		c := connect(connection{timeoutMs: 1000})
		time.Sleep(900 * time.Millisecond)
		require.NoError(t, srv.Stop())
		time.Sleep(time.Hour)
		require.NoError(t, srv.Restart())
		time.Sleep(999 * time.Millisecond)
		require.Equal(t, 1, srv.Stats().Sessions)
		again := connect(connection{session: c.session, password: c.password, timeoutMs: 1000})
		require.Equal(t, c.session, again.session)
		time.Sleep(1501 * time.Millisecond)
		require.Zero(t, srv.Stats().Sessions)
	})
}

func TestSessionSequenceAtItsEnd(t *testing.T) {
	next := func(c *rawClient) string {
		reply, err := c.call(1, createBody("/p/x-", "", 2))
		require.NoError(t, err)
		if reply.err != 0 {
			require.EqualValues(t, -110, reply.err)
			return "exists"
		}
		return reply.fields.str()
	}
	// What ZooKeeper 3.8.0 does was found out by changing the cversion in a snapshot of its own.
	for version, want := range map[string][]string{
		"3.8.0":  {"/p/x-2147483646", "/p/x-2147483647", "exists", "exists"},
		"3.5.10": {"/p/x-2147483646", "/p/x-2147483647", "/p/x--2147483648", "/p/x--2147483647"},
	} {
		srv := start(t, zkserver.WithVersion(version))
		c := rawTo(t, srv, connection{})
		c.must(t, 1, createBody("/p", "", 0))
		require.NoError(t, srv.SetSequence("/p", math.MaxInt32-1))
		require.Equal(t, want, []string{next(c), next(c), next(c), next(c)}, version)
	}
	srv := start(t)
	require.ErrorContains(t, srv.SetSequence("/none", 1), `zkserver: set sequence of "/none": no such node`)
}

// TestStuckSequenceFreezesPzxid is what ZooKeeper 3.8.0 was seen to do, too.
func TestStuckSequenceFreezesPzxid(t *testing.T) {
	srv := start(t)
	c := rawTo(t, srv, connection{})
	c.must(t, 1, createBody("/p", "", 0))
	require.NoError(t, srv.SetSequence("/p", math.MaxInt32))
	before := c.must(t, 3, body{}.str("/p").flag(false))
	c.must(t, 1, createBody("/p/x-", "", 2))
	c.must(t, 1, createBody("/p/y-", "", 2))
	after := c.must(t, 3, body{}.str("/p").flag(false))
	was, is := before.fields.stat(), after.fields.stat()
	require.Equal(t, was.pzxid, is.pzxid)
	require.EqualValues(t, -2, was.cversion)
	require.EqualValues(t, -4, is.cversion)
	require.EqualValues(t, 2, is.children)
}

// TestSessionPrefixesOfEphemerals: only a blank prefix, and the root, are taken without their spaces.
func TestSessionPrefixesOfEphemerals(t *testing.T) {
	c := dialed(t, start(t, zkserver.WithoutListener()), connection{})
	c.must(t, 1, createBody("/e", "", 1))
	for prefix, found := range map[string]bool{"": true, "\t ": true, " / ": true, "/e": true, " /e": false, "/e ": false, "\u2003": false} {
		reply := c.must(t, 103, body{}.str(prefix))
		require.Len(t, reply.fields.strs(), map[bool]int{true: 1, false: 0}[found], "%q", prefix)
	}
}
