// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/testing/zktest"
)

const callers = 8

// start starts a server in a process of its own, and waits until it serves.
func start(t *testing.T, bin, connect, id string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), bin, "-connect", connect, "-serve", id)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	cmd.Stderr = os.Stderr
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }) // it may have ended
	line, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "serving "+id+"\n", line)
	return cmd
}

// await waits until the counts of a load are accepted.
func await(t *testing.T, l *load, what string, accept func(answered map[string]int, failed int) bool) {
	t.Helper()
	require.Eventually(t, func() bool { return accept(l.counts()) }, time.Minute, 5*time.Millisecond, what)
}

// more waits until each of these servers has answered a good number of calls more.
func more(t *testing.T, l *load, ids ...string) {
	t.Helper()
	before, _ := l.counts()
	await(t, l, "calls", func(answered map[string]int, _ int) bool {
		for _, id := range ids {
			if answered[id] < before[id]+50 {
				return false
			}
		}
		return true
	})
}

// TestServersComeAndGoUnderLoad stops one server in order and kills another.
func TestServersComeAndGoUnderLoad(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "grpc")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", bin, ".").CombinedOutput()
	require.NoError(t, err, "%s", out)
	zookeeper := zktest.NewServer(t)
	stopping, killed := start(t, bin, zookeeper.Addr(), "stopping"), start(t, bin, zookeeper.Addr(), "killed")
	start(t, bin, zookeeper.Addr(), "staying")
	client, services, err := connected(t.Context(), zookeeper.Addr())
	require.NoError(t, err)
	conn, err := dial(services)
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
		require.NoError(t, client.Close())
	})
	more(t, &l, "stopping", "killed", "staying")

	require.NoError(t, stopping.Process.Signal(syscall.SIGTERM))
	require.NoError(t, stopping.Wait(), "an orderly end")
	more(t, &l, "killed", "staying")
	_, failed := l.counts()
	require.Zero(t, failed, "calls failed while a server stopped in order: %v", l.errors())
	t.Log("a server has stopped in order: " + l.report())

	require.NoError(t, killed.Process.Kill())
	began := time.Now()
	for node, err := range client.Follow(t.Context(), "/examples/grpc/"+service+"/killed") {
		require.NoError(t, err)
		if node.Stat == nil {
			break
		}
	}
	t.Logf("its registration has gone with its session after %v", time.Since(began).Round(time.Millisecond))
	_, failed = l.counts()
	more(t, &l, "staying")
	_, later := l.counts()
	require.Equal(t, failed, later, "no call fails after that: %v", l.errors())
	require.LessOrEqual(t, failed, 2*callers, "those that were under way, and no more than as many again")
	t.Log("a server was killed: " + l.report())
}
