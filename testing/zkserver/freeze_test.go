// SPDX-License-Identifier: Apache-2.0

package zkserver_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFreezeFrozenReadsSeeThePast(t *testing.T) {
	srv := start(t)
	old, frozen := rawTo(t, srv, connection{}), rawTo(t, srv, connection{})
	old.must(t, 1, createBody("/lock", "", 0))
	old.must(t, 1, createBody("/lock/old", "x", 1))
	thaw := srv.FreezeReads(frozen.session)
	require.True(t, srv.KillSession(old.session))

	children := func(c *rawClient) []string {
		reply := c.must(t, 8, body{}.str("/lock").flag(false))
		return reply.fields.strs()
	}
	read := frozen.must(t, 4, body{}.str("/lock/old").flag(false))
	require.Equal(t, `data "x"`, data(nil, &read.fields))
	require.Equal(t, old.session, read.fields.stat().owner)
	require.Equal(t, []string{"old"}, children(frozen))
	frozen.must(t, 9, body{}.str("/lock"))
	require.Equal(t, []string{"old"}, children(frozen), "sync does not help")
	live := rawTo(t, srv, connection{})
	require.Empty(t, children(live))
	require.Greater(t, live.must(t, 11, body{}).zxid, frozen.must(t, 11, body{}).zxid)

	// Writes are those of the present.
	require.EqualValues(t, -101, frozen.code(t, 2, body{}.str("/lock/old").int(-1)))
	written := frozen.must(t, 1, createBody("/lock/new", "", 0))
	require.Equal(t, []string{"old"}, children(frozen))
	require.Equal(t, []string{"new"}, children(live))
	later := frozen.must(t, 11, body{})
	require.Equal(t, written.zxid, later.zxid, "what a client has seen never goes back")

	thaw()
	thaw()
	require.Equal(t, []string{"new"}, children(frozen))
}

func TestFreezeFrozenWatchesComeLate(t *testing.T) {
	srv := start(t)
	frozen, writer := rawTo(t, srv, connection{}), rawTo(t, srv, connection{})
	for _, p := range []string{"/data", "/gone", "/again", "/parent", "/still", "/before"} {
		writer.must(t, 1, createBody(p, "", 0))
	}
	frozen.must(t, 4, body{}.str("/before").flag(true))
	thaw := srv.FreezeReads(0)

	// Set after the change, on what was before it.
	writer.must(t, 5, body{}.str("/data").str("x").int(-1))
	writer.must(t, 2, body{}.str("/gone").int(-1))
	writer.must(t, 2, body{}.str("/again").int(-1))
	writer.must(t, 1, createBody("/again", "", 0))
	writer.must(t, 1, createBody("/parent/x", "", 0))
	writer.must(t, 1, createBody("/new", "", 0))
	frozen.must(t, 4, body{}.str("/data").flag(true))
	frozen.must(t, 4, body{}.str("/gone").flag(true))
	frozen.must(t, 8, body{}.str("/gone").flag(true))
	frozen.must(t, 4, body{}.str("/again").flag(true))
	frozen.must(t, 8, body{}.str("/parent").flag(true))
	frozen.watchMissing(t, "/new")
	frozen.must(t, 4, body{}.str("/still").flag(true))
	// Set before the change.
	writer.must(t, 5, body{}.str("/before").str("x").int(-1))

	require.Empty(t, frozen.events(t))
	thaw()
	require.ElementsMatch(t, []rawEvent{
		{3, "/before"}, {3, "/data"}, {2, "/gone"}, {2, "/again"}, {4, "/parent"}, {1, "/new"},
	}, frozen.events(t))
	writer.must(t, 5, body{}.str("/still").str("x").int(-1))
	writer.must(t, 5, body{}.str("/data").str("y").int(-1))
	require.Equal(t, []rawEvent{{3, "/still"}}, frozen.events(t), "each watch fires once")
}

// A watch that stays, set on frozen data, reports what has happened since the freeze when that is over.
func TestFreezeFrozenPersistentWatchesComeLate(t *testing.T) {
	srv := start(t)
	frozen, writer := rawTo(t, srv, connection{}), rawTo(t, srv, connection{})
	for _, p := range []string{"/tree", "/tree/data", "/tree/gone", "/tree/again", "/tree/same", "/treeless", "/node"} {
		writer.must(t, 1, createBody(p, "", 0))
	}
	thaw := srv.FreezeReads(frozen.session)
	writer.must(t, 5, body{}.str("/tree/data").str("x").int(-1))
	writer.must(t, 2, body{}.str("/tree/gone").int(-1))
	writer.must(t, 2, body{}.str("/tree/again").int(-1))
	writer.must(t, 1, createBody("/tree/again", "", 0))
	writer.must(t, 1, createBody("/tree/new", "", 0))
	writer.must(t, 5, body{}.str("/treeless").str("x").int(-1))
	writer.must(t, 1, createBody("/node/child", "", 0))
	frozen.must(t, 106, body{}.str("/tree").int(1))
	frozen.must(t, 106, body{}.str("/tree").int(1))
	frozen.must(t, 106, body{}.str("/node").int(0))
	writer.must(t, 5, body{}.str("/tree/data").str("y").int(-1))

	require.Empty(t, frozen.events(t))
	thaw()
	require.ElementsMatch(t, []rawEvent{
		{2, "/tree/again"}, {1, "/tree/again"}, {3, "/tree/data"}, {3, "/tree/data"}, {2, "/tree/gone"}, {1, "/tree/new"}, {4, "/node"},
	}, frozen.events(t))
}
