// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// start registers the gauges, so that collectors can read them.
func (t *telemetry) start(c *client) (err error) {
	if t != nil {
		t.registration, err = t.gauges.register(c, &t.server)
	}
	return err
}

func (g *gauges) register(seen *client, newest *atomic.Pointer[[]attribute.KeyValue]) (metric.Registration, error) {
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
		if seen.guardian != nil {
			o.ObserveInt64(g.guarded, seen.guardian.guarded.Load())
		}
		return nil
	}, g.state, g.lease, g.watches, g.cleanup, g.oldest, g.guarded)
}
