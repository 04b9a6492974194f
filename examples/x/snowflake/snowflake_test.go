// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/gocurator/curator/recipes/x/slots"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// asProcess makes this test binary the program.
const asProcess = "CURATOR_TEST_SNOWFLAKE"

func TestMain(m *testing.M) {
	if os.Getenv(asProcess) != "" {
		main()
		return
	}
	goleak.VerifyTestMain(m)
}

// start starts a process of the program, whose ids come to ids.
func start(t *testing.T, connect string, ids chan<- int64) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), self, "-connect", connect, "-session", "3s")
	cmd.Env = append(os.Environ(), asProcess+"=1")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	read := make(chan struct{})
	go func() {
		defer close(read)
		for scanner := bufio.NewScanner(out); scanner.Scan(); {
			if id, err := strconv.ParseInt(scanner.Text(), 10, 64); err == nil { // or it was killed within the line
				select {
				case ids <- id:
				case <-t.Context().Done():
				}
			}
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-read
		_ = cmd.Wait() // killed, or ended before
	})
	return cmd
}

// TestSnowflakeThreeProcesses make no id twice. One is killed by kill -9 again and again, and started again at once.
func TestSnowflakeThreeProcesses(t *testing.T) {
	server := zktest.NewServer(t, zkserver.WithTick(500*time.Millisecond))
	ids, made := make(chan int64), make(map[int64]bool)
	numbers := func(until func(map[int64]int) bool) {
		t.Helper()
		found := make(map[int64]int)
		for !until(found) {
			id := zktest.Await(t, ids, "an id")
			require.False(t, made[id], "%d was made twice", id)
			made[id] = true
			found[id>>12&1023]++
		}
	}
	start(t, server.Addr(), ids)
	start(t, server.Addr(), ids)
	unlucky := start(t, server.Addr(), ids)
	numbers(func(found map[int64]int) bool { return found[0] > 20 && found[1] > 20 && found[2] > 20 })
	for round := range 2 { // its number is held until the session ends, and then kept for the delay
		require.NoError(t, unlucky.Process.Kill())
		unlucky = start(t, server.Addr(), ids)
		numbers(func(found map[int64]int) bool { return found[int64(3+round)] > 20 })
	}
	require.Greater(t, len(made), 100)
}

// TestSnowflakeGenerator makes more ids than a millisecond has.
func TestSnowflakeGenerator(t *testing.T) {
	server := zktest.NewServer(t)
	s, err := slots.New(zktest.Client(t, server), "/nodes", 1<<10, slots.Prefer(1023))
	require.NoError(t, err)
	slot, err := s.Take(zktest.Context(t))
	require.NoError(t, err)
	g, last := generator{slot: slot}, int64(0)
	for range 20_000 {
		id, err := g.next()
		require.NoError(t, err)
		require.Greater(t, id, last)
		require.EqualValues(t, 1023, id>>12&1023)
		last = id
	}
	require.NoError(t, slot.Release(zktest.Context(t)))
	_, err = g.next()
	require.Error(t, err)
}
