// SPDX-License-Identifier: Apache-2.0

package discovery_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	api "go.opentelemetry.io/otel/metric"
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

// collecting is a provider of meters that collect while they add and remove a callback, as another goroutine may.
type collecting struct {
	api.MeterProvider
	collect func()
}

func (c collecting) Meter(name string, opts ...api.MeterOption) api.Meter {
	return collectingMeter{c.MeterProvider.Meter(name, opts...), c.collect}
}

type collectingMeter struct {
	api.Meter
	collect func()
}

func (c collectingMeter) RegisterCallback(f api.Callback, instruments ...api.Observable) (api.Registration, error) {
	r, err := c.Meter.RegisterCallback(f, instruments...)
	c.collect()
	return collectingRegistration{r, c.collect}, err
}

type collectingRegistration struct {
	api.Registration
	collect func()
}

func (c collectingRegistration) Unregister() error {
	c.collect()
	return c.Registration.Unregister()
}

func TestTelemetryIsCollectedWhileACacheBeginsAndEnds(t *testing.T) {
	reader, collected := metric.NewManualReader(), 0
	client := zktest.Client(t, zktest.NewServer(t), framework.WithMeterProvider(collecting{
		metric.NewMeterProvider(metric.WithReader(reader)), func() {
			require.NoError(t, reader.Collect(context.Background(), new(metricdata.ResourceMetrics))) // even after the test
			collected++
		},
	}))
	collected = 0 // the client has callbacks, too
	require.NoError(t, newProvider(t, newServices(t, client), discovery.ProviderConfig[string]{}).Close())
	require.Equal(t, 2, collected)
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
