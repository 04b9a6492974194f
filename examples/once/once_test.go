// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/testing/zktest"
)

// built returns the program for a server at another address.
func built(t *testing.T, server string) string {
	t.Helper()
	source, err := os.ReadFile("main.go")
	require.NoError(t, err)
	source = bytes.Replace(source, []byte("127.0.0.1:2181"), []byte(server), 1)
	bin := filepath.Join(t.TempDir(), "once")
	require.NoError(t, os.WriteFile(bin+".go", source, 0o600))
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", bin, bin+".go").CombinedOutput()
	require.NoError(t, err, "%s", out)
	return bin
}

func TestOncePerDayTheJobRuns(t *testing.T) {
	today := func() string { return time.Now().UTC().Format(time.DateOnly) }
	for before := ""; before != today(); { // again if the day ends in between
		before = today()
		server := zktest.NewServer(t)
		bin := built(t, server.Addr())
		first, err := exec.CommandContext(t.Context(), bin).Output()
		require.NoError(t, err)
		second, err := exec.CommandContext(t.Context(), bin).Output()
		require.NoError(t, err)
		if before == today() {
			require.Equal(t, "writing the report\nran here: true\n", string(first))
			require.Equal(t, "ran here: false\n", string(second))
		}
	}
}
