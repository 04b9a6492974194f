// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/retry"
)

// TestOutagesWithBackgroundTrafficOnly: nobody but the client itself makes requests.
// Listeners are told the same as with any other traffic, and every deletion is made
// as soon as there is a connection.
//
// Curator: TestBackgroundStates, TestResetConnectionWithBackgroundFailure;
// TestFrameworkEdges.testReconnectAfterLoss, testFailure, testRetry, testBackgroundFailure,
// connectionLossWithBackgroundTest, testBackgroundLatencyUnSleep.
func TestOutagesWithBackgroundTrafficOnly(t *testing.T) {
	inMemory(t, func(t *testing.T, n *memnet) {
		f, states := n.newClient(t)
		require.NoError(t, f.Start())
		states.expect(t, framework.Connected)
		before := n.server.Stats().Znodes
		for _, outage := range []struct {
			begin func(bool)
			lasts time.Duration
			pause time.Duration // between two tries of what was sent in vain
			told  []framework.ConnectionState
		}{
			{n.setDown, time.Second, 100 * time.Millisecond, []framework.ConnectionState{framework.Suspended, framework.Reconnected}},
			{n.setDown, 2 * memSession, 100 * time.Millisecond, []framework.ConnectionState{framework.Suspended, framework.Lost, framework.Reconnected}},
			{n.setDown, time.Second, 100 * time.Millisecond, []framework.ConnectionState{framework.Suspended, framework.Reconnected}},
			{
				n.setHole, 2 * memSession, time.Second,
				[]framework.ConnectionState{framework.Suspended, framework.Lost, framework.Reconnected},
			},
		} {
			var paths []string
			for range 20 {
				paths = append(paths, mustCreate(t, f, "/n-", framework.WithMode(framework.PersistentSequential)))
			}
			outage.begin(true)
			for _, path := range paths {
				require.NoError(t, f.Delete(t.Context(), path, framework.InBackground()))
			}
			time.Sleep(outage.lasts)
			require.Equal(t, before+len(paths), n.server.Stats().Znodes)
			outage.begin(false)
			states.expect(t, outage.told...)
			time.Sleep(outage.pause)
			synctest.Wait()
			require.Equal(t, before, n.server.Stats().Znodes)
		}
		states.none(t)
	})
}

// TestOutageCalls: a call fails when the policy gives up, and says that
// nothing was sent; one that waits goes on in the moment in which the connection is
// back.
//
// Curator: TestFrameworkEdges.testReconnectAfterLoss, testFailure, testRetry,
// testBackgroundFailure, connectionLossWithBackgroundTest, testBackgroundLatencyUnSleep.
func TestOutageCalls(t *testing.T) {
	for name, verb := range verbs {
		t.Run(name, func(t *testing.T) {
			inMemory(t, func(t *testing.T, n *memnet) {
				const connection = 3 * time.Second
				brief := n.client(t, framework.WithRetryPolicy(retry.NTimes(2, time.Second)),
					framework.WithConnectionTimeout(connection))
				patient := n.client(t, framework.WithConnectionTimeout(time.Hour))
				mustCreate(t, brief, "/a")
				n.setDown(true)
				synctest.Wait()

				waiting := make(chan error, 1)
				go func() { waiting <- verb(context.Background(), patient, "/a") }()
				began := time.Now()
				err := verb(t.Context(), brief, "/a")
				require.Equal(t, 3*connection+2*time.Second, time.Since(began), "three tries")
				require.ErrorIs(t, err, framework.ErrNotConnected)
				require.False(t, framework.OutcomeUnknown(err), "%v", err)
				require.True(t, framework.Retryable(err), "%v", err)
				require.Empty(t, waiting)

				n.setDown(false)
				require.NoError(t, patient.BlockUntilConnected(t.Context()))
				back := time.Now()
				requireAnswered(t, <-waiting)
				require.Zero(t, time.Since(back))
				requireAnswered(t, verb(t.Context(), brief, "/a"))
			})
		})
	}
}

// requireAnswered checks that a call has succeeded, or failed because of the znodes
// that there are.
func requireAnswered(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, framework.ErrNodeExists) && !errors.Is(err, framework.ErrNoNode) {
		require.NoError(t, err)
	}
}
