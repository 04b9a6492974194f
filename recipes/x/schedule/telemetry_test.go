// SPDX-License-Identifier: Apache-2.0

package schedule_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/meters"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/x/schedule"
	"github.com/gocurator/curator/testing/zktest"
)

// TestTelemetry: a replica measures its runs by their outcomes, how late they were and how long they took, and the
// ticks that it drops. Each attempt is a span.
func TestTelemetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		reader, spans := meters.New(), tracetest.NewSpanRecorder()
		client := zktest.Client(t, w.server, reader.Option,
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
		s := must.Get(schedule.New(client, root, job))(t)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()

		sleepInto(time.Minute, 4*time.Minute+50*time.Second)

		require.Equal(t, map[string]float64{
			"missed": 2, "running": 1, "lateness": 2,
			"duration{curator.schedule.outcome=succeeded}": 1, "duration{curator.schedule.outcome=failed}": 1,
		}, measured(t, reader))
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
		runs := slices.DeleteFunc(spans.Ended(), func(s trace.ReadOnlySpan) bool { return s.Name() != "run job" })
		require.Len(t, runs, 3)
		require.Len(t, runs[0].Events(), 1, "the error")
		require.Contains(t, runs[0].Attributes(), attribute.String("curator.schedule.job", "job"))
	})
}

// measured returns the values of the instruments of this package, without their common prefix.
func measured(t *testing.T, reader *meters.Reader) map[string]float64 {
	t.Helper()
	values := make(map[string]float64)
	for name, value := range reader.Values(t) {
		if name, ok := strings.CutPrefix(name, "curator.schedule."); ok && !strings.Contains(name, ".sum") {
			values[strings.TrimSuffix(name, "{}")] = value
		}
	}
	return values
}
