// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"bytes"
	"flag"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/testing/zktest"
)

var kazoosOwn = flag.Bool("kazoos-own", false, "run kazoo's own tests as well")

// kazoosTests are the modules of kazoo's tests that talk to a server, each with how many tests passed in kazoo 2.8.
var kazoosTests = map[string]int{
	"test_barrier": 8, "test_client": 104, "test_connection": 9, "test_counter": 5, "test_election": 2, "test_lease": 12,
	"test_lock": 30, "test_partitioner": 8, "test_party": 4, "test_queue": 12, "test_watchers": 22,
}

// TestKazoosOwnTests runs the tests that kazoo's Debian package has on the devserver. It is not for every day, because
// many of them sleep and hope. python/owntests.py says which it leaves out, and why.
func TestKazoosOwnTests(t *testing.T) {
	if !*kazoosOwn {
		t.Skip("only with -kazoos-own, as make test-long gives it")
	}
	addr := onDevserver(t).Addr()
	type module struct {
		cmd         *exec.Cmd
		lines, said bytes.Buffer
	}
	running := make(map[string]*module)
	for name := range kazoosTests {
		m := new(module)
		m.cmd = exec.CommandContext(zktest.Context(t), "/usr/bin/python3", "-B", filepath.Join("python", "owntests.py"), addr, name)
		m.cmd.Stdout, m.cmd.Stderr = &m.lines, &m.said
		require.NoError(t, m.cmd.Start())
		running[name] = m
	}
	for name, m := range running {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, m.cmd.Wait(), "%s", m.said.String())
			passed := 0
			for line := range strings.Lines(m.lines.String()) {
				test, outcome, _ := strings.Cut(strings.TrimSpace(line), "\t")
				switch {
				case outcome == "ok":
					passed++
				case strings.HasPrefix(outcome, "skipped"):
					t.Log(test, outcome)
				default:
					t.Errorf("%s: %s\n%s", test, outcome, m.said.String())
				}
			}
			t.Log(passed, "tests passed")
			require.GreaterOrEqual(t, passed, kazoosTests[name])
		})
	}
}
