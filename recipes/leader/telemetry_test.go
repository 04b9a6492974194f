// SPDX-License-Identifier: Apache-2.0

package leader_test

import (
	"context"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/leader"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// metrics are the numbers of an election: counts, and the sums of histograms.
func metrics(t *testing.T, reader *sdkmetric.ManualReader) map[string]float64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(context.Background(), &all))
	values := make(map[string]float64)
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					values[m.Name+"{"+p.Attributes.Encoded(attribute.DefaultEncoder())+"}"] = float64(p.Value)
				}
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					values[m.Name+"{"+p.Attributes.Encoded(attribute.DefaultEncoder())+"}"] = p.Sum
				}
			}
		}
	}
	return values
}

// An election measures the time led and the losses with the instruments of the
// locks, and its observers the time without a leader. The counters exist from
// the start.
func TestTelemetryOfAnElection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const (
			changes  = "curator.leader.changes{}"
			absences = "curator.leader.absence.duration{}"
			held     = "curator.lock.held{curator.recipe=leader_latch}"
			losses   = "curator.lock.lost{curator.reason=session_expired,curator.recipe=leader_latch}"
			led      = "curator.lock.hold.duration{curator.end=released,curator.recipe=leader_latch}"
		)
		reader := sdkmetric.NewManualReader()
		server := zktest.NewServer(t, zkserver.WithoutListener())
		client := zktest.Client(t, server, framework.WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))))
		latch := newLatch(t, client, leader.WithID("a"))
		values := metrics(t, reader)
		require.Contains(t, values, held)
		require.Contains(t, values, losses)
		ctx, stop := context.WithCancel(t.Context())
		seen := observed(ctx, t, latch)
		zktest.Await(t, seen, "no leader")
		require.Contains(t, metrics(t, reader), changes)

		time.Sleep(5 * time.Second)
		require.NoError(t, latch.Start())
		zktest.Await(t, seen, "the leader")
		lease := awaitLeadership(t, latch)
		synctest.Wait()

		values = metrics(t, reader)
		require.InDelta(t, 1, values[changes], 0)
		require.InDelta(t, 5, values[absences], 0.1)
		require.InDelta(t, 1, values[held], 0, "%v", slices.Sorted(maps.Keys(values)))
		time.Sleep(7 * time.Second)
		require.NoError(t, latch.Close())
		require.Error(t, lease.Err())
		require.InDelta(t, 7, metrics(t, reader)[led], 0.1)
		stop()
	})
}
