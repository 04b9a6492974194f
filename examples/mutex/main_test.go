// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/testing/zktest"
)

// built returns the program for a server.
func built(t *testing.T, server string) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "mutex")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-ldflags", "-X main.servers="+server, "-o", bin, ".").CombinedOutput()
	require.NoError(t, err, "%s", out)
	return bin
}

func TestEachRunWritesTheReport(t *testing.T) {
	server := zktest.NewServer(t)
	t.Cleanup(func() { zktest.AssertClean(t, server) })
	bin := built(t, server.Addr())
	for range 2 {
		out, err := exec.CommandContext(t.Context(), bin).Output()
		require.NoError(t, err)
		require.Equal(t, "writing the report, alone\n", string(out), "a lock takes turns, it is not a marker")
	}
}

func TestAServerThatCannotBe(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), built(t, "127.0.0.1:0")).CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "127.0.0.1:0")
}
