// SPDX-License-Identifier: Apache-2.0

package discovery_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/discovery"
	"github.com/gocurator/curator/testing/zktest"
)

// measured returns the values of this package's instruments, and the paths that
// they tell.
func measured(t *testing.T, reader metric.Reader) (values map[string]float64, paths map[string]string) {
	t.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(t.Context(), &all))
	values, paths = map[string]float64{}, map[string]string{}
	for _, scope := range all.ScopeMetrics {
		if scope.Scope.Name != "github.com/gocurator/curator/recipes/discovery" {
			continue
		}
		for _, m := range scope.Metrics {
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				require.Equal(t, m.Name == "curator.discovery.left_out", data.IsMonotonic, m.Name)
				for _, point := range data.DataPoints {
					values[m.Name] += float64(point.Value)
					path, _ := point.Attributes.Value("curator.path")
					paths[m.Name] = path.AsString()
				}
			case metricdata.Gauge[float64]:
				for _, point := range data.DataPoints {
					values[m.Name] = point.Value
					path, _ := point.Attributes.Value("curator.path")
					paths[m.Name] = path.AsString()
				}
			default:
				require.Fail(t, "an unknown kind", m.Name)
			}
		}
	}
	return values, paths
}

func TestTelemetryMetrics(t *testing.T) {
	const registrations, instances, age = "curator.discovery.registrations", "curator.discovery.instances", "curator.discovery.age"
	const leftOut = "curator.discovery.left_out"
	reader, server := metric.NewManualReader(), zktest.NewServer(t)
	client := zktest.Client(t, server, framework.WithPathAttribute(),
		framework.WithMeterProvider(metric.NewMeterProvider(metric.WithReader(reader))))
	d := newServices(t, client)
	values, _ := measured(t, reader)
	require.Equal(t, map[string]float64{registrations: 0, instances: 0, leftOut: 0}, values, "they exist from the start")
	a := register(t, d, newInstance("a"))
	register(t, d, newInstance("b"))
	p := newProvider(t, d, discovery.ProviderConfig[string]{})
	another := newProvider(t, d, discovery.ProviderConfig[string]{})
	for _, one := range []*discovery.ServiceProvider[string]{p, another} {
		awaitIDs(t, one, "a", "b")
		awaitFresh(t, one)
	}

	values, paths := measured(t, reader)
	require.Equal(t, map[string]float64{registrations: 2, instances: 4, age: 0, leftOut: 0}, values)
	require.Equal(t, map[string]string{registrations: "/services", instances: "/services", age: "/services", leftOut: "/services"}, paths)

	require.NoError(t, d.Unregister(a))
	awaitIDs(t, p, "b")
	awaitFresh(t, p)
	require.NoError(t, another.Close())
	values, _ = measured(t, reader)
	require.Equal(t, map[string]float64{registrations: 1, instances: 1, age: 0, leftOut: 0}, values)

	require.NoError(t, server.Stop())
	zktest.AwaitState(t, client, framework.Suspended, framework.Lost)
	require.Eventually(t, func() bool { return p.Age() > 0 }, limit, time.Millisecond)
	values, _ = measured(t, reader)
	require.Positive(t, values[age])
	require.NoError(t, server.Restart())
	require.NoError(t, p.Close())
	require.NoError(t, d.Close())
	values, _ = measured(t, reader)
	require.Equal(t, map[string]float64{registrations: 0, instances: 0, leftOut: 0}, values)
}
