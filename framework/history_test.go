// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// TestHistoryOfServers: it goes on over lost connections, and ends with the session, and with
// servers that were restored beneath it.
func TestHistoryOfServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		f := zktest.Client(t, server)
		session, backup, history := f.Session(), server.Backup(), f.History()
		mustCreate(t, f, "/a")

		server.Cut(session.ID(), 1)
		must.Get(f.Exists(t.Context(), "/a"))(t)
		require.Equal(t, history, f.History(), "over a lost connection")

		require.NoError(t, server.Stop())
		require.NoError(t, server.Restore(backup, 1))
		require.NoError(t, server.Restart())
		require.Nil(t, must.Get(f.Exists(t.Context(), "/a"))(t), "the servers were restored")
		require.Equal(t, session, f.Session(), "and have the session")
		require.Greater(t, f.History(), history)

		history = f.History()
		require.True(t, server.KillSession(session.ID()))
		must.Get(f.Exists(t.Context(), "/a"))(t)
		require.Greater(t, f.History(), history, "with the session")
	})
}
