// SPDX-License-Identifier: Apache-2.0

package zkserver_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/testing/zkserver"
)

// These tests are of behaviour in which ZooKeeper 3.8.0, the version that the comparison runs, differs from later ones.

func TestLaterWhoMayNotReadHearsNothing(t *testing.T) {
	srv := start(t)
	owner, other := rawTo(t, srv, connection{}), rawTo(t, srv, connection{})
	owner.must(t, 100, body{}.int(0).str("digest").str("bob:secret"))
	for _, c := range []*rawClient{owner, other} {
		c.watchMissing(t, "/private")
		c.must(t, 106, body{}.str("/").int(1))
	}
	private := body{}.str("/private").str("").acl(31, "auth", "").int(0)
	owner.must(t, 1, private)
	owner.must(t, 5, body{}.str("/private").str("x").int(-1))
	require.EqualValues(t, -102, other.code(t, 3, body{}.str("/private").flag(true)))
	owner.must(t, 2, body{}.str("/private").int(-1))
	require.Empty(t, other.events(t))

	owner.must(t, 1, createBody("/public", "", 0))
	require.Equal(t, []rawEvent{{1, "/public"}}, other.events(t))
}

func TestLaterOwnerHearsOfPrivateNodes(t *testing.T) {
	srv := start(t)
	owner := rawTo(t, srv, connection{})
	owner.must(t, 100, body{}.int(0).str("digest").str("bob:secret"))
	owner.must(t, 106, body{}.str("/private").int(0))
	created := owner.must(t, 1, body{}.str("/private").str("").acl(31, "auth", "").int(0))
	require.Equal(t, []rawEvent{{1, "/private"}}, created.events)
}

// TestWatchesOfSeveralModes has all kinds of watch on one path of one connection: one event for each change, the ones
// that stay stay, and each can be taken off alone.
func TestWatchesOfSeveralModes(t *testing.T) {
	srv := start(t)
	c, writer := rawTo(t, srv, connection{}), rawTo(t, srv, connection{})
	writer.must(t, 1, createBody("/a", "", 0))
	change := func() []rawEvent {
		writer.must(t, 5, body{}.str("/a").str("x").int(-1))
		return c.events(t)
	}
	changed := []rawEvent{{3, "/a"}}
	c.must(t, 106, body{}.str("/a").int(0))
	c.must(t, 106, body{}.str("/a").int(1))
	c.must(t, 106, body{}.str("/a").int(1))
	c.must(t, 4, body{}.str("/a").flag(true))
	require.Equal(t, changed, change(), "one event for three watches")
	require.EqualValues(t, -121, c.code(t, 17, body{}.str("/a").int(2)), "the one of getData has fired")

	c.must(t, 8, body{}.str("/a").flag(true))
	c.must(t, 17, body{}.str("/a").int(4))
	c.must(t, 18, body{}.str("/a").int(4))
	require.EqualValues(t, -121, c.code(t, 18, body{}.str("/a").int(4)))
	require.Equal(t, changed, change(), "the recursive one is left")
	c.must(t, 18, body{}.str("/a").int(5))
	require.Empty(t, change())

	writer.must(t, 1, createBody("/a/b", "", 0))
	require.Equal(t, []rawEvent{{4, "/a"}}, c.events(t), "the one of getChildren is left")
	require.Zero(t, srv.Stats().Watches)
}

func TestLaterDeletionIsToldOnce(t *testing.T) {
	srv := start(t)
	c := rawTo(t, srv, connection{})
	c.must(t, 1, createBody("/a", "", 0))
	c.must(t, 4, body{}.str("/a").flag(true))
	c.must(t, 8, body{}.str("/a").flag(true))
	c.must(t, 106, body{}.str("/a").int(0))
	c.must(t, 106, body{}.str("/").int(1))
	require.Equal(t, []rawEvent{{2, "/a"}}, c.must(t, 2, body{}.str("/a").int(-1)).events)
}

