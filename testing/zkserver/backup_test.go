// SPDX-License-Identifier: Apache-2.0

package zkserver_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/testing/zkserver"
)

// TestRestore: a backup has nodes, sessions and numbers, and may be restored more than once.
func TestRestore(t *testing.T) {
	srv := start(t)
	empty := srv.Backup()
	c := rawTo(t, srv, connection{})
	c.must(t, 1, createBody("/a", "old", 0))
	backup, sessions := srv.Backup(), srv.Sessions()
	require.ErrorContains(t, srv.Restore(backup, 0), "stop it first")
	numbers := map[int64]bool{}
	for _, epoch := range []int32{0, 0, 3} {
		c := rawTo(t, srv, connection{})
		c.must(t, 5, body{}.str("/a").str("new").int(-1))
		require.NoError(t, srv.Stop())
		require.ErrorContains(t, srv.Restore(nil, 0), "backup nil")
		require.NoError(t, srv.Restore(backup, epoch))
		require.NoError(t, srv.Restart())

		require.Equal(t, sessions[0].ID, srv.Sessions()[0].ID)
		require.Len(t, srv.Sessions(), 1)
		c = rawTo(t, srv, connection{})
		read := c.must(t, 4, body{}.str("/a").flag(false))
		require.Equal(t, "old", read.fields.str())
		written := c.must(t, 5, body{}.str("/a").str("new").int(-1))
		require.EqualValues(t, epoch, written.zxid>>32)
		numbers[written.zxid] = true
	}
	require.Len(t, numbers, 2, "the same numbers come again, but in another epoch")

	require.NoError(t, srv.Stop())
	require.NoError(t, srv.Restore(empty, 0))
	require.NoError(t, srv.Restart())
	require.Empty(t, srv.Sessions())
	require.NoError(t, srv.Close())
	require.ErrorIs(t, srv.Restore(empty, 0), zkserver.ErrClosed)
}

// TestRestoreGivesOutNoSessionOfTheBackup: servers that were made at the same instant begin with the same id.
func TestRestoreGivesOutNoSessionOfTheBackup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := start(t, zkserver.WithoutListener()), start(t, zkserver.WithoutListener())
		connect := func(srv *zkserver.Server) {
			nc, err := srv.Dial(t.Context(), "", "")
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, nc.Close()) })
			_, err = handshake(nc, connection{timeoutMs: 10_000})
			require.NoError(t, err)
		}
		connect(first)
		require.NoError(t, second.Stop())
		require.NoError(t, second.Restore(first.Backup(), 0))
		require.NoError(t, second.Restart())
		connect(second)
		require.Len(t, second.Sessions(), 2)
	})
}
