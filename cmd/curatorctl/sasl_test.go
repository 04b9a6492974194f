// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// TestSASL: the command proves an identity from the environment or a file, says which, and never shows a password.
func TestSASL(t *testing.T) {
	server := zktest.NewServer(t, zkserver.WithSASLUsers(map[string]string{"alice": "wonder:land"}), zkserver.WithRequireClientAuthScheme("sasl"))
	file := filepath.Join(t.TempDir(), "sasl")
	require.NoError(t, os.WriteFile(file, []byte("digest-md5:alice:wonder:land\n"), 0o600))
	run := func(env map[string]string, args ...string) outcome {
		var stdout, stderr bytes.Buffer
		env = maps.Clone(env)
		env["CURATOR_SERVERS"] = server.Addr()
		p := program{stdin: strings.NewReader(""), stdout: &stdout, stderr: &stderr, getenv: func(name string) string { return env[name] }}
		status := p.run(zktest.Context(t), args)
		require.NotContains(t, stdout.String()+stderr.String(), "land")
		return outcome{stdout.String(), stderr.String(), status}
	}
	for _, env := range []map[string]string{{"CURATOR_SASL": "digest-md5:alice:wonder:land"}, {"CURATOR_SASL_FILE": file}} {
		said := run(env, "ensemble")
		require.Equal(t, exitDone, said.status, said.stderr)
		require.Contains(t, said.stdout, "authenticated as: ip:127.0.0.1, sasl:alice\n")
		require.Contains(t, run(env, "ensemble", "-o", "json").stdout, `"sasl:alice"`)
	}
	said := run(map[string]string{}, "-sasl-file", file, "ls", "/")
	require.Equal(t, exitDone, said.status, said.stderr)

	refused := map[string]string{"CURATOR_SASL": "digest-md5:alice:looking-glassland"}
	said = run(refused, "ls", "/")
	require.Equal(t, exitNoPerm, said.status)
	require.Contains(t, said.stderr, "DIGEST-MD5")
	said = run(refused, "ensemble")
	require.Equal(t, exitDone, said.status)
	require.Contains(t, said.stderr, "identities are not known")
	require.Equal(t, exitNoPerm, run(map[string]string{}, "ls", "/").status)

	for want, env := range map[string]map[string]string{
		"expected one":             {"CURATOR_SASL": "digest-md5:a:b", "CURATOR_SASL_FILE": file},
		"no such file":             {"CURATOR_SASL_FILE": "/nowhere"},
		"CURATOR_SASL: expected":   {"CURATOR_SASL": "alice:land"},
		"expected digest-md5:user": {"CURATOR_SASL": "digest-md5:land"},
		"no Kerberos":              {"CURATOR_SASL": "gssapi:alice"},
		"empty user":               {"CURATOR_SASL": "digest-md5::land"},
	} {
		said := run(env, "ls", "/")
		require.Equal(t, exitUsage, said.status, want)
		require.Contains(t, said.stderr, want)
	}
}
