// SPDX-License-Identifier: Apache-2.0

//go:build linux

package ensemble_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/testing/ensemble"
)

// start starts an ensemble in a folder of the test and ends it with the test.
func start(t *testing.T, opts ...ensemble.Option) *ensemble.Ensemble {
	t.Helper()
	needsServers(t)
	e := must.Get(ensemble.Start(t.Context(), opts...))(t)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	return e
}

func needsServers(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: this test starts Java processes")
	}
}

// connect returns a client with a session on one of the given servers.
func connect(t *testing.T, servers ...string) *zk.Conn {
	t.Helper()
	return connectBy(t, net.DialTimeout, servers...)
}

// connectBy is connect with a dialer.
func connectBy(t *testing.T, dial zk.Dialer, servers ...string) *zk.Conn {
	t.Helper()
	session := make(chan struct{}, 1)
	conn, _, err := zk.Connect(servers, time.Minute, zk.WithLogger(silent{}), zk.WithDialer(dial), zk.WithEventCallback(func(event zk.Event) {
		if event.State == zk.StateHasSession {
			select {
			case session <- struct{}{}:
			default: // a reconnect; the first one is what connect waits for
			}
		}
	}))
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	select {
	case <-session:
	case <-time.After(30 * time.Second):
		require.FailNow(t, "no session", "servers %v", servers)
	}
	return conn
}

type silent struct{}

func (silent) Printf(string, ...any) {}

// step is one of several things to see at the same servers.
type step struct {
	name string
	run  func(t *testing.T, e *ensemble.Ensemble)
}

func inTurn(t *testing.T, e *ensemble.Ensemble, steps ...step) {
	t.Helper()
	for _, s := range steps {
		if !t.Run(s.name, func(t *testing.T) { s.run(t, e) }) {
			return // the next one builds on it
		}
	}
}

func TestEnsembleStandalone(t *testing.T) {
	t.Parallel()
	e := start(t, ensemble.WithTick(250*time.Millisecond), ensemble.WithConfig("maxSessionTimeout", "54321"),
		ensemble.WithProperty("zookeeper.snapCount", "4321"), ensemble.WithJVMFlags("-Xmx80m"), ensemble.WithSuperDigest("super", "secret"),
		ensemble.WithSASLUsers(map[string]string{"alice": "wonderland"}))
	inTurn(t, e,
		step{"mntr tells what it holds", mntrTells},
		step{"it leads itself", leadsItself},
		step{"it has what options say", hasItsOptions},
		step{"it listens on loopback only", listensOnLoopback},
		step{"a super user reads all", knowsTheSuperUser},
		step{"users of SASL change with a start", usersChange},
		step{"containers and TTL nodes vanish", containersVanish},
		step{"paused it accepts and says nothing", pausedAccepts},
		step{"killed it keeps address and data", killedKeepsData},
		step{"Stop ends it", stopEndsIt},
		step{"Pause takes one that runs", pauseTakesOneThatRuns},
		step{"its port is taken", portIsTaken},
	)
}

func leadsItself(t *testing.T, e *ensemble.Ensemble) {
	require.Len(t, e.Servers(), 1)
	server := e.Server(0)
	require.Equal(t, 1, server.ID())
	require.Equal(t, server.Addr(), e.ConnectString())
	require.Nil(t, e.Network())
	require.Nil(t, server.Host())

	require.Equal(t, ensemble.ModeStandalone, must.Get(server.Mode(t.Context()))(t))
	require.Same(t, server, must.Get(e.Leader(t.Context()))(t))
	require.Empty(t, must.Get(e.Followers(t.Context()))(t))
	_, err := e.Add(t.Context())
	require.ErrorContains(t, err, "expected WithSize(3) or more")
}

func containersVanish(t *testing.T, e *ensemble.Ensemble) {
	conn := connect(t, e.ConnectString())
	acl := zk.WorldACL(zk.PermAll)
	must.Get(conn.CreateContainer("/container", nil, zk.FlagContainer, acl))(t)
	must.Get(conn.Create("/container/child", nil, 0, acl))(t)
	require.NoError(t, conn.Delete("/container/child", -1))
	must.Get(conn.CreateTTL("/ttl", nil, zk.FlagTTL, acl, 100*time.Millisecond))(t)

	for _, path := range []string{"/container", "/ttl"} {
		require.Eventually(t, func() bool {
			exists, _, err := conn.Exists(path)
			return err == nil && !exists
		}, 30*time.Second, 10*time.Millisecond, path)
	}
}

