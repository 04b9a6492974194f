// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/guarding"
	"github.com/gocurator/curator/internal/testkit/meters"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// fakeGuard is a guard that a test plays.
type fakeGuard struct {
	t        *testing.T
	path     string
	listener net.Listener
	conn     net.Conn
}

func newFakeGuard(t *testing.T) *fakeGuard {
	t.Helper()
	folder, err := os.MkdirTemp("", "guard") //nolint:usetesting // a path with the name of a test is too long for a socket
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(folder)) })
	g := &fakeGuard{t: t, path: filepath.Join(folder, "socket")}
	g.listen()
	return g
}

func (g *fakeGuard) listen() {
	g.t.Helper()
	g.listener = must.Get(new(net.ListenConfig).Listen(g.t.Context(), guarding.Network, g.path))(g.t)
	g.t.Cleanup(g.end)
}

// end ends the guard, as its process would.
func (g *fakeGuard) end() {
	_ = g.listener.Close() // a test may have closed it
	if g.conn != nil {
		_ = g.conn.Close()
	}
}

// meet accepts a client, and its process.
func (g *fakeGuard) meet() {
	g.t.Helper()
	g.conn = must.Get(g.listener.Accept())(g.t)
	require.Zero(g.t, g.hear())
	g.answer("")
}

func (g *fakeGuard) hear() guarding.Registration {
	g.t.Helper()
	message := make([]byte, guarding.MaxMessage)
	require.NoError(g.t, g.conn.SetReadDeadline(time.Now().Add(patience)))
	n := must.Get(g.conn.Read(message))(g.t)
	r := must.Get(guarding.Decode(message[:n]))(g.t)
	return r
}

func (g *fakeGuard) answer(refusal string) {
	g.t.Helper()
	text := must.Get(json.Marshal(guarding.Answer{Refused: refusal}))(g.t)
	must.Get(g.conn.Write(text))(g.t)
}

// TestGuardHasTheSessionFirst: a session takes no call before the guard has it, and the guard has it until the session is
// closed.
func TestGuardHasTheSessionFirst(t *testing.T) {
	server := zktest.NewServer(t)
	g := newFakeGuard(t)
	client := must.Get(framework.New(server.Addr(), framework.WithGuard(g.path), framework.WithLogger(slog.New(slog.DiscardHandler))))(t)
	require.NoError(t, client.Start())
	called := make(chan error, 1)
	go func() {
		_, err := client.Create(zktest.Context(t), "/a", nil, framework.WithMode(framework.Ephemeral))
		called <- err
	}()
	g.meet()
	r := g.hear()
	require.Len(t, server.Sessions(), 1)
	require.Equal(t, server.Sessions()[0].ID, r.Session)
	require.Equal(t, server.Addr(), r.Servers)
	require.Equal(t, server.Sessions()[0].Timeout, r.Timeout)
	select { // the client waits for a second
	case err := <-called:
		require.Fail(t, "a call came before the answer", "%v", err)
	case <-time.After(100 * time.Millisecond):
	}
	g.answer("")
	require.NoError(t, zktest.Await(t, called, "the call"))
	require.Equal(t, client.Session().Password(), r.Password())

	zktest.KillSession(t, client)
	next := g.hear()
	require.NotEqual(t, r.Session, next.Session)
	g.answer("")
	require.NoError(t, client.BlockUntilConnected(zktest.Context(t)))
	require.Equal(t, client.Session().ID(), next.Session)

	require.NoError(t, client.Close())
	require.Zero(t, g.hear(), "the registration is withdrawn")
	require.Empty(t, server.Sessions())
}

