// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"context"
	"encoding/binary"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/testing/ensemble"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// lostReason is the reason of a context's or session's end.
func lostReason(t *testing.T, err error) framework.LostReason {
	t.Helper()
	var lost *framework.LostError
	require.ErrorAs(t, err, &lost)
	return lost.Reason
}

// Curator: TestEnabledSessionExpiredState.testReconnectWithoutExpiration.
func TestSessionShortOutageSuspendsAndResumes(t *testing.T) {
	inMemory(t, func(t *testing.T, n *memnet) {
		f, states := n.newClient(t)
		require.Equal(t, framework.NotConnected, f.State())
		require.Nil(t, f.Session())
		require.NoError(t, f.Start())
		states.expect(t, framework.Connected)
		require.Equal(t, framework.Connected, f.State())
		session := f.Session()
		require.Equal(t, memSession, session.Timeout())
		standard := session.Context(framework.StandardErrorPolicy)
		patient := session.Context(framework.SessionErrorPolicy)

		require.NoError(t, n.server.Stop())
		states.expect(t, framework.Suspended)
		require.Equal(t, framework.Suspended, f.State())
		require.Equal(t, framework.ReasonSuspended, lostReason(t, context.Cause(standard)))
		require.Error(t, session.Context(framework.StandardErrorPolicy).Err(), "suspended still")
		require.NoError(t, patient.Err())
		require.NoError(t, session.Err())

		require.NoError(t, n.server.Restart())
		states.expect(t, framework.Reconnected)
		require.Same(t, session, f.Session())
		require.NoError(t, session.Err())
		require.NoError(t, session.Context(framework.StandardErrorPolicy).Err())
		require.Error(t, standard.Err(), "what was lost stays lost")
		require.NoError(t, patient.Err())
		states.none(t)
	})
}

// Curator: TestConnectionStateManager.testSessionConnectionStateErrorPolicyWithExpirationPercent30.
func TestSessionEndsAtItsDeadline(t *testing.T) {
	for name, outage := range map[string]func(n *memnet){
		"connections refused":  func(n *memnet) { n.setDown(true) },
		"nothing gets through": func(n *memnet) { n.setHole(true) },
	} {
		t.Run(name, func(t *testing.T) {
			inMemory(t, func(t *testing.T, n *memnet) {
				f, states := n.newClient(t)
				require.NoError(t, f.Start())
				states.expect(t, framework.Connected)
				session := f.Session()
				patient := session.Context(framework.SessionErrorPolicy)
				outage(n)
				states.expect(t, framework.Suspended)
				deadline := session.Deadline()
				require.True(t, time.Now().Before(deadline), "suspended before the deadline")

				<-session.Done()
				require.Zero(t, time.Since(deadline), "lost at the deadline, neither before nor after")
				states.expect(t, framework.Lost)
				require.Equal(t, framework.ReasonLeaseEnd, lostReason(t, session.Err()))
				require.Equal(t, framework.ReasonLeaseEnd, lostReason(t, context.Cause(patient)))
				require.ErrorIs(t, session.Err(), framework.ErrSessionExpired)
				require.Equal(t, deadline, session.Deadline())
				require.Len(t, n.server.Sessions(), 1, "the server has not expired it: the client is first")

				<-time.After(memSession) // now it has
				require.Empty(t, n.server.Sessions())
				n.setHole(false)
				n.setDown(false)
				states.expect(t, framework.Reconnected)
				require.NotSame(t, session, f.Session())
				require.NotEqual(t, session.ID(), f.Session().ID())
				require.NoError(t, f.Session().Err())
				require.Equal(t, deadline, session.Deadline(), "that of a session that is over stays")
				states.none(t)
			})
		})
	}
}

// TestSessionThatLivesOnIsAnotherSession: the client has given the session up,
// the server has not.
//
// Curator: TestFrameworkEdges.testValidateConnectionEventRaces; TestSessionFailRetryLoop.testRetry,
// testBasic.
func TestSessionThatLivesOnIsAnotherSession(t *testing.T) {
	inMemory(t, func(t *testing.T, n *memnet) {
		f, states := n.newClient(t)
		require.NoError(t, f.Start())
		states.expect(t, framework.Connected)
		old := f.Session()
		must.Get(f.Create(t.Context(), "/mine", nil, framework.WithMode(framework.Ephemeral), framework.InSession(old)))(t)
		require.NoError(t, n.server.Stop()) // stops its sessions' clocks, too
		states.expect(t, framework.Suspended, framework.Lost)
		require.NoError(t, n.server.Restart())
		states.expect(t, framework.Reconnected)

		require.Equal(t, old.ID(), f.Session().ID())
		require.NotSame(t, old, f.Session())
		require.Error(t, old.Err())
		require.NoError(t, f.Session().Err())
		_, err := f.Create(t.Context(), "/more", nil, framework.InSession(old))
		require.ErrorIs(t, err, framework.ErrSessionEnded)
		require.False(t, framework.Retryable(err))
		must.Get(f.Create(t.Context(), "/more", nil, framework.InSession(f.Session())))(t)
	})
}

