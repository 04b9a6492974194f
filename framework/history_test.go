// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
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

// TestHistoryCallThatIsBoundTwice: a call in its own session, within one of a session that has ended,
// is not sent.
func TestHistoryCallThatIsBoundTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		f := zktest.Client(t, server)
		mustCreate(t, f, "/a")
		ended := f.Session()
		err := f.Retry(t.Context(), func(ctx context.Context) error {
			require.True(t, server.KillSession(ended.ID()))
			time.Sleep(time.Minute)
			now := f.Session()
			require.NotEqual(t, ended, now)
			_, err := f.Get(ctx, "/a", framework.InSession(now))
			require.ErrorIs(t, err, framework.ErrSessionEnded)
			return f.Set(ctx, "/a", []byte("b"), framework.InSession(now))
		}, framework.InSession(ended))
		require.ErrorIs(t, err, framework.ErrSessionEnded)
		require.Empty(t, must.Get(f.Get(t.Context(), "/a"))(t))
	})
}
