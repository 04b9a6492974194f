// SPDX-License-Identifier: Apache-2.0

//go:build !race

package zksim_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/testing/zksim"
)

// TestSeed: on one processor two runs of a seed are the same, line by line, unless the machine interrupts a goroutine, and another one
// of the same instant goes on first. The race detector has goroutines run in random order.
func TestSeed(t *testing.T) {
	const patience = 8 // runs
	before := runtime.GOMAXPROCS(1)
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
	for seed := range uint64(60) {
		p := []zksim.Program{mutexes(), lists()}[seed%2]
		p.Faults = append([]zksim.Fault{zksim.KillProcess, zksim.PauseProcess, zksim.KillSession}, zksim.Usual...)
		p.Settled = func(_ context.Context, w *zksim.World) { w.Findf("a history without findings has no log") }
		var logs []string
		for again := false; !again; {
			log := strings.Join(zksim.Run(t, seed, p).Log, "\n")
			again = slices.Contains(logs, log)
			logs = append(logs, log)
			require.LessOrEqual(t, len(logs), patience, "no two runs of seed %d are the same, such as\n%s\n\n%s", seed, logs[0], log)
		}
	}
}

// lists have clients log the names of children as servers say them.
func lists() zksim.Program {
	return zksim.Program{Join: func(w *zksim.World, c *zksim.Client) (func(context.Context, *rand.Rand), error) {
		return func(ctx context.Context, random *rand.Rand) {
			_, err := c.Create(ctx, fmt.Sprint("/", random.IntN(1000)), nil)
			names, failed := c.Children(ctx, "/")
			w.Logf("%v: %v, %v", names, err, failed)
		}, nil
	}}
}
