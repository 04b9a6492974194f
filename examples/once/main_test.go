// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/testing/zktest"
)

func TestTheJobRunsOncePerDay(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "once")
	today := func() string { return time.Now().UTC().Format(time.DateOnly) }
	for before := ""; before != today(); { // again if the day ends in between
		before = today()
		server := zktest.NewServer(t)
		out, err := exec.CommandContext(t.Context(), "go", "build", "-ldflags", "-X main.servers="+server.Addr(), "-o", bin, ".").CombinedOutput()
		require.NoError(t, err, "%s", out)
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
