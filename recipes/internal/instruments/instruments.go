// SPDX-License-Identifier: Apache-2.0

// Package instruments makes the metrics of the recipes. If a client has no meter provider, a
// [Set] is nil, as are the instruments that it makes, and nil instruments do nothing.
package instruments

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/module"
)

// Path is the attribute with the path of a recipe, if the client shows paths. Records in the
// log have the same key.
const Path = attribute.Key("curator.path")

// Durations has upper bounds for histograms of durations, in seconds.
var Durations = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800}

// Set makes the instruments of one recipe.
type Set struct {
	tracer trace.Tracer
	meter  metric.Meter
	base   []attribute.KeyValue
	errs   []error
}

// New returns the set of a recipe at path. The last element of its package names its scope.
func New(client *framework.Framework, recipe, path string, base ...attribute.KeyValue) *Set {
	reports, enabled := client.Telemetry()
	if !enabled {
		return nil
	}
	if path != "" && reports.PathAttribute {
		base = append(base, Path.String(path))
	}
	scope := "github.com/gocurator/curator/recipes/" + recipe
	return &Set{
		tracer: reports.TracerProvider.Tracer(scope, trace.WithInstrumentationVersion(module.Version())),
		meter:  reports.MeterProvider.Meter(scope, metric.WithInstrumentationVersion(module.Version())),
		base:   base,
	}
}

// Attributes returns what everything of the recipe has.
func (s *Set) Attributes() []attribute.KeyValue { return s.base }

// Tracer returns the tracer of the recipe.
func (s *Set) Tracer() trace.Tracer { return s.tracer }

// Err returns why an instrument could not be made, or nil.
func (s *Set) Err() error {
	if s == nil || len(s.errs) == 0 {
		return nil
	}
	return fmt.Errorf("telemetry: %w", errors.Join(s.errs...))
}

// Counter makes a counter. It starts at 0, for each of the attributes if there are any,
// because a counter that begins with its first event hides that event from a rate.
func (s *Set) Counter(name, unit, text string, each ...attribute.KeyValue) *Count {
	if s == nil {
		return nil
	}
	c, err := s.meter.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(text))
	return s.count(c, err, each)
}

// UpDown makes a counter that may fall.
func (s *Set) UpDown(name, unit, text string) *Count {
	if s == nil {
		return nil
	}
	c, err := s.meter.Int64UpDownCounter(name, metric.WithUnit(unit), metric.WithDescription(text))
	return s.count(c, err, nil)
}

func (s *Set) count(to adder, err error, each []attribute.KeyValue) *Count {
	if err != nil {
		s.errs = append(s.errs, err)
		return nil
	}
	c := &Count{to, s.base}
	for _, a := range each {
		c.Add(0, a)
	}
	if len(each) == 0 {
		c.Add(0)
	}
	return c
}

// Histogram makes a histogram of durations.
func (s *Set) Histogram(name, text string) *Histogram {
	if s == nil {
		return nil
	}
	h, err := s.meter.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(text),
		metric.WithExplicitBucketBoundaries(Durations...))
	if err != nil {
		s.errs = append(s.errs, err)
		return nil
	}
	return &Histogram{h, s.base}
}

type adder interface {
	Add(ctx context.Context, n int64, opts ...metric.AddOption)
}

// Count is a counter.
type Count struct {
	to   adder
	base []attribute.KeyValue
}

// Add adds n.
func (c *Count) Add(n int64, more ...attribute.KeyValue) {
	if c != nil {
		c.to.Add(context.Background(), n, with(c.base, more))
	}
}

// Histogram is a histogram of durations.
type Histogram struct {
	to   metric.Float64Histogram
	base []attribute.KeyValue
}

// Record records d. A sampled span in ctx may become an exemplar.
func (h *Histogram) Record(ctx context.Context, d time.Duration, more ...attribute.KeyValue) {
	if h != nil {
		h.to.Record(ctx, d.Seconds(), with(h.base, more))
	}
}

func with(base, more []attribute.KeyValue) metric.MeasurementOption {
	return metric.WithAttributes(slices.Concat(base, more)...)
}

// Gauge makes a gauge of the last number recorded.
func (s *Set) Gauge(name, unit, text string) *Gauge {
	if s == nil {
		return nil
	}
	g, err := s.meter.Int64Gauge(name, metric.WithUnit(unit), metric.WithDescription(text))
	if err != nil {
		s.errs = append(s.errs, err)
		return nil
	}
	return &Gauge{g, s.base}
}

// Gauge is a gauge of the last number recorded.
type Gauge struct {
	to   metric.Int64Gauge
	base []attribute.KeyValue
}

// Record records n.
func (g *Gauge) Record(n int) {
	if g != nil {
		g.to.Record(context.Background(), int64(n), with(g.base, nil))
	}
}

// Observe reports durations of read in a gauge until stop is called. read is called at any time.
func (s *Set) Observe(name, text string, read func() time.Duration) (stop func() error, err error) {
	if s == nil {
		return func() error { return nil }, nil
	}
	gauge, err := s.meter.Float64ObservableGauge(name, metric.WithUnit("s"), metric.WithDescription(text))
	if err != nil {
		return nil, fmt.Errorf("telemetry: %w", err)
	}
	r, err := s.meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		o.ObserveFloat64(gauge, read().Seconds(), with(s.base, nil))
		return nil
	}, gauge)
	if err != nil {
		return nil, fmt.Errorf("telemetry: %w", err)
	}
	return r.Unregister, nil
}
