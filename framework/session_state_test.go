// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"context"
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/testing/zkserver"
)

// lostReason is the reason of a context's or session's end.
func lostReason(t *testing.T, err error) framework.LostReason {
	t.Helper()
	var lost *framework.LostError
	require.ErrorAs(t, err, &lost)
	return lost.Reason
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

// TestSessionOfAnotherClientIsNotCalledEnded: it lives, but this client does not have it.
func TestSessionOfAnotherClientIsNotCalledEnded(t *testing.T) {
	inMemory(t, func(t *testing.T, n *memnet) {
		clients := make([]*framework.Framework, 2)
		for i := range clients {
			f, states := n.newClient(t)
			require.NoError(t, f.Start())
			states.expect(t, framework.Connected)
			clients[i] = f
		}
		_, err := clients[0].Exists(t.Context(), "/", framework.InSession(clients[1].Session()))
		require.ErrorIs(t, err, framework.ErrSessionEnded)
		require.ErrorContains(t, err, "or it is another client's")
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
