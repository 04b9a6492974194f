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
	"github.com/gocurator/curator/testing/zkserver"
)

// TestExpiredMoreThanOnce: a server that goes on saying "expired" to handshakes is no
// dead end, and tells listeners nothing new.
//
// Curator: TestConnectionStateManager.testConnectionStateRecoversFromUnexpectedExpiredConnection.
func TestExpiredMoreThanOnce(t *testing.T) {
	inMemory(t, func(t *testing.T, n *memnet) {
		f, states := n.newClient(t)
		require.NoError(t, f.Start())
		states.expect(t, framework.Connected)
		session := f.Session()
		refused := 0
		n.server.Intercept(func(r zkserver.Request) zkserver.Fault {
			if r.Op != zkserver.OpCreateSession || refused == 3 {
				return zkserver.Pass
			}
			refused++
			return zkserver.FailWith(-112) // session expired
		})
		n.cut()
		states.expect(t, framework.Suspended, framework.Lost, framework.Reconnected)
		require.Equal(t, 3, refused)
		require.Equal(t, framework.ReasonSessionExpired, lostReason(t, session.Err()))
		requireUsable(t, f)
		states.none(t)
	})
}

// TestOutageLateExpiry: the server ends the session just after the client has got its
// connection back, in an outage that the client has taken for the end of the session
// or in one that it has not. The client must not go on with what is gone.
//
// Curator: TestFrameworkEdges.testValidateConnectionEventRaces.
func TestOutageLateExpiry(t *testing.T) {
	for name, c := range map[string]struct {
		outage func(t *testing.T, n *memnet)
		told   []framework.ConnectionState
	}{
		"after a short outage": {
			func(_ *testing.T, n *memnet) { n.cut() },
			[]framework.ConnectionState{framework.Suspended, framework.Reconnected},
		},
		"after the client has given the session up": {
			func(t *testing.T, n *memnet) {
				t.Helper()
				require.NoError(t, n.server.Stop()) // and with it the sessions' clocks
				time.Sleep(memSession)
				require.NoError(t, n.server.Restart())
			},
			[]framework.ConnectionState{framework.Suspended, framework.Lost, framework.Reconnected},
		},
	} {
		t.Run(name, func(t *testing.T) {
			inMemory(t, func(t *testing.T, n *memnet) {
				f, states := n.newClient(t)
				require.NoError(t, f.Start())
				states.expect(t, framework.Connected)
				id := f.Session().ID()
				c.outage(t, n)
				states.expect(t, c.told...)
				require.Equal(t, id, f.Session().ID(), "the server has it still")
				session := f.Session()
				n.server.KillSession(id)
				states.expect(t, framework.Suspended, framework.Lost, framework.Reconnected)
				require.Equal(t, framework.ReasonSessionExpired, lostReason(t, session.Err()))
				require.NotEqual(t, id, f.Session().ID())
				requireUsable(t, f)
				states.none(t)
			})
		})
	}
}

// requireUsable checks that the client works in its session.
func requireUsable(t *testing.T, f *framework.Framework) {
	t.Helper()
	var stat framework.Stat
	mustCreate(t, f, "/usable-", framework.WithMode(framework.EphemeralSequential),
		framework.InSession(f.Session()), framework.StoringStatIn(&stat))
	require.Equal(t, f.Session().ID(), stat.EphemeralOwner)
}

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

// TestOutageSlowListenerIsToldEveryState: however many have come while it was busy.
func TestOutageSlowListenerIsToldEveryState(t *testing.T) {
	inMemory(t, func(t *testing.T, n *memnet) {
		const outages = 100
		f, states := n.newClient(t)
		busy := make(chan struct{})
		slow := make(chan framework.ConnectionState, 2*outages+1)
		f.OnConnectionState(func(s framework.ConnectionState) {
			<-busy
			slow <- s
		})
		require.NoError(t, f.Start())
		states.expect(t, framework.Connected)
		for range outages {
			n.cut()
			states.expect(t, framework.Suspended, framework.Reconnected)
		}
		require.Empty(t, slow)
		close(busy)
		require.Equal(t, framework.Connected, <-slow)
		for range outages {
			require.Equal(t, framework.Suspended, <-slow)
			require.Equal(t, framework.Reconnected, <-slow)
		}
	})
}
