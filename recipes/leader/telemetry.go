// SPDX-License-Identifier: Apache-2.0

package leader

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/module"
)

// telemetryScope is the name under which instruments are made.
const telemetryScope = "github.com/gocurator/curator/recipes/leader"

// keyPath is the attribute of this package; "Metrics and traces" in doc.go has the table. Log
// records have the same key.
const (
	keyPath = attribute.Key("curator.path")
	logPath = string(keyPath)
)

// buckets are the upper bounds of absences, in seconds.
var buckets = []float64{.001, .005, .01, .05, .1, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800}

// telemetry is what an observer measures. It is nil, and does nothing, if the
// client has no provider.
type telemetry struct {
	changes  metric.Int64Counter
	absences metric.Float64Histogram
	election metric.MeasurementOption
	absent   time.Time // since when there has been no leader; zero while there is one
}

func newTelemetry(client *framework.Framework, path string) (*telemetry, error) {
	reports, enabled := client.Telemetry()
	if !enabled {
		return nil, nil //nolint:nilnil // nil is the telemetry that does nothing
	}
	var attributes []attribute.KeyValue
	if reports.PathAttribute {
		attributes = append(attributes, keyPath.String(path))
	}
	t := &telemetry{election: metric.WithAttributes(attributes...)}
	meter := reports.MeterProvider.Meter(telemetryScope, metric.WithInstrumentationVersion(module.Version()))
	var errs [2]error
	t.changes, errs[0] = meter.Int64Counter("curator.leader.changes",
		metric.WithUnit("{change}"), metric.WithDescription("Leaders that observers have seen."))
	t.absences, errs[1] = meter.Float64Histogram("curator.leader.absence.duration",
		metric.WithUnit("s"), metric.WithDescription("Time in which an observer saw no leader."),
		metric.WithExplicitBucketBoundaries(buckets...))
	if err := errors.Join(errs[:]...); err != nil {
		return nil, fmt.Errorf("telemetry: %w", err)
	}
	t.changes.Add(context.Background(), 0, t.election) // or a rate would miss the first change
	return t, nil
}

// saw measures what an observer reports: a leader, or that there is none.
func (t *telemetry) saw(leader bool) {
	ctx := context.Background()
	switch {
	case t == nil:
	case !leader:
		t.absent = time.Now()
	default:
		t.changes.Add(ctx, 1, t.election)
		if !t.absent.IsZero() {
			t.absences.Record(ctx, time.Since(t.absent).Seconds(), t.election)
			t.absent = time.Time{}
		}
	}
}
