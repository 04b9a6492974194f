// SPDX-License-Identifier: Apache-2.0

package zkserver_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/testing/zkserver"
)

// TestKeeper: each difference from ZooKeeper that WithKeeper lists.
func TestKeeper(t *testing.T) {
	srv := must.Get(zkserver.Start(zkserver.WithKeeper()))(t)
	t.Cleanup(func() { require.NoError(t, srv.Close()) })
	c := rawTo(t, srv, connection{})
	parent := func() stat {
		r := c.must(t, int32(zkserver.OpExists), body{}.str("/a").flag(false))
		return r.fields.stat()
	}
	c.must(t, int32(zkserver.OpCreate), body{}.str("/a").str("").open().int(0))
	r := c.must(t, int32(zkserver.OpCreate2), body{}.str("/a/b").str("data").open().int(0))
	require.Equal(t, "/a/b", r.fields.str())
	require.Zero(t, r.fields.stat().dataLength)
	made := parent()
	c.must(t, int32(zkserver.OpSetData), body{}.str("/a/b").str("more").int(-1))
	require.Equal(t, made.cversion+1, parent().cversion)
	c.must(t, int32(zkserver.OpDelete), body{}.str("/a/b").int(-1))
	require.Equal(t, made.cversion+2, parent().cversion)
	require.Equal(t, made.pzxid, parent().pzxid)
	require.Zero(t, parent().children)

	r = c.must(t, int32(zkserver.OpAddWatch), body{}.str("/a").int(0))
	require.Empty(t, r.fields.b)
	again := rawTo(t, srv, connection{session: c.session, password: c.password})
	require.NotEqual(t, c.session, again.session)
	require.NotZero(t, again.session)

	for _, op := range []zkserver.OpCode{zkserver.OpCreateContainer, zkserver.OpCreateTTL, zkserver.OpGetEphemerals, zkserver.OpGetAllChildrenNumber, zkserver.OpWhoAmI} {
		c := rawTo(t, srv, connection{})
		_, err := c.call(int32(op), body{}.str("/c").str("").open().int(4).long(1))
		require.True(t, ended(err), "%v: %v", op, err)
	}
	require.Contains(t, must.Get(srv.FourLetterWord(t.Context(), "srvr"))(t), "ClickHouse Keeper version: v")
}