func hasItsOptions(t *testing.T, e *ensemble.Ensemble) {
	server := e.Server(0)
	conf := must.Get(server.FourLetterWord(t.Context(), "conf"))(t)
	require.Contains(t, conf, "tickTime=250\n")
	require.Contains(t, conf, "maxSessionTimeout=54321\n")
	require.Contains(t, must.Get(server.FourLetterWord(t.Context(), "envi"))(t), "java.version=")
	require.Contains(t, commandLine(t, server.PID()), "-Dzookeeper.snapCount=4321")
	require.Empty(t, server.SecureAddr(), "which only WithTLS gives")
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
		require.True(t, strings.HasPrefix(server.DataDir(), "/dev/shm/"), server.DataDir())
	}
	for _, word := range []string{"", "srv", "srvr\n", "SRVR", "srvrs"} {
		_, err := server.FourLetterWord(t.Context(), word)
		require.ErrorContains(t, err, "expected four lower case letters")
	}
}

func listensOnLoopback(t *testing.T, e *ensemble.Ensemble) {
	for _, server := range e.Servers() {
		host, port, err := net.SplitHostPort(server.Addr())
		require.NoError(t, err)
		require.Equal(t, "127.0.0.1", host)
		_, err = net.Dial("tcp", net.JoinHostPort("127.0.0.2", port)) // would reach a server that listens on all addresses
		require.ErrorIs(t, err, syscall.ECONNREFUSED)
	}
}

func knowsTheSuperUser(t *testing.T, e *ensemble.Ensemble) {
	server := e.Server(0)
	owner := connect(t, server.Addr())
	require.NoError(t, owner.AddAuth("digest", []byte("owner:password")))
	_, err := owner.Create("/private", []byte("data"), 0, zk.AuthACL(zk.PermAll))
	require.NoError(t, err)

	for password, want := range map[string]error{"wrong": zk.ErrNoAuth, "secret": nil} {
		conn := connect(t, server.Addr())
		require.NoError(t, conn.AddAuth("digest", []byte("super:"+password)))
		_, _, err = conn.Get("/private")
		require.Equal(t, want, err)
	}
}

func usersChange(t *testing.T, e *ensemble.Ensemble) {
	connect := func(password string) error {
		client, err := framework.Connect(t.Context(), e.ConnectString(), framework.WithSASL(framework.DigestMD5("alice", password)))
		if err == nil {
			err = client.Close()
		}
		return err
	}
	require.NoError(t, connect("wonderland"))
	require.NoError(t, e.SetSASLUsers(map[string]string{"alice": "looking-glass"}))
	require.NoError(t, e.Server(0).Restart(t.Context()))
	require.NoError(t, connect("looking-glass"))
	require.ErrorIs(t, connect("wonderland"), framework.ErrAuthFailed)
}

func TestEnsembleQuorum(t *testing.T) {
	t.Parallel()
	needsServers(t)
	parent := t.TempDir()
	e := start(t, ensemble.WithSize(3), ensemble.WithDir(parent), ensemble.WithFsync(true))
	inTurn(t, e,
		step{"one leads and two follow", oneLeads},
		step{"they listen on loopback only", listensOnLoopback},
		step{"they are in sync if all run", inSyncIfAllRun},
		step{"survivors elect another leader", survivorsElect},
		step{"a paused leader is replaced", pausedLeaderIsReplaced},
		step{"a power cut loses nothing", powerCutLosesNothing},
		step{"one alone does not serve", oneAloneDoesNotServe},
		step{"Close leaves nothing", func(t *testing.T, e *ensemble.Ensemble) { closeLeavesNothing(t, e, parent) }},
	)
}

func oneLeads(t *testing.T, e *ensemble.Ensemble) {
	require.Len(t, strings.Split(e.ConnectString(), ","), 3)

	leader := must.Get(e.Leader(t.Context()))(t)
	followers := must.Get(e.Followers(t.Context()))(t)
	require.ElementsMatch(t, e.Servers(), append(followers, leader))
	for _, server := range followers {
		require.Equal(t, ensemble.ModeFollower, must.Get(server.Mode(t.Context()))(t))
	}

	must.Get(connect(t, followers[0].Addr()).Create("/a", []byte("data"), 0, zk.WorldACL(zk.PermAll)))(t)
	requireData(t, connect(t, followers[1].Addr()))
}

// requireData reads what oneLeads has written.
func requireData(t *testing.T, conn *zk.Conn) {
	t.Helper()
	must.Get(conn.Sync("/a"))(t)
	data, _, err := conn.Get("/a")
	require.NoError(t, err)
	require.Equal(t, "data", string(data))
}

