// SPDX-License-Identifier: Apache-2.0

package partition_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testkit/meters"
	"github.com/gocurator/curator/recipes/x/partition"
	"github.com/gocurator/curator/testing/zktest"
)

// TestTelemetry: a member measures what it is to have, what it has, and what its plans move.
func TestTelemetry(t *testing.T) {
	play(t, partition.Fixed(numbered(6)...), func(t *testing.T, w *world) {
		reader := meters.New()
		client := zktest.Client(t, w.server, reader.Option)
		require.Empty(t, measured(t, reader), "nothing before the first member")
		other := w.join("a")
		w.await(map[string]int{"a": 6})
		k := &worker{w: w, client: client, ended: make(chan error, 1)}
		k.begin("b", nil)
		require.Equal(t, map[string]float64{"wanted": 0, "held": 0, "overdue": 0, "moves": 0, "failures": 0}, measured(t, reader), "they exist from the start")
		w.await(map[string]int{"a": 3, "b": 3})
		synctest.Wait()
		require.Equal(t, map[string]float64{"wanted": 3, "held": 3, "overdue": 0, "moves": 3, "failures": 0, "takeover.duration": 3}, measured(t, reader))
		other.leave()
		w.await(map[string]int{"b": 6})
		k.leave()
		require.Equal(t, map[string]float64{"wanted": 0, "held": 0, "overdue": 0, "moves": 3, "failures": 0, "takeover.duration": 6}, measured(t, reader))
	})
}

// measured returns the metrics of this package, without their common prefix.
func measured(t *testing.T, reader *meters.Reader) map[string]float64 {
	t.Helper()
	values := make(map[string]float64)
	for name, value := range reader.Values(t) {
		name = strings.TrimSuffix(name, "{}")
		if name, ok := strings.CutPrefix(name, "curator.partition."); ok && !strings.HasSuffix(name, ".sum") {
			values[name] = value
		}
	}
	return values
}
