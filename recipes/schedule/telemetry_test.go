// SPDX-License-Identifier: Apache-2.0

package schedule_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/schedule"
	"github.com/gocurator/curator/testing/zktest"
)

// TestTelemetry: a replica measures its runs by their outcomes, how late they were and how long they took, and the
// ticks that it drops. Each attempt is a span.
func TestTelemetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		reader, spans := sdk.NewManualReader(), tracetest.NewSpanRecorder()
		client := zktest.Client(t, w.server, framework.WithMeterProvider(sdk.NewMeterProvider(sdk.WithReader(reader))),
			framework.WithTracerProvider(trace.NewTracerProvider(trace.WithSpanProcessor(spans))))
		job := minutely()
		job.Jitter = 10 * time.Second
		job.Run = func(_ context.Context, tick schedule.Tick) error {
			time.Sleep(90 * time.Second)
			if tick.Time.Minute()%4 == 1 {
				return errors.New("broken")
			}
			return nil
		}
		s, err := schedule.New(client, root, job)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()

		sleepInto(time.Minute, 4*time.Minute+50*time.Second)

		require.Equal(t, map[string]float64{"missed": 2, "running": 1, "lateness": 2, "duration": 2, "duration succeeded": 1, "duration failed": 1}, measured(t, reader))
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
		runs := slices.DeleteFunc(spans.Ended(), func(s trace.ReadOnlySpan) bool { return s.Name() != "run job" })
		require.Len(t, runs, 3)
		require.Len(t, runs[0].Events(), 1, "the error")
		require.Contains(t, runs[0].Attributes(), attribute.String("curator.schedule.job", "job"))
	})
}

// measured returns the sums and counts of the instruments of this package.
func measured(t *testing.T, reader *sdk.ManualReader) map[string]float64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(context.Background(), &all))
	const prefix = "curator.schedule."
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
					if outcome, found := p.Attributes.Value("curator.schedule.outcome"); found {
						values[m.Name[len(prefix):]+" "+outcome.AsString()] += float64(p.Count)
					}
				}
			}
		}
	}
	return values
}
