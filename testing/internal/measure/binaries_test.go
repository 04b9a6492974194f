// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testkit/must"
)

// TestBinaries builds the command for this system as a release does. The binary runs, its checksum is right, and its list of
// modules has what SPDX 2.3 requires.
func TestBinaries(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: this test compiles the command")
	}
	folder, system := t.TempDir(), runtime.GOOS+"/"+runtime.GOARCH
	run := func(command ...string) string {
		cmd := exec.CommandContext(t.Context(), command[0], command[1:]...) //nolint:gosec // commands of this test
		cmd.Dir = folder
		printed, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", printed)
		return string(printed)
	}
	script := must.Get(filepath.Abs(filepath.Join(root, ".ci", "binaries")))(t)
	run(script, folder, system)
	name := "curatorctl-" + strings.ReplaceAll(system, "/", "-")
	require.Contains(t, run("./"+name, "version"), "curatorctl")
	require.Equal(t, name+": OK\n"+name+".spdx: OK\n", run("sha256sum", "-c", "SHA256SUMS"))

	text := must.Get(os.ReadFile(filepath.Join(folder, name+".spdx")))(t)
	sections := strings.Split(strings.TrimSpace(string(text)), "\n\n")
	for _, field := range []string{
		"SPDXVersion: SPDX-2.3", "DataLicense: CC0-1.0", "SPDXID: SPDXRef-DOCUMENT", "DocumentName: .+", `DocumentNamespace: https://[^ #]+`,
		`Creator: Tool: .+`, `Created: \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`,
	} {
		require.Regexp(t, "(?m)^"+field+"$", sections[0])
	}
	ids := map[string]bool{"SPDXRef-DOCUMENT": true}
	for _, section := range sections[1:] {
		for _, field := range []string{"PackageName: .+", "PackageVersion: .+", "PackageDownloadLocation: .+", "FilesAnalyzed: false"} {
			require.Regexp(t, "(?m)^"+field+"$", section)
		}
		id := regexp.MustCompile(`(?m)^SPDXID: (SPDXRef-[\w.-]+)$`).FindStringSubmatch(section)
		require.Len(t, id, 2, section)
		require.False(t, ids[id[1]], section)
		ids[id[1]] = true
	}
	require.Greater(t, len(ids), 10)
	related := regexp.MustCompile(`(?m)^Relationship: (\S+) (?:DESCRIBES|DEPENDS_ON) (\S+)$`).FindAllStringSubmatch(string(text), -1)
	require.Len(t, related, len(ids)-1, "one for each module")
	for _, pair := range related {
		require.True(t, ids[pair[1]] && ids[pair[2]], pair[0])
	}
}
