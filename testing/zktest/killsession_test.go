// SPDX-License-Identifier: Apache-2.0

package zktest_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/testing/ensemble"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// A client that takes its session back, or an answer that is lost on the way,
// makes KillSession try again.
func TestKillSessionTriesAgain(t *testing.T) {
	for name, fault := range map[string]zkserver.Fault{
		"not closed yet": zkserver.LoseRequest,
		"closed already": zkserver.LoseReply,
	} {
		t.Run(name, func(t *testing.T) {
			server := zktest.NewServer(t)
			client := zktest.Client(t, server.Addr())
			session := client.Session()
			faults := 3 // hooks do not overlap
			server.Intercept(func(r zkserver.Request) zkserver.Fault {
				if r.Op != zkserver.OpCloseSession || r.SessionID != session.ID() || faults == 0 {
					return zkserver.Pass
				}
				faults--
				return fault
			})
			zktest.KillSession(t, client)
			<-session.Done()
			require.ErrorIs(t, session.Err(), framework.ErrSessionExpired)
		})
	}
}

// TestKillSessionInMemory reaches a server without a listener, on a fake clock.
func TestKillSessionInMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		t.Cleanup(func() { zktest.AssertClean(t, server) })
		client := zktest.Client(t, server)
		must.Get(client.Create(t.Context(), "/ephemeral", nil, framework.WithMode(framework.Ephemeral)))(t)
		session := client.Session()
		zktest.KillSession(t, client)
		require.Zero(t, server.Stats().Ephemerals, "gone when KillSession returns")
		zktest.Await(t, session.Done(), "the end of the session")
		require.ErrorIs(t, session.Err(), framework.ErrSessionExpired)
		zktest.AwaitState(t, client, framework.Reconnected)
	})
}

// TestKillSessionInANetwork reaches a server from the client's host, the only place from
// where it can be reached.
func TestKillSessionInANetwork(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a real server")
	}
	servers := zktest.NewEnsemble(t, 1, ensemble.WithNetwork())
	_, err := zktest.Client(t, zktest.Real(servers.Server(0))).Children(t.Context(), "/")
	require.ErrorIs(t, err, framework.ErrNoNode, "the chroot of a backend is made when it is used")
	client := zktest.Client(t, servers)
	session := client.Session()
	zktest.KillSession(t, client)
	zktest.Await(t, session.Done(), "the end of the session")
	require.ErrorIs(t, session.Err(), framework.ErrSessionExpired)
}
