// SPDX-License-Identifier: Apache-2.0

//go:build linux

package ensemble_test

import (
	"bufio"
	"context"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/testing/ensemble"
)

// processExists reports whether there is such a process, a zombie included.
func processExists(pid int) bool { return syscall.Kill(pid, 0) == nil }

func commandLine(t *testing.T, pid int) string {
	t.Helper()
	line := must.Get(os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline"))(t)
	return strings.ReplaceAll(string(line), "\x00", " ")
}

func mntrTells(t *testing.T, e *ensemble.Ensemble) {
	conn := connect(t, e.ConnectString())
	before := must.Get(e.Server(0).Mntr(t.Context()))(t)
	require.Equal(t, "standalone", before["zk_server_state"])
	require.Equal(t, "0", before["zk_ephemerals_count"])
	require.Equal(t, "0", before["zk_watch_count"])
	require.Equal(t, "1", before["zk_global_sessions"])

	must.Get(conn.Create("/counted", nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll)))(t)
	_, _, _, err := conn.GetW("/counted")
	require.NoError(t, err)
	after := must.Get(e.Server(0).Mntr(t.Context()))(t)
	require.Equal(t, "1", after["zk_ephemerals_count"])
	require.Equal(t, "1", after["zk_watch_count"])
	require.Equal(t, strconv.Itoa(must.Get(strconv.Atoi(before["zk_znode_count"]))(t)+1), after["zk_znode_count"])
}

func pausedAccepts(t *testing.T, e *ensemble.Ensemble) {
	server := e.Server(0)
	require.NoError(t, server.Pause())
	require.NoError(t, server.Pause(), "a second time")

	conn, err := net.Dial("tcp", server.Addr())
	require.NoError(t, err, "the kernel accepts for it")
	require.NoError(t, conn.Close())
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err = server.FourLetterWord(ctx, "ruok")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	_, err = e.Leader(ctx)
	require.ErrorContains(t, err, "no settled leader")

	require.NoError(t, server.Resume())
	require.NoError(t, server.Resume(), "a second time")
	require.Equal(t, "imok", must.Get(server.FourLetterWord(t.Context(), "ruok"))(t))
}

func killedKeepsData(t *testing.T, e *ensemble.Ensemble) {
	server := e.Server(0)
	addr, pid := server.Addr(), server.PID()
	conn := connect(t, addr)
	must.Get(conn.Create("/kept", []byte("data"), 0, zk.WorldACL(zk.PermAll)))(t)

	require.NoError(t, server.Kill())
	require.Zero(t, server.PID())
	require.False(t, processExists(pid))
	_, err := server.Mode(t.Context())
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	require.NoError(t, server.Kill(), "a second time")

	require.NoError(t, server.Restart(t.Context()))
	require.Equal(t, addr, server.Addr())
	require.NotEqual(t, pid, server.PID())
	data, _, err := connect(t, addr).Get("/kept")
	require.NoError(t, err)
	require.Equal(t, "data", string(data))

	pid = server.PID()
	require.NoError(t, server.Restart(t.Context()), "of a running server")
	require.NotEqual(t, pid, server.PID())
	require.False(t, processExists(pid))
}

func stopEndsIt(t *testing.T, e *ensemble.Ensemble) {
	server := e.Server(0)
	for _, paused := range []bool{false, true} {
		pid := server.PID()
		if paused {
			require.NoError(t, server.Pause())
		}
		require.NoError(t, server.Stop())
		require.False(t, processExists(pid))
		require.NoError(t, server.Stop(), "a second time")
		require.NoError(t, server.Restart(t.Context()))
	}
}

func pauseTakesOneThatRuns(t *testing.T, e *ensemble.Ensemble) {
	server := e.Server(0)
	require.NoError(t, server.Pause())
	require.NoError(t, server.Kill(), "of a paused server")
	require.ErrorIs(t, server.Pause(), ensemble.ErrNotRunning)
	require.ErrorIs(t, server.Resume(), ensemble.ErrNotRunning)
	require.NoError(t, server.Restart(t.Context()))
	_, err := server.Mode(t.Context())
	require.NoError(t, err, "a new process is not paused")
}

func portIsTaken(t *testing.T, e *ensemble.Ensemble) {
	server := e.Server(0)
	require.NoError(t, server.Kill())
	squatter := must.Get(net.Listen("tcp", server.Addr()))(t)
	require.ErrorContains(t, server.Restart(t.Context()), "a port was taken by another process")
	require.NoError(t, squatter.Close())
	require.NoError(t, server.Restart(t.Context()), "what an earlier run wrote is not held against this one")
}

func TestServersDieWithTheTestProcess(t *testing.T) {
	needsServers(t)
	dir := t.TempDir()
	helper := orphanCommand(t, dir)
	pid := startOrphan(t, helper)
	require.True(t, processExists(pid))
	abandoned := entries(t, dir)
	require.Len(t, abandoned, 1)

	other := start(t, ensemble.WithDir(dir))
	require.Len(t, entries(t, dir), 2, "a folder in use stays")
	require.NoError(t, other.Close())

	require.NoError(t, helper.Process.Kill())
	require.Error(t, helper.Wait(), "killed")
	require.Eventually(t, func() bool { return !runs(pid) }, 30*time.Second, 10*time.Millisecond,
		"the kernel kills the server with its parent")

	start(t, ensemble.WithDir(dir))
	require.NoDirExists(t, abandoned[0], "Start removes what a killed process has left")
	require.Len(t, entries(t, dir), 1)
}

// orphanCommand is what runs a process that starts a server in the folder.
func orphanCommand(t *testing.T, dir string, args ...string) *exec.Cmd {
	t.Helper()
	self := must.Get(os.Executable())(t)
	args = append(args, self)
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(os.Environ(), orphanDirEnv+"="+dir)
	return cmd
}

// startOrphan starts such a process, and returns the server's pid.
func startOrphan(t *testing.T, helper *exec.Cmd) (pid int) {
	t.Helper()
	helper.Stderr = os.Stderr
	stdin := must.Get(helper.StdinPipe())(t)
	t.Cleanup(func() { stdin.Close() })
	stdout := must.Get(helper.StdoutPipe())(t)
	require.NoError(t, helper.Start())
	line := must.Get(bufio.NewReader(stdout).ReadString('\n'))(t)
	pid = must.Get(strconv.Atoi(strings.TrimSpace(line)))(t)
	return pid
}

// runs reports whether there is such a process and it is not a zombie, which an orphan is until init has waited for it.
func runs(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z")
}
