// SPDX-License-Identifier: Apache-2.0

//go:build linux

package ensemble_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/testing/ensemble"
	"github.com/gocurator/curator/testing/zktest"
)

// TestNetwork tries what three servers with a network are for.
func TestNetwork(t *testing.T) {
	t.Parallel()
	// No session may end while a link is cut on purpose, however slow the machine.
	e := start(t, ensemble.WithSize(3), ensemble.WithNetwork(), ensemble.WithConfig("maxSessionTimeout", "60000"))
	host := must.Get(e.Network().Join("client"))(t)
	on := func(name string, run func(t *testing.T, e *ensemble.Ensemble, host *ensemble.Host)) step {
		return step{name, func(t *testing.T, e *ensemble.Ensemble) { run(t, e, host) }}
	}
	inTurn(t, e,
		on("a command runs on a host", runsInside),
		on("an isolated leader is replaced", isolatedLeaderIsReplaced),
		on("links that are cut lose in silence", cutLinksLose),
		on("Close leaves nothing", closeLeavesNoNetwork),
	)
}

// dial connects from a host to a server.
func dial(t *testing.T, from *ensemble.Host, to *ensemble.Server) (net.Conn, error) {
	t.Helper()
	return dialWithin(t, 30*time.Second, from, to)
}

// requireCut fails the test if a host can connect to a server.
func requireCut(t *testing.T, from *ensemble.Host, to *ensemble.Server) {
	t.Helper()
	_, err := dialWithin(t, 500*time.Millisecond, from, to)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func dialWithin(t *testing.T, limit time.Duration, from *ensemble.Host, to *ensemble.Server) (net.Conn, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	conn, err := from.DialContext(ctx, "tcp", to.Addr())
	if err == nil {
		t.Cleanup(func() { conn.Close() })
	}
	return conn, err
}

// connectFrom returns a client on a host, with a session on a server.
func connectFrom(t *testing.T, host *ensemble.Host, server *ensemble.Server) *zk.Conn {
	t.Helper()
	return connectBy(t, func(_, address string, timeout time.Duration) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		return host.DialContext(ctx, "tcp", address)
	}, server.Addr())
}

