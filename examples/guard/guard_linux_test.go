// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/gocurator/curator/testing/zktest"
)

// asProgram in the environment makes the test binary the program, with the server and the label as its value.
const asProgram = "EXAMPLE_GUARD"

func TestMain(m *testing.M) {
	if value := os.Getenv(asProgram); value != "" {
		var server, label string
		if _, err := fmt.Sscan(value, &server, &label); err != nil {
			panic(err)
		}
		panic(run(context.Background(), os.Stdout, server, label))
	}
	goleak.VerifyTestMain(m)
}

// TestKilledProgramGivesTheLockUp at once, in the care of a guard.
func TestKilledProgramGivesTheLockUp(t *testing.T) {
	server := zktest.NewServer(t)
	folder, err := os.MkdirTemp("", "guard") //nolint:usetesting // a path with the name of a test is too long for a socket
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(folder)) })
	build := exec.CommandContext(t.Context(), "go", "build", "-C", "../../cmd/curatorctl", "-o", folder+"/curatorctl", ".")
	output, err := build.CombinedOutput()
	require.NoError(t, err, "%s", output)
	socket := filepath.Join(folder, "own", "guard")
	_, lines := start(t, exec.CommandContext(t.Context(), folder+"/curatorctl", "guard", "-socket", socket))
	require.Equal(t, "listening on "+socket, <-lines)

	program := func(label string) (*exec.Cmd, <-chan string) {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), asProgram+"="+server.Addr()+" "+label, "CURATOR_GUARD="+socket)
		return start(t, cmd)
	}
	a, lines := program("a")
	require.Equal(t, "a waits", <-lines)
	require.Contains(t, <-lines, "a holds the lock")
	_, lines = program("b")
	require.Equal(t, "b waits", <-lines)
	require.NoError(t, a.Process.Kill())
	killed := time.Now()
	require.Contains(t, <-lines, "b holds the lock")
	require.Less(t, time.Since(killed), 10*time.Second, "the session timeout is 20 s")
}

// start starts a program, which is killed at the end of the test, and returns its lines.
func start(t *testing.T, cmd *exec.Cmd) (*exec.Cmd, <-chan string) {
	t.Helper()
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	cmd.Stderr = os.Stderr
	require.NoError(t, cmd.Start())
	lines := make(chan string, 10)
	go func() {
		defer close(lines)
		for scanner := bufio.NewScanner(stdout); scanner.Scan(); {
			lines <- scanner.Text()
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	})
	return cmd, lines
}
