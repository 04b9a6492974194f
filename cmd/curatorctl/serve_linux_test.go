// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/testing/zktest"
)

var servedLocks = flag.Int("served-locks", 0, "show so many locks to a hundred viewers, and measure the memory of curatorctl serve")

// TestServeMemory is that of a process of its own, built without the race detector: less than 200 MB
// with 100,000 locks, each with a holder and a waiter, and 100 viewers.
func TestServeMemory(t *testing.T) {
	if *servedLocks == 0 {
		t.Skip("without -served-locks: make test-long gives it")
	}
	const viewers, rounds, limitKB = 100, 5, 200_000
	server := zktest.NewServer(t)
	client := zktest.Client(t, server)
	contender := func(lock, place, version int) (path string, data []byte) {
		return fmt.Sprintf("/locks/%06d/_c_%08x-5bf2-4c4b-8f0e-3c9a5d1f7b2%d-lock-%010d", lock, lock, place, place),
			fmt.Appendf(nil, "worker-%d.internal.example/%d nightly %d", lock%40, 1000+lock, version)
	}
	for from := 0; from < *servedLocks; from += 5000 {
		var ops []framework.Op
		for lock := from; lock < min(from+5000, *servedLocks); lock++ {
			for place := range 2 {
				path, data := contender(lock, place, 0)
				ops = append(ops, framework.CreateOp(path, data, framework.CreatingParentsIfNeeded(), framework.WithMode(framework.Ephemeral)))
			}
		}
		must.Get(client.Bulk(zktest.Context(t), ops))(t)
	}
	cmd := exec.Command(os.Args[0], "serve", "-listen", "127.0.0.1:0") //nolint:gosec // this program, which the test ends
	cmd.Env = append(os.Environ(), asProgram+"=1", "CURATOR_SERVERS="+server.Addr())
	stdout := must.Get(cmd.StdoutPipe())(t)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait() // its status is that of the signal
	})
	line := must.Get(bufio.NewReader(stdout).ReadString('\n'))(t)
	addr := strings.TrimSpace(strings.TrimPrefix(line, "listening on http://"))

	answered := make(chan int, viewers*rounds)
	var all sync.WaitGroup
	for viewer := range viewers {
		all.Go(func() {
			for range rounds {
				target := []string{"/", "/?page=7", "/?q=worker-7", "/?page=1"}[viewer%4]
				request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr+target, http.NoBody)
				if err != nil {
					continue
				}
				answer, err := http.DefaultClient.Do(request)
				if err != nil {
					continue
				}
				if _, err := io.Copy(io.Discard, answer.Body); err == nil {
					answered <- answer.StatusCode
				}
				_ = answer.Body.Close() // it was read
				time.Sleep(time.Second) // the process has a clock of its own
			}
		})
	}
	for lock := range min(*servedLocks, 1000) { // the next picture differs
		path, data := contender(lock, 0, 1)
		require.NoError(t, client.Set(zktest.Context(t), path, data))
	}
	all.Wait()
	close(answered)
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	statuses := make(map[int]int)
	for status := range answered {
		statuses[status]++
	}
	require.Positive(t, statuses[http.StatusOK], statuses)
	status := must.Get(os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid)))(t)
	_, peak, found := strings.Cut(string(status), "VmHWM:")
	require.True(t, found)
	var kB int
	must.Get(fmt.Sscan(peak, &kB))(t)
	t.Logf("%d kB at the peak, answers by status: %v", kB, statuses)
	require.Less(t, kB, limitKB)
}
