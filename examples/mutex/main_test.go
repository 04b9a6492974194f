package main

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/testing/zktest"
)

func TestEachRunWritesTheReport(t *testing.T) {
	server := zktest.NewServer(t)
	t.Cleanup(func() { zktest.AssertClean(t, server) })
	bin := filepath.Join(t.TempDir(), "mutex")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-ldflags", "-X main.servers="+server.Addr(), "-o", bin, ".").CombinedOutput()
	require.NoError(t, err, "%s", out)

	for range 2 {
		out, err := exec.CommandContext(t.Context(), bin).Output()
		require.NoError(t, err)
		require.Equal(t, "writing the report, alone\n", string(out), "a lock takes turns, it is not a marker")
	}
}

func TestAServerThatCannotBe(t *testing.T) {
	servers = "127.0.0.1:0"
	require.ErrorContains(t, run(t.Context()), "127.0.0.1:0")
}
