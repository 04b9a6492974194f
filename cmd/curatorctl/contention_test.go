// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/cmd/curatorctl/internal/inspect"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zktest"
)

// TestContentionOfAKnownLoad: it reports the turns, holds and waiters of a load on either server.
func TestContentionOfAKnownLoad(t *testing.T) {
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		ctx, stop := context.WithCancel(zktest.Context(t))
		const hold = 80 * time.Millisecond
		var turns atomic.Int64
		var wg sync.WaitGroup
		for range 3 {
			mutex := must.Get(locks.NewInterProcessMutex(zktest.Client(t, server), "/locks/report", locks.WithLabel("worker")))(t)
			wg.Go(func() {
				for ctx.Err() == nil {
					err := mutex.Do(ctx, func(context.Context) error {
						time.Sleep(hold)
						turns.Add(1)
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
		said := curatorctl(t, server.ConnectString(), "", "contention", "/locks", "-for", "3s", "-o", "json")
		n := int(turns.Load())
		require.Zero(t, said.status, said.stderr)
		var c inspect.Contention
		require.NoError(t, json.Unmarshal([]byte(said.stdout), &c))
		require.Len(t, c.Locks, 1)
		l := c.Locks[0]
		// How right the figures are, TestTrafficOfAKnownLoad of package inspect shows on fake time.
		require.Positive(t, l.Turns, "%+v", c)
		require.LessOrEqual(t, l.Turns, n, "%+v", c)
		require.GreaterOrEqual(t, l.Hold.P50, hold.Seconds()/2, "%+v", c)
		require.Positive(t, l.Waiters, "%+v", c)
		require.LessOrEqual(t, l.Waiters, 2.1, "%+v", c)
		said = curatorctl(t, server.ConnectString(), "", "contention", "/locks", "-for", "200ms")
		require.Zero(t, said.status, said.stderr)
		require.Regexp(t, `(?m)^/locks/report +mutex +\d+ +\d\.\d +2 `, said.stdout)
	})
}