// TestGuardCannotEndASessionOfKeeper: the client says so, and does not count as guarded.
func TestGuardCannotEndASessionOfKeeper(t *testing.T) {
	for guarded, opts := range map[float64][]zkserver.Option{0: {zkserver.WithKeeper()}, 1: nil} {
		g, observed := newFakeGuard(t), newObserved()
		log, said := warnings()
		client, err := framework.New(zktest.NewServer(t, opts...).Addr(), observed.options(framework.WithGuard(g.path), framework.WithLogger(log))...)
		require.NoError(t, err)
		require.NoError(t, client.Start())
		g.meet()
		require.NotZero(t, g.hear().Session, "the guard says it too, if this process is killed")
		g.answer("")
		require.NoError(t, client.BlockUntilConnected(zktest.Context(t)))
		var all []string
		require.Eventually(t, func() bool { // the client hears the guard's answer on a goroutine of its own
			value, found := 0.0, false
			for name, v := range observed.values(t) {
				if strings.HasPrefix(name, "curator.session.guarded{") {
					value, found = v, true
				}
			}
			all = append(all, said()...)
			warned := strings.Contains(strings.Join(all, "\n"), "the guard cannot end the session")
			return found && value == guarded && warned == (guarded == 0)
		}, time.Minute, 10*time.Millisecond, "guarded %v", guarded)
		require.NoError(t, client.Close())
	}
}

// TestGuardIsNoCondition: without a guard, with one that refuses and with one that does not answer, a client
// works, and warns once. It registers when the guard is there.
func TestGuardIsNoCondition(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		play   func(g *fakeGuard)
		reason string
	}{
		"there is none": {func(g *fakeGuard) { g.end() }, "no such file or directory"},
		"it refuses": {func(g *fakeGuard) {
			for range 2 {
				g.meet()
				g.hear()
				g.answer("not today")
			}
		}, "not today"},
		"it does not answer": {func(g *fakeGuard) {
			g.meet()
			g.hear()
		}, "the guard does not answer"},
		"it ends": {func(g *fakeGuard) {
			g.meet()
			g.hear()
			g.answer("")
			g.end()
		}, "the guard has ended"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := zktest.NewServer(t)
			g := newFakeGuard(t)
			played := make(chan struct{})
			go func() {
				defer close(played)
				test.play(g)
			}()
			warnings := make(chan string, 100)
			log := slog.New(slog.NewTextHandler(writerFunc(func(p []byte) (int, error) {
				warnings <- string(p)
				return len(p), nil
			}), &slog.HandlerOptions{Level: slog.LevelWarn}))
			if name == "there is none" {
				<-played
			}
			metrics := meters.New()
			client := zktest.Client(t, server, framework.WithGuard(g.path), framework.WithLogger(log), metrics.Option)
			must.Get(client.Create(zktest.Context(t), "/a", nil))(t)
			<-played
			warning := zktest.Await(t, warnings, "a warning")
			require.Contains(t, metrics.Values(t), "curator.session.guarded{}")
			require.Zero(t, metrics.Values(t)["curator.session.guarded{}"])
			require.Contains(t, warning, "the session is not registered")
			require.Contains(t, warning, test.reason)
			require.Contains(t, warning, g.path)
			g.end()
			g.listen()
			g.meet()
			require.Equal(t, client.Session().ID(), g.hear().Session)
			g.answer("")
			require.Eventually(t, func() bool { return metrics.Values(t)["curator.session.guarded{}"] == 1 }, patience, time.Millisecond)
			require.Empty(t, warnings)
		})
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// TestGuardKeepsASessionWhoseEndIsNotConfirmed: Close withdraws nothing then.
func TestGuardKeepsASessionWhoseEndIsNotConfirmed(t *testing.T) {
	server := zktest.NewServer(t)
	g := newFakeGuard(t)
	registered := make(chan guarding.Registration, 1)
	go func() {
		g.meet()
		registered <- g.hear()
		g.answer("")
	}()
	client := must.Get(framework.Connect(zktest.Context(t), server.Addr(), framework.WithGuard(g.path), framework.WithSessionTimeout(2*time.Second),
		framework.WithLogger(slog.New(slog.DiscardHandler))))(t)
	require.NotZero(t, zktest.Await(t, registered, "the registration"))
	server.Intercept(zkserver.Nth(1, zkserver.OpCloseSession, zkserver.LoseRequest))
	require.Error(t, client.Close())
	n, err := g.conn.Read(make([]byte, guarding.MaxMessage))
	require.Zero(t, n, "a withdrawal")
	require.ErrorIs(t, err, io.EOF)
}

