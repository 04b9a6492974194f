// SPDX-License-Identifier: Apache-2.0

package partition_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/partition"
	"github.com/gocurator/curator/testing/zktest"
)

// TestTelemetry: a member measures what it is to have, what it has, and what its plans move.
func TestTelemetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, partition.Fixed(numbered(6)...))
		reader := sdk.NewManualReader()
		provider := sdk.NewMeterProvider(sdk.WithReader(reader))
		client := zktest.Client(t, w.server, framework.WithMeterProvider(provider))
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

// measured returns the sums and counts of the instruments of this package.
func measured(t *testing.T, reader *sdk.ManualReader) map[string]float64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(context.Background(), &all))
	const prefix = "curator.partition."
	values := make(map[string]float64)
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			if len(m.Name) <= len(prefix) || m.Name[:len(prefix)] != prefix {
				continue
			}
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					values[m.Name[len(prefix):]] += float64(p.Value)
				}
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					values[m.Name[len(prefix):]] += float64(p.Count)
				}
			}
		}
	}
	return values
}
