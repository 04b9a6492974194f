package main

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/testing/zktest"
)

func TestTheJobRunsOncePerDay(t *testing.T) {
	server := zktest.NewServer(t)
	bin := filepath.Join(t.TempDir(), "once")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", bin, ".").CombinedOutput()
	require.NoError(t, err, "%s", out)
	once := func(day string) string {
		out, err := exec.CommandContext(t.Context(), bin, "-connect", server.Addr(), "-day", day).CombinedOutput()
		require.NoError(t, err, "%s", out)
		return string(out)
	}

	require.Contains(t, once("2026-11-21"), "writing the report")
	require.Contains(t, once("2026-11-21"), "2026-11-21: done already\n")
	require.Contains(t, once("2026-11-22"), "writing the report")
}
