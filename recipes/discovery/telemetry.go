// SPDX-License-Identifier: Apache-2.0

package discovery

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/gocurator/curator/framework"
)

// telemetryScope is the name under which instruments are made.
const telemetryScope = "github.com/gocurator/curator/recipes/discovery"

// keyPath is the attribute of this package; "Metrics" in doc.go has the table. Log
// records have the same key.
const (
	keyPath = attribute.Key("curator.path")
	logPath = string(keyPath)
)

// telemetry is what one discovery measures. It is nil, and does nothing, for a
// discovery whose client has no provider.
type telemetry struct {
	attributes    metric.MeasurementOption // the path, if that is told
	meter         metric.Meter
	registrations metric.Int64UpDownCounter
	instances     metric.Int64UpDownCounter
	unusable      metric.Int64Counter
	age           metric.Float64ObservableGauge

	mu        sync.Mutex
	ages      map[any]func() time.Duration // of the caches that follow
	observing metric.Registration          // nil while none follows
}

func newTelemetry(client *framework.Framework, path string) (*telemetry, error) {
	reports, enabled := client.Telemetry()
	if !enabled {
		return nil, nil //nolint:nilnil // nil is the telemetry that does nothing
	}
	t := &telemetry{ages: map[any]func() time.Duration{}, attributes: metric.WithAttributes()}
	if reports.PathAttribute {
		t.attributes = metric.WithAttributes(keyPath.String(path))
	}
	t.meter = reports.MeterProvider.Meter(telemetryScope)
	var errs [4]error
	t.registrations, errs[0] = t.meter.Int64UpDownCounter("curator.discovery.registrations",
		metric.WithUnit("{instance}"), metric.WithDescription("Instances that this process keeps registered."))
	t.instances, errs[1] = t.meter.Int64UpDownCounter("curator.discovery.instances",
		metric.WithUnit("{instance}"), metric.WithDescription("Instances in the caches of services."))
	t.age, errs[2] = t.meter.Float64ObservableGauge("curator.discovery.age",
		metric.WithUnit("s"), metric.WithDescription("How old the instances of the oldest cache may be, 0 while connected."))
	t.unusable, errs[3] = t.meter.Int64Counter("curator.discovery.left_out",
		metric.WithUnit("{instance}"), metric.WithDescription("Znodes among instances that were left out: not readable, or user code panicked on them."))
	if err := errors.Join(errs[:]...); err != nil {
		return nil, fmt.Errorf("telemetry: %w", err)
	}
	t.registered(0)
	t.seen(0)
	t.unusable.Add(context.Background(), 0, t.attributes)
	return t, nil
}

// registered measures that registrations have begun or ended.
func (t *telemetry) registered(n int64) {
	if t != nil {
		t.registrations.Add(context.Background(), n, t.attributes)
	}
}

// seen measures that instances have come or gone.
func (t *telemetry) seen(n int64) {
	if t != nil {
		t.instances.Add(context.Background(), n, t.attributes)
	}
}

// leftOut counts a znode that is left out.
func (t *telemetry) leftOut() {
	if t != nil {
		t.unusable.Add(context.Background(), 1, t.attributes)
	}
}

// follow observes the age of a cache until unfollow is called.
func (t *telemetry) follow(cache any, age func() time.Duration) error {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ages[cache] = age
	if t.observing != nil {
		return nil
	}
	observing, err := t.meter.RegisterCallback(t.observe, t.age)
	if err != nil {
		return fmt.Errorf("telemetry: %w", err)
	}
	t.observing = observing
	return nil
}

func (t *telemetry) unfollow(cache any) error {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	delete(t.ages, cache)
	var last metric.Registration
	if len(t.ages) == 0 {
		last, t.observing = t.observing, nil
	}
	t.mu.Unlock()
	if last == nil {
		return nil
	}
	return last.Unregister() // outside of mu, which observe takes
}

func (t *telemetry) observe(_ context.Context, o metric.Observer) error {
	t.mu.Lock()
	var oldest time.Duration
	for _, age := range t.ages {
		oldest = max(oldest, age())
	}
	t.mu.Unlock()
	o.ObserveFloat64(t.age, oldest.Seconds(), t.attributes)
	return nil
}
