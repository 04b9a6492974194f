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

const (
	mainModule = "github.com/gocurator/curator"
	rehearsed  = "v0.999.0" // no version that was released
)

// TestReleaseRefusals: what cannot become a release is refused before anything is changed.
func TestReleaseRefusals(t *testing.T) {
	_, clone := cloned(t)
	before := clone.do("git", "rev-parse", "HEAD")
	require.Contains(t, clone.fail(".ci/release"), `version "", expected one such as v0.1.0`)
	require.Contains(t, clone.fail(".ci/release", "0.1.0"), `version "0.1.0", expected one such as v0.1.0`)

	clone.write("new.txt", "not committed")
	require.Contains(t, clone.fail(".ci/release", rehearsed), "changes that are not committed")
	require.NoError(t, os.Remove(filepath.Join(clone.at, "new.txt")))

	clone.do("git", "tag", "v0.998.0")
	require.Contains(t, clone.fail(".ci/release", "v0.998.0"), "the tag v0.998.0 exists")
	require.Equal(t, before, clone.do("git", "rev-parse", "HEAD"))

	changes := clone.do("cat", "CHANGELOG.md")
	head, _, found := strings.Cut(changes, "\n## [Unreleased]\n")
	require.True(t, found)
	clone.write("CHANGELOG.md", head+"\n## [Unreleased]\n\n## [0.998.0] - 2000-01-01\n\n- a change\n")
	clone.do("git", "commit", "-qam", "changelog: no changes")
	require.Contains(t, clone.fail(".ci/release", rehearsed), `the section "Unreleased" of CHANGELOG.md is empty`)
	require.Equal(t, "v0.998.0\n", clone.do("git", "tag", "--list", "v0.99*"))

	clone.change("a change")
	readme := clone.do("cat", "README.md")
	for text, expected := range map[string]string{
		readme + "\nNo version has been released yet.\n":   "No version has been released yet",
		readme + "\n<!-- until the first release -->\n":    "until the first release",
		readme + "\n<!-- from then on -->\nIt is there.\n": "from then on",
	} {
		clone.write("README.md", text)
		clone.do("git", "commit", "-qam", "README: say what a release must not say")
		before = clone.do("git", "rev-parse", "HEAD")
		require.Contains(t, clone.fail(".ci/release", rehearsed), expected)
		require.Equal(t, before, clone.do("git", "rev-parse", "HEAD"))
		require.Empty(t, clone.do("git", "status", "--porcelain"))
	}
}

// TestReleaseCheckOfNames: a name that the newest release has and that is gone needs a section of the change log.
func TestReleaseCheckOfNames(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: this test compiles the tool that compares")
	}
	_, clone := cloned(t)
	clone.write("testing/locktest/added.go", "package locktest\n\n// Added is for this test.\nfunc Added() {}\n")
	clone.do("git", "add", ".")
	clone.do("git", "commit", "-qm", "locktest: add a name")
	clone.do("git", "tag", rehearsed)
	require.Contains(t, clone.do("make", "api"), "compatible with "+rehearsed)

	clone.do("git", "rm", "-q", "testing/locktest/added.go")
	require.Regexp(t, `(?s)Added: removed.*expected a section "### Changed" or "### Removed"`, clone.fail("make", "api"))

	changes := clone.do("cat", "CHANGELOG.md")
	clone.write("CHANGELOG.md", strings.Replace(changes, "- a change\n", "- a change\n\n### Removed\n\n- a name\n", 1))
	require.Contains(t, clone.do("make", "api"), "CHANGELOG.md says so")
}

// place is a folder in which commands run.
type place struct {
	t           *testing.T
	at          string
	environment []string
}

// cloned returns a bare clone of this repository and a clone of that, with something to release.
func cloned(t *testing.T) (origin string, clone place) {
	t.Helper()
	here := must.Get(filepath.Abs(root))(t)
	origin = filepath.Join(t.TempDir(), "origin.git")
	clone = place{t, filepath.Join(t.TempDir(), "clone"), []string{
		"GIT_AUTHOR_NAME=release", "GIT_AUTHOR_EMAIL=release@example.com", "GIT_COMMITTER_NAME=release", "GIT_COMMITTER_EMAIL=release@example.com",
	}}
	require.NoError(t, os.Mkdir(clone.at, 0o700))
	clone.do("git", "clone", "--quiet", "--bare", here, origin)
	clone.do("git", "clone", "--quiet", origin, ".")
	clone.do("git", "checkout", "--quiet", "-B", "rehearsal")
	clone.change("a change")
	return origin, clone
}

// fromOrigin returns the environment of a machine that gets the modules of this repository from a clone only, and all others
// from the module cache if it has them. Git opens no connection there.
func fromOrigin(t *testing.T, origin, home string) []string {
	t.Helper()
	cache := must.Get(exec.CommandContext(t.Context(), "go", "env", "GOMODCACHE").Output())(t)
	proxy := must.Get(exec.CommandContext(t.Context(), "go", "env", "GOPROXY").Output())(t)
	return []string{
		"GOPROXY=file://" + strings.TrimSpace(string(cache)) + "/cache/download," + strings.TrimSpace(string(proxy)),
		"GOMODCACHE=" + filepath.Join(home, "mod"), "GOBIN=" + filepath.Join(home, "bin"),
		"GOPRIVATE=" + mainModule, "GOSUMDB=off", "GOWORK=off",
		"GOFLAGS=-modcacherw -trimpath", // so that the build cache has what an earlier run compiled from another folder
		"GIT_ALLOW_PROTOCOL=file",
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=url.file://" + origin + ".insteadOf", "GIT_CONFIG_VALUE_0=https://" + mainModule,
	}
}

func (p place) run(command ...string) (string, error) {
	p.t.Helper()
	cmd := exec.CommandContext(p.t.Context(), command[0], command[1:]...) //nolint:gosec // commands of this test
	cmd.Dir = p.at
	cmd.Env = append(os.Environ(), p.environment...)
	output, err := cmd.CombinedOutput()
	return string(output), err
}

// do runs a command that succeeds, and returns what it prints.
func (p place) do(command ...string) string {
	p.t.Helper()
	output, err := p.run(command...)
	require.NoError(p.t, err, "%v:\n%s", command, output)
	return output
}

// fail runs a command that fails, and returns what it prints.
func (p place) fail(command ...string) string {
	p.t.Helper()
	output, err := p.run(command...)
	require.Error(p.t, err, "%v:\n%s", command, output)
	return output
}

func (p place) write(name, text string) {
	p.t.Helper()
	require.NoError(p.t, os.WriteFile(filepath.Join(p.at, name), []byte(text), 0o600))
}