func TestLaterCreate2InMulti(t *testing.T) {
	c := rawTo(t, start(t), connection{})
	reply := c.must(t, 14, multiOf(15, createBody("/a", "four", 0), 15, createBody("/s-", "", 3)))
	st := &stage{clients: map[string]*rawClient{"c": c}, base: reply.zxid}
	require.Equal(t, "{15 false 0}/a"+
		"stat{c +0 m +0 p +0 v 0 cv 0 av 0 owner none len 4 children 0} {15 false 0}/s-0000000001"+
		"stat{c +0 m +0 p +0 v 0 cv 0 av 0 owner c len 0 children 0} {-1 true -1}",
		results(st, &reply.fields))
}

// TestLaterCheckAlone is answered here with a Stat; Apache ZooKeeper fails on its own reply and sends none.
func TestLaterCheckAlone(t *testing.T) {
	c := rawTo(t, start(t), connection{})
	c.must(t, 1, createBody("/a", "", 0))
	reply := c.must(t, 13, body{}.str("/a").int(0))
	require.Zero(t, reply.fields.stat().version)
	require.EqualValues(t, -103, c.code(t, 13, body{}.str("/a").int(1)))
	require.EqualValues(t, -101, c.code(t, 13, body{}.str("/none").int(-1)))
}

// TestLaterNullsAndLyingCounts are requests that say they are longer than they are, or that leave out what must be there.
func TestLaterNullsAndLyingCounts(t *testing.T) {
	c := rawTo(t, start(t), connection{})
	for name, tt := range map[string]struct {
		op   int32
		body body
	}{
		"null path":          {3, body{}.null().flag(false)},
		"null watches":       {101, body{}.long(0).null().null().null()},
		"huge watches":       {101, body{}.long(0).int(1 << 30).null().null()},
		"huge acl":           {1, body{}.str("/x").str("").int(1 << 30).int(0)},
		"negative acl":       {1, body{}.str("/x").str("").int(-5).int(0)},
		"long data":          {5, body{}.str("/x").int(1 << 30).int(-1)},
		"negative data":      {5, body{}.str("/x").int(-7).int(-1)},
		"cut multi":          {14, body{}.int(2).flag(false).int(-1).str("/x")},
		"multi without end":  {14, body{}.int(2).flag(false).int(-1).str("/x").int(-1)},
		"read in multiWrite": {22, multiOf(2, body{}.str("/x").int(-1))},
	} {
		require.EqualValues(t, -5, c.code(t, tt.op, tt.body), name)
	}
	require.EqualValues(t, -114, c.code(t, 1, body{}.str("/x").str("").acl(31, "", "").int(0)), "an ACL of nobody")
	c.must(t, 11, body{})
}

// TestLaterComparisonWithAServerThatHangsUp plays a program to two servers, one of which does not know a request and hangs up:
// the comparison tells the difference and goes on.
func TestLaterComparisonWithAServerThatHangsUp(t *testing.T) {
	newer := newSubject(t, "3.8.0", start(t).Addr())
	older := newSubject(t, "3.5.10", start(t, zkserver.WithVersion("3.5.10")).Addr())
	ask := func(op int32, b body) action {
		return action{client: "a", does: asks, request: request{op: op, body: b}}
	}
	p := program{root: "/p", actions: []action{
		ask(106, body{}.str("/p").int(0)), // addWatch
		ask(3, body{}.str("/p").flag(false)),
	}}
	difference := lockstep(t, p, newer, older)
	require.Contains(t, difference, "code -6")
	require.Empty(t, lockstep(t, program{root: "/q", actions: p.actions[1:]}, newer, older))

	c := rawTo(t, start(t), connection{})
	c.hangUp()
	_, err := c.call(opPing, body{})
	require.True(t, ended(err), "%v", err)
	_, err = c.receive()
	require.True(t, ended(err), "%v", err)
}
