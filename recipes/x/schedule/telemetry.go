// SPDX-License-Identifier: Apache-2.0

package schedule

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/internal/instruments"
)

const (
	// logPath is the key of the path in log records.
	logPath = string(instruments.Path)

	keyJob     = attribute.Key("curator.schedule.job")
	keyTick    = attribute.Key("curator.schedule.tick")
	keyAttempt = attribute.Key("curator.schedule.attempt")
	keyOutcome = attribute.Key("curator.schedule.outcome")
)

// telemetry is what a Scheduler measures; "Metrics" in doc.go has the table.
type telemetry struct {
	set                *instruments.Set
	running, missed    *instruments.Count
	lateness, duration *instruments.Histogram
}

func newTelemetry(client *framework.Framework, path string) (telemetry, error) {
	s := instruments.New(client, "schedule", path)
	t := telemetry{
		set:      s,
		running:  s.UpDown("curator.schedule.running", "{run}", "Functions of jobs that run in this process."),
		missed:   s.Counter("curator.schedule.missed", "{tick}", "Ticks that were dropped by CatchUp and Overlap."),
		lateness: s.Histogram("curator.schedule.lateness", "Time from a tick until its last attempt began."),
		duration: s.Histogram("curator.schedule.duration", "Time of the last attempt of a run, by outcome."),
	}
	return t, s.Err()
}

// begin begins the call of a function, and returns how to end it.
func (t *telemetry) begin(ctx context.Context, job string, run Run) (context.Context, func(error)) {
	if t.set == nil {
		return ctx, func(error) {}
	}
	t.running.Add(1)
	ctx, span := t.set.Tracer().Start(ctx, "run job", trace.WithAttributes(t.set.Attributes()...), //nolint:spancheck // the function ends it
		trace.WithAttributes(keyJob.String(job), keyTick.String(run.Tick.Format(time.RFC3339Nano)), keyAttempt.Int(run.Attempt)))
	return ctx, func(err error) { //nolint:spancheck // as above
		t.running.Add(-1)
		if err != nil {
			span.RecordError(err)
			span.SetStatus(codes.Error, "the function of the job has failed")
		}
		span.End()
	}
}

// over records a run that is over.
func (t *telemetry) over(run Run, outcome Outcome, now time.Time) {
	ctx := context.Background()
	if !run.Manual {
		t.lateness.Record(ctx, run.Late())
	}
	t.duration.Record(ctx, now.Sub(run.Began), keyOutcome.String(string(outcome)))
}