// cutLinksLose tries what can happen to one link.
func cutLinksLose(t *testing.T, e *ensemble.Ensemble, host *ensemble.Host) {
	network, server, other := e.Network(), e.Server(0), e.Server(1)
	require.Equal(t, "192.0.2.1:2181", server.Addr())
	require.Equal(t, "server 1 (192.0.2.1)", server.Host().String())
	require.Equal(t, "client (192.0.2.11)", host.String())
	acl := zk.WorldACL(zk.PermAll)

	t.Run("both ways", func(t *testing.T) {
		conn := must.Get(dial(t, host, server))(t)
		network.Cut(host, server.Host())
		must.Get(io.WriteString(conn, "ruok"))(t)
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(300*time.Millisecond)))
		_, err := io.ReadAll(conn)
		require.ErrorIs(t, err, os.ErrDeadlineExceeded, "neither an answer nor a reset")
		requireCut(t, host, server)
		_, err = dial(t, host, other)
		require.NoError(t, err, "other links are up")
		_, err = server.Mode(t.Context())
		require.NoError(t, err, "the ensemble can always ask")

		network.Heal(server.Host(), host)
		require.NoError(t, conn.SetReadDeadline(time.Time{}))
		require.Equal(t, "imok", string(must.Get(io.ReadAll(conn))(t)))
	})

	t.Run("one way", func(t *testing.T) {
		zoo, elsewhere := connectFrom(t, host, server), connectFrom(t, host, other)
		must.Get(elsewhere.Create("/watched", nil, 0, acl))(t)
		must.Get(zoo.Sync("/watched"))(t)
		_, _, changed, err := zoo.GetW("/watched")
		require.NoError(t, err)
		network.CutOneWay(host, server.Host())
		must.Get(elsewhere.Set("/watched", nil, -1))(t)
		require.Equal(t, zk.EventNodeDataChanged, zktest.Await(t, changed, "the event").Type, "a server that hears nothing is heard")
		network.HealAll()

		_, _, created, err := elsewhere.ExistsW("/sent")
		require.NoError(t, err)
		network.CutOneWay(server.Host(), host)
		sent := make(chan error, 1)
		go func() {
			_, err := zoo.Create("/sent", nil, 0, acl)
			sent <- err
		}()
		require.Equal(t, zk.EventNodeCreated, zktest.Await(t, created, "the event").Type, "a server that is not heard hears")
		select {
		case err := <-sent:
			require.FailNow(t, "it was answered", "%v", err)
		default:
		}
		network.HealAll()
		require.NoError(t, zktest.Await(t, sent, "the answer"))
	})

	t.Run("large packets", func(t *testing.T) {
		data := bytes.Repeat([]byte("data"), 200_000)
		must.Get(connectFrom(t, host, server).Create("/large", data, 0, acl))(t)
		elsewhere := connectFrom(t, host, other)
		must.Get(elsewhere.Sync("/large"))(t)
		read, _, err := elsewhere.Get("/large")
		require.NoError(t, err)
		require.True(t, bytes.Equal(data, read))
	})

	t.Run("slow", func(t *testing.T) {
		const delay = 60 * time.Millisecond
		network.Delay(host, server.Host(), delay)
		began := time.Now()
		must.Get(dial(t, host, server))(t)
		require.GreaterOrEqual(t, time.Since(began), 2*delay)
		network.Delay(host, server.Host(), 0)
		must.Get(dial(t, host, server))(t)
	})

	t.Run("refusals", func(t *testing.T) {
		require.NoError(t, server.Kill())
		_, err := dial(t, host, server)
		require.ErrorIs(t, err, syscall.ECONNREFUSED)
		for _, bad := range [][2]string{{"udp", "192.0.2.1:2181"}, {"tcp", "server:1"}, {"tcp", "[::1]:1"}} {
			_, err := host.DialContext(t.Context(), bad[0], bad[1])
			require.ErrorContains(t, err, "ensemble: dial "+bad[1])
		}
	})
}

// isolatedLeaderIsReplaced, is served by nobody else, and follows when it is back.
func isolatedLeaderIsReplaced(t *testing.T, e *ensemble.Ensemble, host *ensemble.Host) {
	first := must.Get(e.Leader(t.Context()))(t)
	e.Network().Isolate(first.Host(), host)
	_, err := dial(t, host, first)
	require.NoError(t, err, "on the same side")
	second := first
	require.Eventually(t, func() bool { // nobody has noticed yet
		second, err = e.Leader(t.Context())
		return err == nil && second != first
	}, 30*time.Second, 20*time.Millisecond)
	requireCut(t, host, second)

	e.Network().HealAll()
	require.Contains(t, must.Get(e.Followers(t.Context()))(t), first)
	must.Get(dial(t, host, second))(t)
}

// runsInside runs a command on a host, in its own folder and environment and under the id that it was given, and by its path
// whatever it is called.
func runsInside(t *testing.T, _ *ensemble.Ensemble, host *ensemble.Host) {
	shell := must.Get(exec.LookPath("sh"))(t)
	folder := t.TempDir()
	cmd := host.Inside(&exec.Cmd{
		Path: shell,
		Args: []string{"a name that is in no folder", "-c", `echo "$$ $PWD $VALUE $1"; ip -brief -4 address show eth0`, "sh", "one two"},
		Dir:  folder,
		Env:  append(os.Environ(), "VALUE=three"),
	})
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	require.NoError(t, cmd.Run(), "%s", said.String())
	first, second, _ := strings.Cut(said.String(), "\n")
	require.Equal(t, fmt.Sprintf("%d %s three one two", cmd.Process.Pid, folder), first)
	require.Contains(t, second, host.Addr().String()+"/24")
}

