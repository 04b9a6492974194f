// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/testing/zktest"
)

const callers = 8

// build builds a program of this folder.
func build(t *testing.T, folder string) (bin string) {
	t.Helper()
	bin = filepath.Join(t.TempDir(), "program")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", bin, folder).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return bin
}

// start starts a program in a process of its own, and returns its first line.
func start(t *testing.T, bin, connect string) (*exec.Cmd, string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), bin, "-connect", connect)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	cmd.Stderr = os.Stderr
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }) // it may have ended
	line, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err)
	return cmd, strings.TrimSpace(line)
}

// startServer starts a server, and returns the address where it serves.
func startServer(t *testing.T, bin, connect string) (*exec.Cmd, string) {
	t.Helper()
	cmd, line := start(t, bin, connect)
	address, found := strings.CutPrefix(line, "serving at ")
	require.True(t, found, line)
	return cmd, address
}

func TestGRPCClientShowsWhoAnswers(t *testing.T) {
	zookeeper := zktest.NewServer(t)
	_, address := startServer(t, build(t, "./server"), zookeeper.Addr())
	_, line := start(t, build(t, "."), zookeeper.Addr())
	require.Equal(t, address+" <nil>", line)
}

// await waits until the counts of a load are accepted.
func await(t *testing.T, l *load, what string, accept func(answered map[string]int, failed int) bool) {
	t.Helper()
	require.Eventually(t, func() bool { return accept(l.counts()) }, time.Minute, 5*time.Millisecond, what)
}

// more waits until each of these servers has answered a good number of calls more.
func more(t *testing.T, l *load, servers ...string) {
	t.Helper()
	before, _ := l.counts()
	await(t, l, "calls", func(answered map[string]int, _ int) bool {
		for _, server := range servers {
			if answered[server] < before[server]+50 {
				return false
			}
		}
		return true
	})
}

// TestGRPCServersComeAndGoUnderLoad stops one server in order and kills another.
func TestGRPCServersComeAndGoUnderLoad(t *testing.T) {
	bin := build(t, "./server")
	zookeeper := zktest.NewServer(t)
	stopping, first := startServer(t, bin, zookeeper.Addr())
	killed, second := startServer(t, bin, zookeeper.Addr())
	_, staying := startServer(t, bin, zookeeper.Addr())
	client := zktest.Client(t, zookeeper)
	conn, err := dial(client)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	var l load
	go func() {
		defer close(ended)
		l.run(ctx, conn, callers)
	}()
	t.Cleanup(func() {
		stop()
		<-ended
		require.NoError(t, conn.Close())
	})
	more(t, &l, first, second, staying)

	require.NoError(t, stopping.Process.Signal(syscall.SIGTERM))
	require.NoError(t, stopping.Wait(), "an orderly end")
	more(t, &l, second, staying)
	_, failed := l.counts()
	require.Zero(t, failed, "calls failed while a server stopped in order: %v", l.errors())
	t.Log("a server has stopped in order: " + l.report())

	require.NoError(t, killed.Process.Kill())
	began := time.Now()
	for children, err := range client.FollowChildren(t.Context(), "/examples/grpc/health") {
		require.NoError(t, err)
		if len(children.Names) == 1 {
			break
		}
	}
	t.Logf("its registration has gone with its session after %v", time.Since(began).Round(time.Millisecond))
	_, failed = l.counts()
	more(t, &l, staying)
	_, later := l.counts()
	require.Equal(t, failed, later, "no call fails after that: %v", l.errors())
	require.LessOrEqual(t, failed, 2*callers, "those that were under way, and no more than as many again")
	t.Log("a server was killed: " + l.report())
}
