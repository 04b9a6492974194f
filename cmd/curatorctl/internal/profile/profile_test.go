// SPDX-License-Identifier: Apache-2.0

package profile_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/cmd/curatorctl/internal/profile"
)

// TestWriteIsReadByPprof: with its names, values and times, and the last type as the one that is shown.
func TestWriteIsReadByPprof(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, profile.Write(&out, []profile.Type{{Name: "turns", Unit: "count"}, {Name: "wait", Unit: "nanoseconds"}}, []profile.Sample{
		{Stack: []string{"/locks/a", "first"}, Values: []int64{300, int64(time.Second)}},
		{Stack: []string{"/locks/b", "first"}, Values: []int64{2, int64(3 * time.Second)}},
		{Stack: []string{"/locks/a", "second"}, Values: []int64{0, 0}},
	}, time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC), time.Minute))
	file := filepath.Join(t.TempDir(), "profile")
	require.NoError(t, os.WriteFile(file, out.Bytes(), 0o600))
	for sample, want := range map[string]string{
		"":      `(?s)Type: wait\n.*3s 75\.00%.* /locks/b\n +1s 25\.00%.* /locks/a\n.* 4s   100% +first`,
		"turns": `(?s)Type: turns\n.*Duration: 60s.*300 99\.34%.* /locks/a\n`,
	} {
		text, err := exec.CommandContext(t.Context(), "go", "tool", "pprof", "-top", "-sample_index="+sample, file).CombinedOutput()
		require.NoError(t, err, string(text))
		require.Regexp(t, want, string(text))
		require.Contains(t, string(text), "Time: ")
	}
}
