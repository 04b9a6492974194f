package framework

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/gocurator/curator/framework/internal/janitor"
	"github.com/gocurator/curator/framework/internal/watching"
)

// gauges are the asynchronous instruments, which cost nothing until they are collected.
type gauges struct {
	meter   metric.Meter
	state   metric.Int64ObservableGauge
	lease   metric.Float64ObservableGauge
	watches metric.Int64ObservableUpDownCounter
	cleanup metric.Int64ObservableUpDownCounter
	oldest  metric.Float64ObservableGauge
}

func newGauges(meter metric.Meter) (gauges, error) {
	g := gauges{meter: meter}
	var errs [5]error
	g.state, errs[0] = meter.Int64ObservableGauge("curator.session.state",
		metric.WithDescription("0 not connected, 1 connected, 2 suspended, 3 reconnected, 4 lost, 5 read-only."))
	g.lease, errs[1] = meter.Float64ObservableGauge("curator.session.lease.remaining",
		metric.WithUnit("s"), metric.WithDescription("Time for which the session is certain to live on at the server."))
	g.watches, errs[2] = meter.Int64ObservableUpDownCounter("curator.watch.active",
		metric.WithUnit("{watch}"), metric.WithDescription("Watches that the client has at its server."))
	g.cleanup, errs[3] = meter.Int64ObservableUpDownCounter("curator.cleanup.pending",
		metric.WithUnit("{deletion}"), metric.WithDescription("Deletions that go on in the background."))
	g.oldest, errs[4] = meter.Float64ObservableGauge("curator.cleanup.oldest.age",
		metric.WithUnit("s"), metric.WithDescription("Age of the oldest deletion that goes on in the background, 0 without one."))
	return g, errors.Join(errs[:]...)
}

// observed is what the gauges show.
type observed struct {
	tracker *tracker
	watches *watching.Registry
	janitor *janitor.Janitor
}

func (g *gauges) register(seen observed, newest *atomic.Pointer[[]attribute.KeyValue]) (metric.Registration, error) {
	return g.meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		state, session := seen.tracker.current()
		server := metric.WithAttributes(*newest.Load()...)
		o.ObserveInt64(g.state, int64(state), server)
		// Before the first session there is no lease that could be short.
		if session != nil {
			o.ObserveFloat64(g.lease, max(0, time.Until(session.Deadline()).Seconds()), server)
		}
		o.ObserveInt64(g.watches, int64(seen.watches.Active()))
		pending, oldest := seen.janitor.Unfinished()
		o.ObserveInt64(g.cleanup, int64(pending))
		o.ObserveFloat64(g.oldest, oldest.Seconds())
		return nil
	}, g.state, g.lease, g.watches, g.cleanup, g.oldest)
}
