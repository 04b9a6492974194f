// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
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
	bin := filepath.Join(t.TempDir(), "mutex")
	require.NoError(t, os.WriteFile(bin+".go", source, 0o600))
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", bin, bin+".go").CombinedOutput()
	require.NoError(t, err, "%s", out)
	return bin
}

func TestMutexEachRunWritesTheReport(t *testing.T) {
	server := zktest.NewServer(t)
	t.Cleanup(func() { zktest.AssertClean(t, server) })
	bin := built(t, server.Addr())
	for range 2 {
		out, err := exec.CommandContext(t.Context(), bin).Output()
		require.NoError(t, err)
		require.Equal(t, "writing the report, alone\n", string(out), "a lock takes turns, it is not a marker")
	}
}

func TestMutexOfAServerThatCannotBe(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), built(t, "127.0.0.1:0")).CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "127.0.0.1:0")
}
