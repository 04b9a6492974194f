// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testkit/must"
)

// TestSetUpNamesWhatItInstalls runs the set-up of "make test" on a machine that lacks
// every command: it prints the packages before it installs them, takes only what the
// tests need, and reads nothing from its standard input. Only the long tests need a browser.
func TestSetUpNamesWhatItInstalls(t *testing.T) {
	for _, argument := range []string{"test", "long", "bench"} {
		t.Run(argument, func(t *testing.T) {
			benched := argument == "bench"
			output, installed := setUp(t, argument)
			said, _, found := strings.Cut(output, "\nInstall")
			require.True(t, found, output)
			require.Contains(t, said, "default-jre-headless")
			require.Equal(t, benched, strings.Contains(said, "redis-server"), said)
			require.Equal(t, benched, strings.Contains(said, "etcd-server"), said)
			require.Equal(t, argument == "long", strings.Contains(said, "chromium-headless-shell"), said)
			if os.Geteuid() == 0 {
				require.Contains(t, installed, "default-jre-headless")
				require.Equal(t, benched, strings.Contains(installed, "redis-server"), installed)
			} else {
				require.Empty(t, installed, "sudo asks for a password here")
				require.Contains(t, output, "Install them with: sudo apt-get install -y")
			}
		})
	}
}

// setUp runs the script where apt-get and sudo are replaced, and returns what it prints
// and what it asks apt-get for.
func setUp(t *testing.T, argument string) (output, installed string) {
	t.Helper()
	bin := t.TempDir()
	for _, name := range []string{"bash", "env", "grep"} {
		require.NoError(t, os.Symlink(must.Get(exec.LookPath(name))(t), filepath.Join(bin, name)))
	}
	record := filepath.Join(bin, "record")
	for name, script := range map[string]string{
		"apt-get": "#!/bin/bash\n[[ ! -t 0 ]] && echo \"$@\" >>" + record + "\n",
		"sudo":    "#!/bin/bash\nexit 1\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(bin, name), []byte(script), 0o700)) //nolint:gosec // a program
	}
	script := must.Get(filepath.Abs(filepath.Join(root, ".ci", "install-deps")))(t)
	cmd := exec.CommandContext(t.Context(), script, argument)
	cmd.Env = []string{"PATH=" + bin}
	out, err := cmd.CombinedOutput()
	var failed *exec.ExitError
	require.ErrorAs(t, err, &failed, "the commands are still missing:\n%s", out)
	if os.Geteuid() == 0 {
		asked := must.Get(os.ReadFile(record))(t)
		installed = string(asked)
	}
	return string(out), installed
}
