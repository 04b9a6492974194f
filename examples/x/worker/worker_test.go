// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// asReplica makes this test binary the program.
const asReplica = "CURATOR_TEST_REPLICA"

func TestMain(m *testing.M) {
	if os.Getenv(asReplica) != "" {
		main()
		return
	}
	goleak.VerifyTestMain(m)
}

// line is what a replica has written: it begins or ends a partition.
type line struct {
	replica, partition string
	begins             bool
}

// replica starts a process of the program, whose lines come to lines.
func replica(t *testing.T, connect, name string, lines chan<- line) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), self, "-connect", connect, "-name", name, "-session", "3s")
	cmd.Env = append(os.Environ(), asReplica+"=1")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	read := make(chan struct{})
	go func() {
		defer close(read)
		for scanner := bufio.NewScanner(out); scanner.Scan(); {
			l := line{replica: name, begins: strings.Contains(scanner.Text(), " works on ")}
			words := strings.Fields(scanner.Text())
			l.partition = strings.TrimRight(words[slices.Index(words, "partition")+1], ",:")
			lines <- l
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-read
		_ = cmd.Wait() // killed, or ended before
	})
	return cmd
}

// owners follows the lines, and returns who has what once the replicas have so many each.
func owners(t *testing.T, owner map[string]string, lines <-chan line, want map[string]int) {
	t.Helper()
	for limit := time.After(time.Minute); ; {
		counts := make(map[string]int)
		for _, name := range owner {
			counts[name]++
		}
		if maps.Equal(counts, want) {
			return
		}
		select {
		case l := <-lines:
			switch {
			case l.begins: // the line that the one before has written may come later
				owner[l.partition] = l.replica
			case owner[l.partition] == l.replica:
				delete(owner, l.partition)
			}
		case <-limit:
			t.Fatalf("the replicas have %v, expected %v", counts, want)
		}
	}
}

// TestWorkerThreeProcesses share the partitions. One is killed, and another one joins.
func TestWorkerThreeProcesses(t *testing.T) {
	server := zktest.NewServer(t, zkserver.WithTick(500*time.Millisecond))
	lines, owner := make(chan line, 1000), make(map[string]string)
	replica(t, server.Addr(), "a", lines)
	b := replica(t, server.Addr(), "b", lines)
	replica(t, server.Addr(), "c", lines)
	owners(t, owner, lines, map[string]int{"a": 4, "b": 4, "c": 4})

	require.NoError(t, b.Process.Kill())
	maps.DeleteFunc(owner, func(_, name string) bool { return name == "b" })
	before := maps.Clone(owner)
	owners(t, owner, lines, map[string]int{"a": 6, "c": 6})
	for p, name := range before {
		require.Equal(t, name, owner[p], "partition %s has not moved", p)
	}

	replica(t, server.Addr(), "d", lines)
	owners(t, owner, lines, map[string]int{"a": 4, "c": 4, "d": 4})
	require.Len(t, owner, 12)
}
