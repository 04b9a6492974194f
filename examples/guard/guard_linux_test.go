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

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/testing/zktest"
)

// asProgram in the environment makes the test binary the program, with the server and the file as its value.
const asProgram = "EXAMPLE_GUARD"

func TestMain(m *testing.M) {
	if value := os.Getenv(asProgram); value != "" {
		var server, file string
		if _, err := fmt.Sscan(value, &server, &file); err != nil {
			panic(err)
		}
		panic(run(context.Background(), os.Stdout, server, "a", framework.WithSessionFile(file)))
	}
	goleak.VerifyTestMain(m)
}

// TestKilledProgramKeepsItsPlace, when it is started again.
func TestKilledProgramKeepsItsPlace(t *testing.T) {
	server := zktest.NewServer(t)
	file := filepath.Join(t.TempDir(), "session")
	var tokens [2]int64
	for i := range tokens {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), asProgram+"="+server.Addr()+" "+file)
		stdout, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		lines := bufio.NewReader(stdout)
		line, err := lines.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, "a waits\n", line)
		_, err = fmt.Fscanf(lines, "a holds the lock, with token %d\n", &tokens[i])
		require.NoError(t, err)
		require.NoError(t, cmd.Process.Kill())
		require.Error(t, cmd.Wait(), "it was killed")
	}
	require.Equal(t, tokens[0], tokens[1])
	require.Len(t, server.Sessions(), 1)
}
