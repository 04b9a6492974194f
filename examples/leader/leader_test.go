// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/testing/zktest"
)

// built returns the program for a server at another address.
func built(t *testing.T, server string) string {
	t.Helper()
	source, err := os.ReadFile("main.go")
	require.NoError(t, err)
	source = bytes.Replace(source, []byte("127.0.0.1:2181"), []byte(server), 1)
	bin := filepath.Join(t.TempDir(), "leader")
	require.NoError(t, os.WriteFile(bin+".go", source, 0o600))
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", bin, bin+".go").CombinedOutput()
	require.NoError(t, err, "%s", out)
	return bin
}

// replica starts the program and returns the lines that it prints.
func replica(t *testing.T, bin string) (*exec.Cmd, <-chan string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), bin)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	lines := make(chan string, 10)
	go func() {
		for scanner := bufio.NewScanner(stdout); scanner.Scan(); {
			lines <- scanner.Text()
		}
	}()
	return cmd, lines
}

func TestLeaderIsTheSecondWhenTheFirstEnds(t *testing.T) {
	server := zktest.NewServer(t)
	t.Cleanup(func() { zktest.AssertClean(t, server) })
	bin := built(t, server.Addr())
	first, ofFirst := replica(t, bin)
	require.Equal(t, "leading", zktest.Await(t, ofFirst, "the first one's line"))
	second, ofSecond := replica(t, bin)
	require.NoError(t, first.Process.Signal(syscall.SIGTERM))
	require.Equal(t, "ended: context canceled: terminated signal received", zktest.Await(t, ofFirst, "the first one's end"))
	require.Equal(t, "leading", zktest.Await(t, ofSecond, "the second one's line"))
	require.NoError(t, second.Process.Signal(syscall.SIGTERM))
	require.Equal(t, "ended: context canceled: terminated signal received", zktest.Await(t, ofSecond, "the second one's end"))
	require.NoError(t, second.Wait())
}
