// SPDX-License-Identifier: Apache-2.0

package partition

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
const telemetryScope = "github.com/gocurator/curator/recipes/partition"

// keyPath is the attribute of this package; "Metrics" in doc.go has the table. Log records have
// the same key.
const (
	keyPath = attribute.Key("curator.path")
	logPath = string(keyPath)
)

// buckets are the upper bounds of takeovers, in seconds.
var buckets = []float64{.001, .005, .01, .05, .1, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800}

// telemetry is what a member measures. It is nil, and does nothing, if the client has no
// provider.
type telemetry struct {
	attributes metric.MeasurementOption
	wanted     metric.Int64UpDownCounter
	held       metric.Int64UpDownCounter
	late       metric.Int64UpDownCounter
	moves      metric.Int64Counter
	takeovers  metric.Float64Histogram
}

func newTelemetry(client *framework.Framework, path string) (*telemetry, error) {
	reports, enabled := client.Telemetry()
	if !enabled {
		return nil, nil //nolint:nilnil // nil is the telemetry that does nothing
	}
	t := &telemetry{attributes: metric.WithAttributes()}
	if reports.PathAttribute {
		t.attributes = metric.WithAttributes(keyPath.String(path))
	}
	meter := reports.MeterProvider.Meter(telemetryScope, metric.WithInstrumentationVersion(module.Version()))
	var errs [5]error
	t.wanted, errs[0] = meter.Int64UpDownCounter("curator.partition.wanted",
		metric.WithUnit("{partition}"), metric.WithDescription("Partitions that the plan gives to this process."))
	t.held, errs[1] = meter.Int64UpDownCounter("curator.partition.held",
		metric.WithUnit("{partition}"), metric.WithDescription("Partitions that this process has."))
	t.late, errs[2] = meter.Int64UpDownCounter("curator.partition.overdue",
		metric.WithUnit("{partition}"), metric.WithDescription("Partitions whose function has not returned within the grace."))
	t.moves, errs[3] = meter.Int64Counter("curator.partition.moves",
		metric.WithUnit("{partition}"), metric.WithDescription("Partitions that plans of this process have moved from a member that stays."))
	t.takeovers, errs[4] = meter.Float64Histogram("curator.partition.takeover.duration",
		metric.WithUnit("s"), metric.WithDescription("Time from the plan until this process has a partition."),
		metric.WithExplicitBucketBoundaries(buckets...))
	if err := errors.Join(errs[:]...); err != nil {
		return nil, fmt.Errorf("telemetry: %w", err)
	}
	t.wants(0)
	t.holds(0)
	t.overdue(0)
	t.moved(0)
	return t, nil
}

func (t *telemetry) wants(n int64) {
	if t != nil {
		t.wanted.Add(context.Background(), n, t.attributes)
	}
}

func (t *telemetry) holds(n int64) {
	if t != nil {
		t.held.Add(context.Background(), n, t.attributes)
	}
}

func (t *telemetry) overdue(n int64) {
	if t != nil {
		t.late.Add(context.Background(), n, t.attributes)
	}
}

func (t *telemetry) moved(n int) {
	if t != nil {
		t.moves.Add(context.Background(), int64(n), t.attributes)
	}
}

func (t *telemetry) tookOver(d time.Duration) {
	if t != nil {
		t.takeovers.Record(context.Background(), d.Seconds(), t.attributes)
	}
}
