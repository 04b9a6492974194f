// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// replica is one process of the service.
type replica struct {
	cmd   *exec.Cmd
	lines <-chan string
	url   string
}

func start(t *testing.T, bin, connect, id string) replica {
	t.Helper()
	address := freeAddress(t)
	cmd := exec.CommandContext(t.Context(), bin, "-connect", connect, "-id", id, "-http", address)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	cmd.Stderr = os.Stderr
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	lines := make(chan string, 100)
	go func() {
		defer close(lines)
		for scanner := bufio.NewScanner(stdout); scanner.Scan(); {
			lines <- scanner.Text()
		}
	}()
	return replica{cmd, lines, "http://" + address + "/leading"}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	return listener.Addr().String()
}

// status asks a replica whether it leads. The page comes up beside the election.
func (r replica) status(t *testing.T) int {
	t.Helper()
	var status int
	require.Eventually(t, func() bool {
		response, err := http.Get(r.url) //nolint:gosec // the page of this test's own process
		if err != nil {
			return false
		}
		defer response.Body.Close()
		_, _ = io.Copy(io.Discard, response.Body)
		status = response.StatusCode
		return true
	}, 30*time.Second, 10*time.Millisecond)
	return status
}

func TestStandbyTakesOverAtSIGTERM(t *testing.T) {
	server := zktest.NewServer(t)
	bin := filepath.Join(t.TempDir(), "standby")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", bin, ".").CombinedOutput()
	require.NoError(t, err, "%s", out)
	a := start(t, bin, server.Addr(), "a")
	require.Equal(t, "a leads", zktest.Await(t, a.lines, "a's leadership"))
	b := start(t, bin, server.Addr(), "b")
	candidates := 0
	zktest.AwaitEvent(t, server, func(e zkserver.Event) bool {
		if e.Kind == zkserver.Served && e.Request.Op == zkserver.OpCreate2 && strings.Contains(e.Request.Path, "lock-") {
			candidates++
		}
		return candidates == 2
	})
	require.Equal(t, http.StatusOK, a.status(t))
	require.Equal(t, http.StatusServiceUnavailable, b.status(t))

	require.NoError(t, a.cmd.Process.Signal(os.Interrupt))

	require.Equal(t, "b leads", zktest.Await(t, b.lines, "b's leadership"))
	require.True(t, strings.HasPrefix(zktest.Await(t, a.lines, "a's end"), "a no longer leads"))
	require.NoError(t, a.cmd.Wait())
	require.Equal(t, http.StatusOK, b.status(t))
}

// TestStandbyAddressThatIsTaken ends a replica before it can lead.
func TestStandbyAddressThatIsTaken(t *testing.T) {
	server := zktest.NewServer(t)
	ended := make(chan error, 1)
	go func() { ended <- run(server.Addr(), "c", server.Addr()) }()
	require.ErrorContains(t, zktest.Await(t, ended, "the end"), "address already in use")
}
