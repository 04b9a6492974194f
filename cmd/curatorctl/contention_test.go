// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/recipes/inspect"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zktest"
)

// TestContentionOfAKnownLoad: what it reports is within five hundredths of what the load itself has measured, and go tool pprof reads
// the same.
func TestContentionOfAKnownLoad(t *testing.T) {
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		ctx, stop := context.WithCancel(zktest.Context(t))
		var mu sync.Mutex
		var turns []time.Duration
		var wg sync.WaitGroup
		for range 3 {
			mutex, err := locks.NewInterProcessMutex(zktest.Client(t, server), "/locks/report", locks.WithLabel("worker"))
			require.NoError(t, err)
			wg.Go(func() {
				for ctx.Err() == nil {
					err := mutex.Do(ctx, func(context.Context) error {
						from := time.Now()
						time.Sleep(80 * time.Millisecond)
						mu.Lock()
						defer mu.Unlock()
						turns = append(turns, time.Since(from))
						return nil
					})
					if ctx.Err() == nil {
						assert.NoError(t, err)
					}
				}
			})
		}
		t.Cleanup(func() {
			stop()
			wg.Wait()
		})
		count := func() (n int, mean float64) {
			mu.Lock()
			defer mu.Unlock()
			for _, d := range turns {
				mean += d.Seconds() / float64(len(turns))
			}
			n, turns = len(turns), nil
			return n, mean
		}
		time.Sleep(200 * time.Millisecond)
		count()
		file := filepath.Join(t.TempDir(), "profile")
		said := curatorctl(t, server.ConnectString(), "", "contention", "/locks", "-for", "3s", "-o", "json", "-pprof", file)
		n, mean := count()
		require.Zero(t, said.status, said.stderr)
		var c inspect.Contention
		require.NoError(t, json.Unmarshal([]byte(said.stdout), &c))
		require.Len(t, c.Locks, 1)
		l := c.Locks[0]
		require.InEpsilon(t, n, l.Turns, 0.1, "%+v", c) // those before and after the command's time are among them
		require.InEpsilon(t, mean, l.Hold.P50, 0.15, "%+v", c)
		require.InDelta(t, 2, l.Waiters, 0.1)
		require.Contains(t, l.Longest[0].Owner, "worker")

		text, err := exec.CommandContext(t.Context(), "go", "tool", "pprof", "-raw", file).Output()
		require.NoError(t, err)
		require.Regexp(t, `turns/count hold/nanoseconds wait/nanoseconds`, string(text))
		require.Contains(t, string(text), "/locks/report")
		require.Contains(t, string(text), "worker")

		said = curatorctl(t, server.ConnectString(), "", "contention", "/locks", "-for", "200ms")
		require.Zero(t, said.status, said.stderr)
		require.Regexp(t, `(?m)^/locks/report +mutex +\d+ +\d\.\d +2 `, said.stdout)
	})
}
