// SPDX-License-Identifier: Apache-2.0

package locks_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zktest"
)

// The test binary, started with this in its environment, is one of the processes
// of TestProcessesTakeTurns.
const (
	workerEnv  = "CURATOR_TEST_LOCK_WORKER" // the connection string
	counterEnv = "CURATOR_TEST_COUNTER"     // the counter's file
	turnsEnv   = "CURATOR_TEST_TURNS"
)

// Eight processes that share nothing but ZooKeeper take turns at a counter that
// nothing else protects.
func TestProcessesTakeTurns(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("needs Java: an ensemble of three real servers")
	}
	const processes, turns = 8, 25
	ensemble := zktest.NewEnsemble(t, 3)
	folder := t.TempDir()
	counter := filepath.Join(folder, "counter")
	require.NoError(t, os.WriteFile(counter, []byte("0"), 0o600))

	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	var workers []*exec.Cmd
	var output [processes]bytes.Buffer
	for i := range processes {
		worker := exec.CommandContext(ctx, os.Args[0])
		worker.Env = append(os.Environ(), workerEnv+"="+ensemble.ConnectString(),
			counterEnv+"="+counter, turnsEnv+"="+strconv.Itoa(turns))
		worker.Stdout, worker.Stderr = &output[i], &output[i]
		require.NoError(t, worker.Start())
		workers = append(workers, worker)
	}
	for i, worker := range workers {
		require.NoError(t, worker.Wait(), "process %d:\n%s", i, output[i].String())
	}
	final, err := os.ReadFile(counter)
	require.NoError(t, err)
	require.Equal(t, strconv.Itoa(processes*turns), string(final))
	checkTokens(t, counter+".log", processes*turns)
}

// checkTokens checks that the tokens, written under the lock one line a hold, rise
// from line to line.
func checkTokens(t *testing.T, path string, holds int) {
	t.Helper()
	file, err := os.Open(path)
	require.NoError(t, err)
	defer file.Close()
	lines := bufio.NewScanner(file)
	var last int64
	n := 0
	for ; lines.Scan(); n++ {
		token, err := strconv.ParseInt(lines.Text(), 10, 64)
		require.NoError(t, err)
		require.Greater(t, token, last, "hold %d", n)
		last = token
	}
	require.NoError(t, lines.Err())
	require.Equal(t, holds, n)
}

// runWorker is one process; it returns its exit status.
func runWorker() int {
	if err := work(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func work() error {
	turns, err := strconv.Atoi(os.Getenv(turnsEnv))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	client, err := framework.Connect(ctx, os.Getenv(workerEnv), framework.WithSessionTimeout(30*time.Second))
	if err != nil {
		return err
	}
	defer client.Close()
	mutex, err := locks.NewInterProcessMutex(client, "/locks/counter")
	if err != nil {
		return err
	}
	for range turns {
		lease, err := mutex.Acquire(ctx)
		if err != nil {
			return err
		}
		if err := increment(os.Getenv(counterEnv), lease.Token()); err != nil {
			return err
		}
		if err := lease.Release(ctx); err != nil {
			return err
		}
	}
	return nil
}

// increment reads, dawdles and writes: what another process writes meanwhile is
// lost.
func increment(path string, token int64) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		return err
	}
	time.Sleep(rand.N(2 * time.Millisecond)) // the work, not a wait
	if err := os.WriteFile(path, []byte(strconv.Itoa(n+1)), 0o600); err != nil {
		return err
	}
	log, err := os.OpenFile(path+".log", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	_, err = fmt.Fprintln(log, token)
	return err
}
