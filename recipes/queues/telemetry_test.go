// SPDX-License-Identifier: Apache-2.0

package queues_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/testing/zktest"
)

// leftOut returns the value of the counter of what is left out, and the path that it tells.
func leftOut(t *testing.T, reader metric.Reader) (value int64, told string) {
	t.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(t.Context(), &all))
	for _, scope := range all.ScopeMetrics {
		if scope.Scope.Name != "github.com/gocurator/curator/recipes/queues" {
			continue
		}
		require.Len(t, scope.Metrics, 1)
		require.Equal(t, "curator.queues.left_out", scope.Metrics[0].Name)
		sum, ok := scope.Metrics[0].Data.(metricdata.Sum[int64])
		require.True(t, ok)
		require.Len(t, sum.DataPoints, 1)
		attribute, _ := sum.DataPoints[0].Attributes.Value("curator.path")
		return sum.DataPoints[0].Value, attribute.AsString()
	}
	require.Fail(t, "no metric of this package")
	return 0, ""
}

// What is left out is counted each time, also when it has changed and still cannot be read.
func TestTelemetryLeftOutItemsAreCounted(t *testing.T) {
	t.Parallel()
	for want, opts := range map[string][]framework.Option{"": nil, path: {framework.WithPathAttribute()}} {
		reader, server := metric.NewManualReader(), zktest.NewServer(t)
		producer := zktest.Client(t, server)
		client := zktest.Client(t, server, append(opts, framework.WithMeterProvider(metric.NewMeterProvider(metric.WithReader(reader))))...)
		items := consumed(t, newQueue(t, client))
		value, told := leftOut(t, reader)
		require.Zero(t, value, "it exists from the start")
		require.Equal(t, want, told)
		for n := range int64(2) {
			bad := framework.JoinPath(path, "queue-0000000000")
			if n == 0 {
				_, err := producer.Create(zktest.Context(t), bad, []byte("no envelope"), framework.CreatingParentsIfNeeded())
				require.NoError(t, err)
			} else {
				require.NoError(t, producer.Set(zktest.Context(t), bad, []byte("none either")))
			}
			require.NoError(t, newQueue(t, producer).Put(zktest.Context(t), []byte("good")))
			require.Equal(t, []string{"good"}, awaitItems(t, items, 1))
			value, _ := leftOut(t, reader)
			require.Equal(t, n+1, value)
		}
	}
}
