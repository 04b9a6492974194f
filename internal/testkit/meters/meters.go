// SPDX-License-Identifier: Apache-2.0

// Package meters reads what a client and its recipes measure, for tests.
package meters

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/gocurator/curator/framework"
)

// Reader reads the metrics of the clients that have its Option.
type Reader struct {
	Option framework.Option
	reader *sdkmetric.ManualReader
}

// New returns a Reader that has read nothing.
func New() *Reader {
	reader := sdkmetric.NewManualReader()
	return &Reader{framework.WithMeterProvider(sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))), reader}
}

// Values returns all numbers, by the names of their instruments and their attributes:
// "curator.lock.held{curator.recipe=mutex}". A histogram has its count, and its sum under the name
// with ".sum" behind it.
func (r *Reader) Values(tb testing.TB) map[string]float64 {
	tb.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(tb, r.reader.Collect(context.Background(), &all))
	values := make(map[string]float64)
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			add := func(suffix string, attributes attribute.Set, value float64) {
				values[m.Name+suffix+"{"+attributes.Encoded(attribute.DefaultEncoder())+"}"] = value
			}
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					add("", p.Attributes, float64(p.Value))
				}
			case metricdata.Gauge[int64]:
				for _, p := range data.DataPoints {
					add("", p.Attributes, float64(p.Value))
				}
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					add("", p.Attributes, float64(p.Count))
					add(".sum", p.Attributes, p.Sum)
				}
			}
		}
	}
	return values
}
