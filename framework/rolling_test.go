// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/testing/zktest"
)

// TestServersGoOneByOne restarts each of three servers in turn, which costs no
// session, and then leaves one of them alone, which costs all.
//
// Curator: TestWithCluster.testSessionSurvives; TestWithCluster.testSplitBrain.
func TestServersGoOneByOne(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("needs three ZooKeeper servers")
	}
	servers := zktest.NewEnsemble(t, 3)
	f := zktest.Client(t, servers.ConnectString())
	session := f.Session()
	path := mustCreate(t, f, "/mine", framework.WithMode(framework.Ephemeral))
	for _, server := range servers.Servers() {
		require.NoError(t, servers.AwaitSync(t.Context()))
		require.NoError(t, server.Kill())
		require.NoError(t, server.Restart(t.Context()))
		stat := must.Get(f.Exists(t.Context(), path))(t)
		require.NotNil(t, stat)
		require.Equal(t, session.ID(), stat.EphemeralOwner)
	}
	require.Same(t, session, f.Session())

	// One without the others serves nobody, whichever the client was connected to.
	require.NoError(t, servers.AwaitSync(t.Context()))
	alone := zktest.Client(t, servers.ConnectString(), framework.WithSessionTimeout(4*time.Second))
	session, states := alone.Session(), recordStates(alone)
	require.NoError(t, servers.Server(0).Kill())
	require.NoError(t, servers.Server(2).Kill())
	<-session.Done()
	require.Equal(t, framework.ReasonLeaseEnd, lostReason(t, session.Err()))
	told := states.until(t, framework.Lost)
	for i, s := range told[:len(told)-1] { // each loss of the connection but the last was made good
		require.Equal(t, []framework.ConnectionState{framework.Suspended, framework.Reconnected}[i%2], s, "%v", told)
	}
	require.Equal(t, framework.Suspended, told[len(told)-2])
}

// until waits for a state, and returns what has been told up to it.
func (l *stateLog) until(t *testing.T, want framework.ConnectionState) []framework.ConnectionState {
	t.Helper()
	var told []framework.ConnectionState
	for !slices.Contains(told, want) {
		select {
		case s := <-l.told:
			told = append(told, s)
		case <-time.After(patience):
			require.FailNow(t, "no such state", "%v has not come within %v, but %v", want, patience, told)
		}
	}
	return told
}
