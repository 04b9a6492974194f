package main

import (
	"net"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// told is closed when whatever is held on the session has ended.
func told(session *framework.Session) <-chan struct{} {
	return session.Context(framework.StandardErrorPolicy).Done()
}

func TestKillSession(t *testing.T) {
	server := zktest.NewServer(t)
	client := zktest.Client(t, server.Addr())
	before := client.Session()
	_, err := client.Create(t.Context(), "/ephemeral", nil, framework.WithMode(framework.Ephemeral))
	require.NoError(t, err)

	require.NoError(t, killSession(t.Context(), client, told(before)))
	require.Zero(t, server.Stats().Ephemerals, "they are gone when killSession returns")
	<-before.Done()
	require.ErrorIs(t, before.Err(), framework.ErrSessionExpired)

	require.NoError(t, killSessionAt(t.Context(), server.Addr(), before.ID(), before.Password(), nil), "it has ended already")
	err = killSessionAt(t.Context(), server.Addr(), before.ID(), []byte("short"), nil)
	require.EqualError(t, err, "a password of 5 bytes, expected 16")
}

func TestKillSessionNamesTheServersThatDoNotAnswer(t *testing.T) {
	server := zktest.NewServer(t)
	client := zktest.Client(t, server.Addr())
	require.NoError(t, server.Stop())
	err := killSession(t.Context(), client, nil)
	require.ErrorContains(t, err, "at "+server.Addr()+": ")
	var refused *net.OpError
	require.ErrorAs(t, err, &refused)
}

// The session is not closed before its holder is told, however often it must be
// taken over until then.
func TestKillSessionTellsTheHolderFirst(t *testing.T) {
	server := zktest.NewServer(t)
	client := zktest.Client(t, server.Addr())
	before := client.Session()
	holder := make(chan struct{})
	const deaf = 3 // times that the session moves, to and fro
	taken := 0     // hooks do not overlap
	var tooEarly atomic.Bool
	server.Intercept(func(r zkserver.Request) zkserver.Fault {
		switch {
		case r.SessionID != before.ID():
		case r.Op == zkserver.OpCreateSession:
			if taken++; taken == deaf {
				close(holder)
			}
		case r.Op == zkserver.OpCloseSession:
			tooEarly.CompareAndSwap(false, taken < deaf)
		}
		return zkserver.Pass
	})
	err := killSessionAt(t.Context(), server.Addr(), before.ID(), before.Password(), holder)
	require.EqualError(t, err, "took the session over, and its holder did not notice within 300ms")
	require.NoError(t, before.Err())
	require.NoError(t, killSession(t.Context(), client, holder))
	<-before.Done()
	require.False(t, tooEarly.Load())
}

// The server closes the session, but its answer does not arrive.
func TestKillSessionWhoseAnswerIsLost(t *testing.T) {
	server := zktest.NewServer(t)
	client := zktest.Client(t, server.Addr())
	before := client.Session()
	server.Intercept(func(r zkserver.Request) zkserver.Fault {
		if r.Op == zkserver.OpCloseSession && r.SessionID == before.ID() {
			return zkserver.LoseReply
		}
		return zkserver.Pass
	})
	require.NoError(t, killSession(t.Context(), client, told(before)))
	<-before.Done()
}

// The client is faster, and takes its session back before it is closed.
func TestKillSessionTriesAgain(t *testing.T) {
	server := zktest.NewServer(t)
	client := zktest.Client(t, server.Addr())
	before := client.Session()
	lost := 0 // hooks do not overlap
	server.Intercept(func(r zkserver.Request) zkserver.Fault {
		if r.Op == zkserver.OpCloseSession && r.SessionID == before.ID() && lost < killRounds-5 {
			lost++
			return zkserver.LoseRequest
		}
		return zkserver.Pass
	})
	require.NoError(t, killSession(t.Context(), client, told(before)))
	<-before.Done()
}

// The holder's server is one of three, and not always the first to be tried.
func TestKillSessionFindsTheServerOfTheHolder(t *testing.T) {
	if testing.Short() {
		t.Skip("needs ZooKeeper")
	}
	e := zktest.NewEnsemble(t, 3)
	observer := zktest.Client(t, e.ConnectString())
	for range 5 {
		client := zktest.Client(t, e.ConnectString())
		_, err := client.Create(t.Context(), "/ephemeral", nil, framework.WithMode(framework.Ephemeral))
		require.NoError(t, err)
		before := client.Session()
		require.NoError(t, killSession(t.Context(), client, told(before)))
		<-before.Done()
		require.NoError(t, observer.Sync(t.Context(), "/"))
		stat, err := observer.Exists(t.Context(), "/ephemeral")
		require.NoError(t, err)
		require.Nil(t, stat)
	}
}
