// SPDX-License-Identifier: Apache-2.0

package zktest_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// A client of a follower that lags does not see what another client has just written, until it syncs.
func TestEmbeddedEnsembleFollowerLags(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		servers := zktest.NewEmbeddedEnsemble(t, 3, zkserver.WithoutListener())
		behind := servers.Followers()[0]
		writer, reader := zktest.Client(t, servers.Leader()), zktest.Client(t, behind)
		servers.Lag(behind, time.Second, 0)

		must.Get(writer.Create(t.Context(), "/config", []byte("new")))(t)
		_, err := reader.Get(t.Context(), "/config")
		require.ErrorIs(t, err, framework.ErrNoNode)
		require.NoError(t, reader.Sync(t.Context(), "/config"))
		must.Get(reader.Get(t.Context(), "/config"))(t)
	})
}

// A client that knows all servers keeps its session when the leader is gone.
func TestEmbeddedEnsembleClientMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		servers := zktest.NewEmbeddedEnsemble(t, 3, zkserver.WithoutListener())
		client := zktest.Client(t, servers)
		session := client.Session()
		require.NoError(t, servers.Leader().Stop())
		_, err := client.Exists(t.Context(), "/") // repeated until a server answers
		require.NoError(t, err)
		require.Equal(t, session.ID(), client.Session().ID())
	})
}
