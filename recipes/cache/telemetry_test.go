// SPDX-License-Identifier: Apache-2.0

package cache_test

import (
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/testing/zktest"
)

// measured returns the sums of this package's instruments, with curator.event behind a colon,
// and the count of resyncs.
func measured(t *testing.T, reader metric.Reader) map[string]int64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(t.Context(), &all))
	sums := map[string]int64{}
	for _, scope := range all.ScopeMetrics {
		if scope.Scope.Name != "github.com/gocurator/curator/recipes/cache" {
			continue
		}
		for _, m := range scope.Metrics {
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, point := range data.DataPoints {
					name := m.Name
					if event, found := point.Attributes.Value("curator.event"); found {
						name += ":" + event.AsString()
					}
					sums[name] += point.Value
				}
			case metricdata.Histogram[float64]:
				for _, point := range data.DataPoints {
					sums[m.Name] += int64(point.Count)
				}
			default:
				require.Fail(t, "an unknown kind", m.Name)
			}
		}
	}
	return sums
}

func TestTelemetryMetrics(t *testing.T) {
	reader := metric.NewManualReader()
	server := zktest.NewServer(t)
	client := zktest.Client(t, server, framework.WithMeterProvider(metric.NewMeterProvider(metric.WithReader(reader))))
	c := newCache(t, client, "/tree")
	require.Equal(t, map[string]int64{
		"curator.cache.events:node_created": 0, "curator.cache.events:node_changed": 0, "curator.cache.events:node_deleted": 0,
		"curator.cache.events:initialized": 0, "curator.cache.nodes": 0, "curator.cache.unreadable": 0,
	}, measured(t, reader))
	create(t, client, "/tree/a", "")
	create(t, client, "/tree/b", "")
	start(t, c)
	set(t, client, "/tree/a", "x")
	remove(t, client, "/tree/b")
	_, err := client.Create(t.Context(), "/tree/secret", nil, framework.WithACL(zk.WorldACL(zk.PermDelete)...))
	require.NoError(t, err)
	fresh(t, c)
	want := map[string]int64{
		"curator.cache.events:node_created": 3, "curator.cache.events:node_changed": 1, "curator.cache.events:node_deleted": 1,
		"curator.cache.events:initialized": 1, "curator.cache.nodes": 2, "curator.cache.resync.duration": 1,
	}
	got := measured(t, reader)
	require.Contains(t, []int64{0, 1}, got["curator.cache.unreadable"], "servers since 3.8.4 tell nothing of such a znode")
	delete(got, "curator.cache.unreadable")
	require.Equal(t, want, got)
	require.NoError(t, c.Close())
	require.Zero(t, measured(t, reader)["curator.cache.nodes"])
}
