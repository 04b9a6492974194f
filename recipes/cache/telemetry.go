// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/gocurator/curator/framework"
)

// telemetryScope is the name under which instruments are made.
const telemetryScope = "github.com/gocurator/curator/recipes/cache"

// The attributes of this package; "Metrics" in doc.go has the table.
const (
	keyEvent = attribute.Key("curator.event")
	keyPath  = attribute.Key("curator.path")
)

// events are the values of curator.event.
var events = map[EventType]string{
	NodeCreated: "node_created", NodeChanged: "node_changed", NodeDeleted: "node_deleted", Initialized: "initialized",
}

// buckets are the upper bounds of the duration of a comparison, in seconds.
var buckets = []float64{.001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300}

// telemetry measures one cache. It is nil, and does nothing, if the client has no meter
// provider.
type telemetry struct {
	cache  []attribute.KeyValue // the path, if the client shows paths
	events metric.Int64Counter
	nodes  metric.Int64UpDownCounter
	resync metric.Float64Histogram
	failed metric.Int64Counter

	inPicture int64 // znodes
}

func newTelemetry(client *framework.Framework, path string) (*telemetry, error) {
	reports, enabled := client.Telemetry()
	if !enabled {
		return nil, nil //nolint:nilnil // nil is the telemetry that does nothing
	}
	t := new(telemetry)
	if reports.PathAttribute {
		t.cache = append(t.cache, keyPath.String(path))
	}
	meter := reports.MeterProvider.Meter(telemetryScope)
	var errs [4]error
	t.events, errs[0] = meter.Int64Counter("curator.cache.events",
		metric.WithUnit("{event}"), metric.WithDescription("Changes of the pictures of caches."))
	t.nodes, errs[1] = meter.Int64UpDownCounter("curator.cache.nodes",
		metric.WithUnit("{znode}"), metric.WithDescription("Znodes in the pictures of caches."))
	t.resync, errs[2] = meter.Float64Histogram("curator.cache.resync.duration",
		metric.WithUnit("s"), metric.WithDescription("Time to compare a picture with the whole tree, after a start or a gap in the events."),
		metric.WithExplicitBucketBoundaries(buckets...))
	t.failed, errs[3] = meter.Int64Counter("curator.cache.unreadable",
		metric.WithUnit("{read}"), metric.WithDescription("Reads of znodes that were refused or could not be understood."))
	if err := errors.Join(errs[:]...); err != nil {
		return nil, fmt.Errorf("telemetry: %w", err)
	}
	ctx := context.Background()
	// A counter that exists from the start shows that nothing has happened yet.
	for _, name := range events {
		t.events.Add(ctx, 0, t.with(keyEvent.String(name)))
	}
	t.nodes.Add(ctx, 0, t.with())
	t.failed.Add(ctx, 0, t.with())
	return t, nil
}

func (t *telemetry) with(more ...attribute.KeyValue) metric.MeasurementOption {
	return metric.WithAttributes(slices.Concat(t.cache, more)...)
}

// event counts an event. Only the engine calls it and the other methods.
func (t *telemetry) event(event EventType) {
	if t == nil {
		return
	}
	ctx := context.Background()
	t.events.Add(ctx, 1, t.with(keyEvent.String(events[event])))
	switch event {
	case NodeCreated:
		t.count(1)
	case NodeDeleted:
		t.count(-1)
	default:
	}
}

func (t *telemetry) count(n int64) {
	t.inPicture += n
	t.nodes.Add(context.Background(), n, t.with())
}

func (t *telemetry) resynced(began time.Time) {
	if t != nil {
		t.resync.Record(context.Background(), time.Since(began).Seconds(), t.with())
	}
}

func (t *telemetry) unreadable() {
	if t != nil {
		t.failed.Add(context.Background(), 1, t.with())
	}
}

// ended subtracts the znodes of a cache that has ended from the sum of all caches.
func (t *telemetry) ended() {
	if t != nil {
		t.count(-t.inPicture)
	}
}