func inSyncIfAllRun(t *testing.T, e *ensemble.Ensemble) {
	require.NoError(t, e.AwaitSync(t.Context()))
	followers := must.Get(e.Followers(t.Context()))(t)
	require.NoError(t, followers[0].Kill())
	missing := func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		err := e.AwaitSync(ctx)
		return err != nil && strings.Contains(err.Error(), "not all of them run")
	}
	// A server that has just been killed may still be counted, or the others may elect.
	require.Eventually(t, missing, 30*time.Second, 50*time.Millisecond)
	require.NoError(t, followers[0].Restart(t.Context()))
	require.NoError(t, e.AwaitSync(t.Context()))
}

func survivorsElect(t *testing.T, e *ensemble.Ensemble) {
	first := must.Get(e.Leader(t.Context()))(t)
	require.NoError(t, first.Kill())

	require.NotEqual(t, first.ID(), must.Get(e.Leader(t.Context()))(t).ID())
	followers := must.Get(e.Followers(t.Context()))(t)
	require.Len(t, followers, 1)

	require.NoError(t, first.Restart(t.Context()))
	followers = must.Get(e.Followers(t.Context()))(t)
	require.Contains(t, followers, first)
	require.Len(t, followers, 2)
}

func pausedLeaderIsReplaced(t *testing.T, e *ensemble.Ensemble) {
	first := must.Get(e.Leader(t.Context()))(t)
	require.NoError(t, first.Pause())
	require.NotEqual(t, first.ID(), must.Get(e.Leader(t.Context()))(t).ID())

	require.NoError(t, first.Resume())
	require.Contains(t, must.Get(e.Followers(t.Context()))(t), first)
}

func powerCutLosesNothing(t *testing.T, e *ensemble.Ensemble) {
	require.NoError(t, e.Restart(t.Context()))
	for _, server := range e.Servers() {
		requireData(t, connect(t, server.Addr()))
	}
}

func oneAloneDoesNotServe(t *testing.T, e *ensemble.Ensemble) {
	require.NoError(t, e.Server(0).Kill())
	require.NoError(t, e.Server(1).Kill())
	soon, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := e.Leader(soon)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "no settled leader")

	alone := e.Server(2)
	require.NoError(t, alone.Kill())
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	err = alone.Restart(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorIs(t, err, ensemble.ErrNotServing)
	require.NotZero(t, alone.PID(), "it is left running")
	require.Eventually(t, func() bool {
		_, err := alone.Mntr(t.Context())
		return errors.Is(err, ensemble.ErrNotServing)
	}, time.Minute, 10*time.Millisecond, "once it listens")
	require.NoError(t, e.Server(0).Restart(t.Context()))
	must.Get(e.Leader(t.Context()))(t)
}

func closeLeavesNothing(t *testing.T, e *ensemble.Ensemble, parent string) {
	require.NotEmpty(t, entries(t, parent))
	for _, server := range e.Servers() {
		require.True(t, strings.HasPrefix(server.DataDir(), parent), server.DataDir())
		require.FileExists(t, filepath.Join(server.DataDir(), "myid"))
	}
	require.NoError(t, e.Server(0).Pause())
	pids := []int{e.Server(0).PID(), e.Server(2).PID()}
	for _, pid := range pids {
		require.True(t, processExists(pid), "pid %d", pid)
	}

	require.NoError(t, e.Close())
	for _, pid := range pids {
		require.False(t, processExists(pid), "pid %d", pid)
	}
	for _, server := range e.Servers() {
		require.Zero(t, server.PID())
	}
	require.Empty(t, entries(t, parent))

	require.NoError(t, e.Close(), "a second time")
	require.ErrorIs(t, e.Server(0).Restart(t.Context()), ensemble.ErrClosed)
	require.ErrorIs(t, e.Restart(t.Context()), ensemble.ErrClosed)
	require.Empty(t, entries(t, parent))
}

func entries(t *testing.T, dir string) []string {
	t.Helper()
	names := must.Get(filepath.Glob(filepath.Join(dir, "*")))(t)
	return names
}

func TestEnsembleFailedStartShowsOutputAndLeavesNothing(t *testing.T) {
	t.Parallel()
	needsServers(t)
	parent := t.TempDir()
	_, err := ensemble.Start(t.Context(), ensemble.WithDir(parent), ensemble.WithConfig("initLimit", "many"))
	require.ErrorContains(t, err, "does not serve: it ended: exit status 2")
	require.ErrorContains(t, err, "many")
	require.Empty(t, entries(t, parent))

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = ensemble.Start(ctx, ensemble.WithDir(parent))
	require.ErrorIs(t, err, context.Canceled)
	require.Empty(t, entries(t, parent))

	_, err = ensemble.Start(t.Context(), ensemble.WithDir(filepath.Join(parent, "missing")))
	require.ErrorIs(t, err, os.ErrNotExist)
}
