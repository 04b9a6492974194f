// SPDX-License-Identifier: Apache-2.0

//go:build linux

package ensemble_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/testing/ensemble"
)

// start starts an ensemble in a folder of the test and ends it with the test.
func start(t *testing.T, opts ...ensemble.Option) *ensemble.Ensemble {
	t.Helper()
	needsServers(t)
	e, err := ensemble.Start(t.Context(), opts...)
	require.NoError(t, err)
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

func TestEnsembleStandalone(t *testing.T) {
	e := start(t)
	require.Len(t, e.Servers(), 1)
	server := e.Server(0)
	require.Equal(t, 1, server.ID())
	require.Equal(t, server.Addr(), e.ConnectString())

	mode, err := server.Mode(t.Context())
	require.NoError(t, err)
	require.Equal(t, ensemble.ModeStandalone, mode)
	leader, err := e.Leader(t.Context())
	require.NoError(t, err)
	require.Same(t, server, leader)
	followers, err := e.Followers(t.Context())
	require.NoError(t, err)
	require.Empty(t, followers)

	conn := connect(t, server.Addr())
	_, err = conn.Create("/a", []byte("data"), 0, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	data, _, err := conn.Get("/a")
	require.NoError(t, err)
	require.Equal(t, "data", string(data))
}

func TestEnsembleQuorumHasOneLeaderAndTwoFollowers(t *testing.T) {
	t.Parallel()
	e := start(t, ensemble.WithSize(3))
	addrs := strings.Split(e.ConnectString(), ",")
	require.Len(t, addrs, 3)

	leader, err := e.Leader(t.Context())
	require.NoError(t, err)
	followers, err := e.Followers(t.Context())
	require.NoError(t, err)
	require.ElementsMatch(t, e.Servers(), append(followers, leader))
	for _, server := range followers {
		mode, err := server.Mode(t.Context())
		require.NoError(t, err)
		require.Equal(t, ensemble.ModeFollower, mode)
	}

	_, err = connect(t, followers[0].Addr()).Create("/a", []byte("data"), 0, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	reader := connect(t, followers[1].Addr())
	_, err = reader.Sync("/a")
	require.NoError(t, err)
	data, _, err := reader.Get("/a")
	require.NoError(t, err)
	require.Equal(t, "data", string(data))
}

func TestEnsembleSurvivorsElectAnotherLeader(t *testing.T) {
	t.Parallel()
	e := start(t, ensemble.WithSize(3))
	first, err := e.Leader(t.Context())
	require.NoError(t, err)
	require.NoError(t, first.Kill())

	second, err := e.Leader(t.Context())
	require.NoError(t, err)
	require.NotEqual(t, first.ID(), second.ID())
	followers, err := e.Followers(t.Context())
	require.NoError(t, err)
	require.Len(t, followers, 1)

	require.NoError(t, first.Restart(t.Context()))
	followers, err = e.Followers(t.Context())
	require.NoError(t, err)
	require.Contains(t, followers, first)
	require.Len(t, followers, 2)
}

func TestEnsembleNoLeaderWithoutQuorum(t *testing.T) {
	t.Parallel()
	e := start(t, ensemble.WithSize(3))
	require.NoError(t, e.Server(0).Kill())
	require.NoError(t, e.Server(1).Kill())

	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := e.Leader(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "no settled leader")

	require.NoError(t, e.Restart(t.Context()))
	_, err = e.Leader(t.Context())
	require.NoError(t, err)
}

func TestEnsembleContainersAndTTLNodesVanish(t *testing.T) {
	t.Parallel()
	e := start(t)
	conn := connect(t, e.ConnectString())
	acl := zk.WorldACL(zk.PermAll)
	_, err := conn.CreateContainer("/container", nil, zk.FlagContainer, acl)
	require.NoError(t, err)
	_, err = conn.Create("/container/child", nil, 0, acl)
	require.NoError(t, err)
	require.NoError(t, conn.Delete("/container/child", -1))
	_, err = conn.CreateTTL("/ttl", nil, zk.FlagTTL, acl, 100*time.Millisecond)
	require.NoError(t, err)

	for _, path := range []string{"/container", "/ttl"} {
		require.Eventually(t, func() bool {
			exists, _, err := conn.Exists(path)
			return err == nil && !exists
		}, 30*time.Second, 10*time.Millisecond, path)
	}
}

func TestCloseLeavesNothing(t *testing.T) {
	needsServers(t)
	parent := t.TempDir()
	e, err := ensemble.Start(t.Context(), ensemble.WithSize(3), ensemble.WithDir(parent), ensemble.WithFsync(true))
	require.NoError(t, err)
	require.NotEmpty(t, entries(t, parent))
	require.NoError(t, e.Server(1).Pause())
	pids := map[int]bool{}
	for _, server := range e.Servers() {
		require.NotZero(t, server.PID())
		require.True(t, processExists(server.PID()))
		pids[server.PID()] = true
	}
	require.Len(t, pids, 3)

	require.NoError(t, e.Close())
	for pid := range pids {
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
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	require.NoError(t, err)
	return names
}

func TestEnsembleDataGoesToDirAndWithoutOneToMemory(t *testing.T) {
	t.Parallel()
	e := start(t)
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
		require.True(t, strings.HasPrefix(e.Server(0).DataDir(), "/dev/shm/"), e.Server(0).DataDir())
	}
	dir := t.TempDir()
	e = start(t, ensemble.WithDir(dir))
	require.True(t, strings.HasPrefix(e.Server(0).DataDir(), dir), e.Server(0).DataDir())
	require.FileExists(t, filepath.Join(e.Server(0).DataDir(), "myid"))
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

func TestEnsembleOptionsReachTheServer(t *testing.T) {
	t.Parallel()
	e := start(t, ensemble.WithTick(250*time.Millisecond), ensemble.WithConfig("maxSessionTimeout", "1234"),
		ensemble.WithProperty("zookeeper.snapCount", "4321"), ensemble.WithJVMFlags("-Xmx80m"))
	conf, err := e.Server(0).FourLetterWord(t.Context(), "conf")
	require.NoError(t, err)
	require.Contains(t, conf, "tickTime=250\n")
	require.Contains(t, conf, "maxSessionTimeout=1234\n")
	environment, err := e.Server(0).FourLetterWord(t.Context(), "envi")
	require.NoError(t, err)
	require.Contains(t, environment, "java.version=")
	require.Contains(t, commandLine(t, e.Server(0).PID()), "-Dzookeeper.snapCount=4321")
}

func TestServersListenOnLoopbackOnly(t *testing.T) {
	for _, size := range []int{1, 3} {
		for _, server := range start(t, ensemble.WithSize(size)).Servers() {
			host, port, err := net.SplitHostPort(server.Addr())
			require.NoError(t, err)
			require.Equal(t, "127.0.0.1", host)
			_, err = net.Dial("tcp", net.JoinHostPort("127.0.0.2", port)) // would reach a server that listens on all addresses
			require.ErrorIs(t, err, syscall.ECONNREFUSED)
		}
	}
}
