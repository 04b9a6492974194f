// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/testing/zktest"
)

// programTimeout is for a whole run on a busy machine; one takes two seconds.
const programTimeout = 2 * time.Minute

// build builds a program of the module and returns the path of its binary.
func build(t *testing.T, pkg string, flags ...string) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), filepath.Base(pkg)+".bin")
	args := append([]string{"build", "-o", bin}, flags...)
	out, err := exec.CommandContext(t.Context(), "go", append(args, pkg)...).CombinedOutput()
	require.NoError(t, err, "go build: %s", out)
	return bin
}

// outcome is what a program leaves behind.
type outcome struct {
	status         int // -1 if it did not start or did not end by itself
	stdout, stderr string
}

// execute runs a program to its end.
func execute(t *testing.T, bin string, args ...string) outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), programTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, bin, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		fmt.Fprintf(&stderr, "%v: %v", cmd, err)
	}
	return outcome{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

var summaryLine = regexp.MustCompile(`(?m)^acquisitions=(\d+) overlaps=(\d+) token_regressions=(\d+) ` +
	`lost_while_held=(\d+) acquire_p50=(\S+) acquire_p99=(\S+)$`)

// summary is what the last line says.
type summary struct {
	acquisitions, overlaps, tokenRegressions, lostWhileHeld int
	p50, p99                                                time.Duration
}

// parseSummary finds the one summary line, which must be the last line.
func parseSummary(t *testing.T, stdout string) summary {
	t.Helper()
	require.Equal(t, 1, strings.Count(stdout, "acquisitions="), stdout)
	lines := strings.Split(strings.TrimSuffix(stdout, "\n"), "\n")
	fields := summaryLine.FindStringSubmatch(lines[len(lines)-1])
	require.NotNil(t, fields, stdout)
	var s summary
	for i, p := range []*int{&s.acquisitions, &s.overlaps, &s.tokenRegressions, &s.lostWhileHeld} {
		n, err := strconv.Atoi(fields[i+1])
		require.NoError(t, err)
		*p = n
	}
	for i, p := range []*time.Duration{&s.p50, &s.p99} {
		d, err := time.ParseDuration(fields[i+5])
		require.NoError(t, err)
		*p = d
	}
	return s
}

// requireComplete checks a run in which each replica has completed its rounds and
// one session was killed.
func requireComplete(t *testing.T, got outcome, replicas, rounds int) {
	t.Helper()
	require.Zero(t, got.status, "%s%s", got.stdout, got.stderr)
	s := parseSummary(t, got.stdout)
	require.Zero(t, s.overlaps, got.stdout)
	require.Zero(t, s.tokenRegressions, got.stdout)
	require.GreaterOrEqual(t, s.lostWhileHeld, 1, got.stdout) // a busy machine may lose more
	require.Equal(t, replicas*rounds+s.lostWhileHeld, s.acquisitions, got.stdout)
	require.LessOrEqual(t, s.p50, s.p99)

	require.Equal(t, 1, strings.Count(got.stdout, "killing the session of "), got.stdout)
	require.Equal(t, s.lostWhileHeld, strings.Count(got.stdout, " LOST the lock "), got.stdout)
	require.Equal(t, s.acquisitions, strings.Count(got.stdout, " has the lock, token "), got.stdout)
	require.Equal(t, replicas*rounds, strings.Count(got.stdout, " is done"), got.stdout)
}

func TestProgram(t *testing.T) {
	bin := build(t, ".")

	t.Run("embedded server and defaults", func(t *testing.T) {
		requireComplete(t, execute(t, bin), 4, 5)
	})
	for name, wrong := range map[string]struct {
		args []string
		says string
	}{
		"unknown flag":        {[]string{"-lock", "/a"}, "flag provided but not defined: -lock"},
		"argument":            {[]string{"-rounds", "2", "extra"}, `quickstart: unexpected argument "extra", expected flags only`},
		"no replica":          {[]string{"-replicas", "0"}, "quickstart: -replicas is 0, expected 1 or more"},
		"replicas no number":  {[]string{"-replicas", "many"}, `invalid value "many" for flag -replicas`},
		"no round":            {[]string{"-rounds", "-1"}, "quickstart: -rounds is -1, expected 1 or more"},
		"no work":             {[]string{"-work", "0s"}, "quickstart: -work is 0s, expected a duration above 0 such as 50ms"},
		"work without a unit": {[]string{"-work", "50"}, `invalid value "50" for flag -work`},
		"a port that is none": {[]string{"-connect", "localhost:zookeeper"}, "quickstart: -connect: framework: "},
	} {
		t.Run(name, func(t *testing.T) {
			got := execute(t, bin, wrong.args...)
			require.Equal(t, 2, got.status)
			require.Contains(t, got.stderr, wrong.says)
			require.Contains(t, got.stderr, "-replicas number", "the usage follows")
			require.Empty(t, got.stdout)
		})
	}
	t.Run("help", func(t *testing.T) {
		got := execute(t, bin, "-help")
		require.Zero(t, got.status)
		require.Contains(t, got.stderr, "-connect servers")
	})
	t.Run("a single replica takes over from itself", func(t *testing.T) {
		requireComplete(t, execute(t, bin, "-replicas", "1", "-rounds", "1", "-work", "1ms"), 1, 1)
	})
	t.Run("devserver", func(t *testing.T) {
		addr := startDevserver(t)
		requireComplete(t, execute(t, bin, "-connect", addr, "-replicas", "3", "-rounds", "4", "-work", "10ms"), 3, 4)
		// Again, with what the first run has left.
		requireComplete(t, execute(t, bin, "-connect", addr, "-replicas", "2", "-rounds", "2", "-work", "10ms"), 2, 2)
	})
	t.Run("two runs on one server", func(t *testing.T) {
		server := zktest.NewServer(t)
		args := []string{"-connect", server.Addr(), "-replicas", "2", "-rounds", "3", "-work", "10ms"}
		other := make(chan outcome)
		go func() { other <- execute(t, bin, args...) }()
		first, second := execute(t, bin, args...), <-other
		requireComplete(t, first, 2, 3)
		requireComplete(t, second, 2, 3)
		zktest.Embedded(server).AwaitCounts(t, zktest.Counts{}, programTimeout)
	})
	if !testing.Short() {
		t.Run("three ZooKeeper servers", func(t *testing.T) {
			e := zktest.NewEnsemble(t, 3)
			requireComplete(t, execute(t, bin, "-connect", e.ConnectString()), 4, 5)
		})
	}
}

func TestProgramEndsCleanlyAtAnInterrupt(t *testing.T) {
	server := zktest.NewServer(t)
	cmd := exec.CommandContext(t.Context(), build(t, "."), "-connect", server.Addr(), "-rounds", "1000000", "-work", "5ms")
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	require.NoError(t, cmd.Start())

	var story strings.Builder
	lines := bufio.NewScanner(stdout)
	for interrupted := false; lines.Scan(); {
		story.WriteString(lines.Text() + "\n")
		if strings.HasSuffix(lines.Text(), ", for report 5") && !interrupted { // after the take-over
			interrupted = true
			require.NoError(t, cmd.Process.Signal(os.Interrupt))
		}
	}
	require.NoError(t, lines.Err())
	require.NoError(t, cmd.Wait(), stderr.String())
	require.Empty(t, stderr.String())
	s := parseSummary(t, story.String())
	require.Zero(t, s.overlaps, story.String())
	require.Zero(t, s.tokenRegressions, story.String())
	require.Contains(t, story.String(), "interrupted\n")
	zktest.Embedded(server).AwaitCounts(t, zktest.Counts{}, programTimeout)
}

// TestProgramFailsWithoutMutualExclusion gives each replica a lock of its own: the check
// of the program must see it.
func TestProgramFailsWithoutMutualExclusion(t *testing.T) {
	const honest = `locks.NewInterProcessMutex(client, "/quickstart/nightly-report")`
	source, err := os.ReadFile("main.go")
	require.NoError(t, err)
	require.Contains(t, string(source), honest)
	broken := strings.Replace(string(source), honest, `locks.NewInterProcessMutex(client, "/quickstart/"+r.name)`, 1)

	dir := t.TempDir()
	file, overlay := filepath.Join(dir, "main.go"), filepath.Join(dir, "overlay.json")
	require.NoError(t, os.WriteFile(file, []byte(broken), 0o600))
	original, err := filepath.Abs("main.go")
	require.NoError(t, err)
	content, err := json.Marshal(map[string]map[string]string{"Replace": {original: file}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(overlay, content, 0o600))

	got := execute(t, build(t, ".", "-overlay", overlay))
	require.Equal(t, 1, got.status, got.stdout)
	require.Contains(t, got.stderr, "quickstart: "+errBroken.Error())
	require.Positive(t, parseSummary(t, got.stdout).overlaps, got.stdout)
}

// startDevserver builds and starts the development server, and returns its address.
func startDevserver(t *testing.T) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), build(t, "../devserver"), "-addr", "127.0.0.1:0")
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { // the end of t's context has killed it, or is about to
		var killed *exec.ExitError
		require.ErrorAs(t, cmd.Wait(), &killed)
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err)
	addr, found := strings.CutPrefix(strings.TrimSpace(line), "listening on ")
	require.True(t, found, line)
	return addr
}