func TestSessionShorterTimeoutOnReconnectBringsTheDeadlineForward(t *testing.T) {
	inMemory(t, func(t *testing.T, n *memnet) {
		f, states := n.newClient(t)
		require.NoError(t, f.Start())
		states.expect(t, framework.Connected)
		session := f.Session()
		const shorter = 3 * time.Second
		remove := n.server.Intercept(func(r zkserver.Request) zkserver.Fault {
			if r.Op != zkserver.OpCreateSession {
				return zkserver.Pass
			}
			return zkserver.RespondWith(connectResponse(session, shorter))
		})
		n.cut()
		states.expect(t, framework.Suspended, framework.Reconnected)
		remove()
		require.Same(t, session, f.Session())
		require.Equal(t, shorter, session.Timeout())
		n.setHole(true)
		handshake := time.Now()
		<-session.Done()
		require.LessOrEqual(t, time.Since(handshake), shorter)
	})
}

func connectResponse(s *framework.Session, timeout time.Duration) []byte {
	b := binary.BigEndian.AppendUint32(nil, 36)
	b = binary.BigEndian.AppendUint32(b, 0)
	b = binary.BigEndian.AppendUint32(b, uint32(timeout.Milliseconds()))
	b = binary.BigEndian.AppendUint64(b, uint64(s.ID()))
	b = binary.BigEndian.AppendUint32(b, 16)
	return append(b, s.Password()...)
}

// TestSessionServerThatOnlyTalks sends events and answers nothing, as one does that the client
// cannot reach. The connection is cut as early as a silent one, and the session goes on
// over the next.
//
// Curator: TestConnectionStateManager.testSessionConnectionStateErrorPolicyWithExpirationPercent30.
func TestSessionServerThatOnlyTalks(t *testing.T) {
	inMemory(t, func(t *testing.T, n *memnet) {
		observer := n.client(t)
		f, states := n.newClient(t)
		require.NoError(t, f.Start())
		states.expect(t, framework.Connected)
		must.Get(f.AddWatch(t.Context(), "/", framework.WatchPersistentRecursive))(t)
		session := f.Session()
		heard := time.Now()
		remove := n.server.Intercept(func(r zkserver.Request) zkserver.Fault {
			if r.SessionID == session.ID() && r.Op == zkserver.OpPing {
				return zkserver.NeverAnswer
			}
			return zkserver.Pass
		})
		talk := time.NewTicker(memSession / 50)
		defer talk.Stop()
		for f.State() == framework.Connected {
			<-talk.C
			require.NoError(t, observer.Set(t.Context(), "/", nil))
		}
		remove()
		require.LessOrEqual(t, time.Since(heard), memSession*2/3+memSession/50)
		states.expect(t, framework.Suspended, framework.Reconnected)
		require.Same(t, session, f.Session())
		require.NoError(t, session.Err())
		states.none(t)
	})
}

// TestSessionEndsTheCallsBoundToIt: it does not wait for the connection timeout.
//
// Curator: TestSessionFailRetryLoop.testRetry, testBasic.
func TestSessionEndsTheCallsBoundToIt(t *testing.T) {
	for _, opts := range [][]framework.CreateOption{nil, {framework.WithProtection()}} {
		inMemory(t, func(t *testing.T, n *memnet) {
			f, states := n.newClient(t, framework.WithConnectionTimeout(time.Hour))
			require.NoError(t, f.Start())
			states.expect(t, framework.Connected)
			session := f.Session()
			n.setDown(true)
			states.expect(t, framework.Suspended)
			_, err := f.Create(t.Context(), "/a", nil, append(opts, framework.InSession(session))...)
			require.ErrorIs(t, err, framework.ErrSessionEnded)
			require.Equal(t, framework.ReasonLeaseEnd, lostReason(t, err))
			require.Zero(t, time.Since(session.Deadline()))
			_, err = f.Create(t.Context(), "/a", nil, append(opts, framework.InSession(session))...)
			require.ErrorIs(t, err, framework.ErrSessionEnded)
			require.Zero(t, time.Since(session.Deadline()), "at once")
		})
	}
}