// TestGuardOfTheEnvironment is used, unless an option names another. Neither is for a client that ends a session.
func TestGuardOfTheEnvironment(t *testing.T) {
	server := zktest.NewServer(t)
	g := newFakeGuard(t)
	t.Setenv(guarding.Env, g.path)
	registered := make(chan guarding.Registration, 1)
	go func() {
		g.meet()
		registered <- g.hear()
		g.answer("")
	}()
	elsewhere := newFakeGuard(t)
	elsewhere.end()
	zktest.Client(t, server, framework.WithGuard(elsewhere.path))
	client := zktest.Client(t, server)
	require.Equal(t, client.Session().ID(), zktest.Await(t, registered, "the registration").Session)
	require.NoError(t, framework.EndSession(zktest.Context(t), server.Addr(), client.Session().ID(), client.Session().Password()))
}

// TestEndSession ends the session of another client, whose ephemeral znodes are deleted, and no other session.
func TestEndSession(t *testing.T) {
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		client, other := zktest.Client(t, server), zktest.Client(t, server)
		ctx := zktest.Context(t)
		for _, f := range []*framework.Framework{client, other} {
			must.Get(f.Create(ctx, fmt.Sprintf("/%x", f.Session().ID()), nil, framework.WithMode(framework.Ephemeral), framework.CreatingParentsIfNeeded()))(t)
		}
		ended := client.Session()
		require.NoError(t, framework.EndSession(ctx, server.Addr(), ended.ID(), ended.Password()))
		require.Equal(t, []string{fmt.Sprintf("%x", other.Session().ID())}, must.Get(other.Children(ctx, "/"))(t))
		<-ended.Done()
		require.NoError(t, framework.EndSession(ctx, server.Addr(), ended.ID(), ended.Password()), "it has ended")
		require.NoError(t, other.Session().Err())
	})
}

// TestEndSessionFails: it says why, and names no password.
func TestEndSessionFails(t *testing.T) {
	server := zktest.NewServer(t)
	client := zktest.Client(t, server)
	session := client.Session()
	for what, end := range map[string]func() error{
		"session 0x0 with a password of 16 bytes, expected 16": func() error {
			return framework.EndSession(t.Context(), server.Addr(), 0, session.Password())
		},
		"with a password of 3 bytes, expected 16": func() error {
			return framework.EndSession(t.Context(), server.Addr(), session.ID(), []byte("abc"))
		},
		"not connected": func() error {
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			return framework.EndSession(ctx, "127.0.0.1:1", session.ID(), session.Password())
		},
	} {
		err := end()
		require.ErrorContains(t, err, what)
		require.NotContains(t, err.Error(), string(session.Password()))
		require.NotContains(t, strings.ToLower(err.Error()), fmt.Sprintf("%x", session.Password()))
	}
	require.NoError(t, session.Err())
}

// TestEndSessionTriesAgain when a server has not confirmed the end.
func TestEndSessionTriesAgain(t *testing.T) {
	for _, fault := range []zkserver.Fault{zkserver.LoseRequest, zkserver.LoseReply} {
		server := zktest.NewServer(t)
		session := zktest.Client(t, server).Session()
		server.Intercept(zkserver.Nth(1, zkserver.OpCloseSession, fault))
		require.NoError(t, framework.EndSession(zktest.Context(t), server.Addr(), session.ID(), session.Password()))
		require.False(t, server.KillSession(session.ID()))
		<-session.Done()
	}
}