// namespaceOf is the network namespace of a process, as the kernel names it.
func namespaceOf(t *testing.T, pid int) string {
	t.Helper()
	name := must.Get(os.Readlink("/proc/" + strconv.Itoa(pid) + "/ns/net"))(t)
	return name
}

// inhabited reports whether any process, or thread, is in the namespace.
func inhabited(t *testing.T, namespace string) bool {
	t.Helper()
	threads := must.Get(filepath.Glob("/proc/[0-9]*/task/[0-9]*/ns/net"))(t)
	for _, thread := range threads {
		if name, err := os.Readlink(thread); err == nil && name == namespace {
			return true
		}
	}
	return false
}

// holdsNamespaces reports whether this process has a namespace open.
func holdsNamespaces(t *testing.T) bool {
	t.Helper()
	files := must.Get(filepath.Glob("/proc/self/fd/*"))(t)
	for _, file := range files {
		name, err := os.Readlink(file)
		if err == nil && (strings.HasPrefix(name, "net:[") || strings.HasPrefix(name, "user:[")) {
			return true
		}
	}
	return false
}

func closeLeavesNoNetwork(t *testing.T, e *ensemble.Ensemble, host *ensemble.Host) {
	conn := must.Get(dial(t, host, e.Server(1)))(t)
	namespace := namespaceOf(t, e.Server(1).PID())
	require.NotEqual(t, namespaceOf(t, os.Getpid()), namespace)
	require.True(t, holdsNamespaces(t))

	require.NoError(t, e.Close())
	require.False(t, inhabited(t, namespace))
	require.False(t, holdsNamespaces(t))
	require.NoError(t, conn.Close(), "which its owner still has")
	_, err := e.Network().Join("late")
	require.Error(t, err)
	_, err = dial(t, host, e.Server(1))
	require.Error(t, err)
	e.Network().Isolate(host)
	e.Network().HealAll()
}

// TestNetworkEndsWithTheTestProcess, whatever ends that.
func TestNetworkEndsWithTheTestProcess(t *testing.T) {
	needsServers(t)
	for name, under := range map[string][]string{
		"with user namespaces":         nil,
		"of a root that must not have": without("user"),
	} {
		t.Run(name, func(t *testing.T) {
			helper := orphanCommand(t, t.TempDir(), under...)
			helper.Env = append(helper.Env, orphanNetworkEnv+"=1")
			namespace := namespaceOf(t, startOrphan(t, helper))
			require.True(t, inhabited(t, namespace))
			require.NoError(t, helper.Process.Kill())
			require.Error(t, helper.Wait(), "killed")
			require.Eventually(t, func() bool { return !inhabited(t, namespace) }, 30*time.Second, 10*time.Millisecond)
		})
	}
}

// without is a command that runs another as root of a place where no namespaces of a kind can be made.
func without(kind string) []string {
	return []string{"unshare", "--map-root-user", "sh", "-c", "echo 0 >/proc/sys/user/max_" + kind + "_namespaces && exec $0"}
}

func TestNetworkNeedsTools(t *testing.T) {
	needsServers(t)
	java := must.Get(exec.LookPath("java"))(t)
	t.Setenv("PATH", t.TempDir())
	_, err := ensemble.Start(t.Context(), ensemble.WithJava(java), ensemble.WithNetwork())
	require.ErrorIs(t, err, ensemble.ErrNotInstalled)
	require.ErrorContains(t, err, "install iproute2 (Debian)")
}

// TestNetworkNeedsNamespaces runs a process that may not make any.
func TestNetworkNeedsNamespaces(t *testing.T) {
	needsServers(t)
	cmd := orphanCommand(t, t.TempDir(), without("net")...)
	cmd.Env = append(cmd.Env, orphanNetworkEnv+"=1")
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	require.Error(t, cmd.Run())
	require.Contains(t, said.String(), fmt.Sprintf("%v: ", ensemble.ErrNoNamespaces))
	require.Contains(t, said.String(), "no space left on device")
}