// Curator: TestEnabledSessionExpiredState.testKillSession.
func TestSessionIsKilled(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		server.Requires(t, ensemble.ResumedSessions)
		f := must.Get(framework.New(server.ConnectString(), framework.WithSessionTimeout(10*time.Second)))(t)
		states := recordStates(f)
		require.NoError(t, f.Start())
		t.Cleanup(func() { require.NoError(t, f.Close()) })
		states.expect(t, framework.Connected)
		session := f.Session()
		must.Get(f.Create(t.Context(), "/e", nil, framework.CreatingParentsIfNeeded(), framework.WithMode(framework.Ephemeral)))(t)

		zktest.KillSession(t, f)
		states.expect(t, framework.Suspended, framework.Lost, framework.Reconnected)
		require.Equal(t, framework.ReasonSessionExpired, lostReason(t, session.Err()))
		require.NotEqual(t, session.ID(), f.Session().ID())
		require.Nil(t, must.Get(f.Exists(t.Context(), "/e"))(t))
		_, err := f.Create(t.Context(), "/e", nil, framework.InSession(session))
		require.ErrorIs(t, err, framework.ErrSessionEnded)
		states.none(t)
	})
}

func TestCloseEndsTheSession(t *testing.T) {
	inMemory(t, func(t *testing.T, n *memnet) {
		f, states := n.newClient(t)
		require.NoError(t, f.Start())
		states.expect(t, framework.Connected)
		session := f.Session()
		standard, loss := session.Context(framework.StandardErrorPolicy), session.LossContext()
		require.NoError(t, f.Close())
		require.Equal(t, framework.ReasonClosed, lostReason(t, session.Err()))
		require.NoError(t, loss.Err(), "a session that was closed is not lost")
		require.Equal(t, framework.ReasonClosed, lostReason(t, context.Cause(standard)))
		require.ErrorIs(t, session.Err(), framework.ErrClosed)
		require.Empty(t, n.server.Sessions())
		synctest.Wait()
		states.none(t)
	})
}

// TestSessionBeforeTheFirstConnection: the nil Session is one that has ended.
func TestSessionBeforeTheFirstConnection(t *testing.T) {
	s := unstarted(t).Session()
	require.Nil(t, s)
	<-s.Done()
	require.ErrorIs(t, s.Err(), framework.ErrNotConnected)
	require.Zero(t, s.ID())
	require.Zero(t, s.Timeout())
	require.Empty(t, s.Password())
	require.Zero(t, s.Deadline())
	require.Error(t, s.LossContext().Err())
	for _, policy := range []framework.ErrorPolicy{framework.StandardErrorPolicy, framework.SessionErrorPolicy, framework.QuorumErrorPolicy} {
		require.Zero(t, s.HoldDeadline(policy))
		require.ErrorIs(t, context.Cause(s.Context(policy)), framework.ErrNotConnected)
		_, _, err := s.Hold(t.Context(), policy)
		require.ErrorIs(t, err, framework.ErrNotConnected)
	}
	require.Equal(t, "none", s.String())
	require.Equal(t, "none", s.LogValue().String())
}

func TestSessionNames(t *testing.T) {
	for want, s := range map[string]framework.ConnectionState{
		"NOT_CONNECTED": framework.NotConnected, "CONNECTED": framework.Connected, "SUSPENDED": framework.Suspended,
		"RECONNECTED": framework.Reconnected, "LOST": framework.Lost, "READ_ONLY": framework.ReadOnly, "UNKNOWN": 99,
	} {
		require.Equal(t, want, s.String())
		connected := s == framework.Connected || s == framework.Reconnected || s == framework.ReadOnly
		require.Equal(t, connected, s.IsConnected())
	}
	require.Equal(t, "standard", framework.StandardErrorPolicy.String())
	require.Equal(t, "session", framework.SessionErrorPolicy.String())
	require.Equal(t, "quorum", framework.QuorumErrorPolicy.String())
	require.Equal(t, "unknown", framework.ErrorPolicy(9).String())
}
