// SPDX-License-Identifier: Apache-2.0

package barriers_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testkit/meters"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/barriers"
	"github.com/gocurator/curator/testing/zktest"
)

// Each barrier counts the calls that wait, and their results.
func TestTelemetryOfBarriers(t *testing.T) {
	t.Parallel()
	reader, server := meters.New(), zktest.NewServer(t)
	client := zktest.Client(t, server, reader.Option)
	measured := func() map[string]float64 {
		values := map[string]float64{}
		for name, value := range reader.Values(t) {
			if name, ok := strings.CutPrefix(name, "curator.barrier."); ok && !strings.Contains(name, ".sum{") {
				values[name] = value
			}
		}
		return values
	}

	first, second := newDouble(t, client, 2), newDouble(t, zktest.Client(t, server), 2)
	require.Equal(t, map[string]float64{"waiting{curator.recipe=double_barrier}": 0}, measured())
	entered := later(func() error { return first.Enter(zktest.Context(t)) })
	awaitMembers(t, client, 1)
	require.Equal(t, map[string]float64{"waiting{curator.recipe=double_barrier}": 1}, measured())
	require.NoError(t, second.Enter(zktest.Context(t)))
	require.NoError(t, zktest.Await(t, entered, "the first member"))
	want := map[string]float64{
		"waiting{curator.recipe=double_barrier}":                              0,
		"wait.duration{curator.outcome=passed,curator.recipe=double_barrier}": 1,
	}
	require.Equal(t, want, measured())
	left := later(func() error { return second.Leave(zktest.Context(t)) })
	require.NoError(t, first.Leave(zktest.Context(t)))
	require.NoError(t, zktest.Await(t, left, "the second member"))
	want["wait.duration{curator.outcome=passed,curator.recipe=double_barrier}"] = 2
	require.Equal(t, want, measured())

	barrier := must.Get(barriers.NewDistributedBarrier(client, "/barrier"))(t)
	require.NoError(t, barrier.WaitOnBarrier(zktest.Context(t)))
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, barrier.WaitOnBarrier(gone), context.Canceled)
	want["wait.duration{curator.outcome=failed,curator.recipe=barrier}"] = 1
	want["waiting{curator.recipe=barrier}"], want["wait.duration{curator.outcome=passed,curator.recipe=barrier}"] = 0, 1
	require.Equal(t, want, measured())
}
