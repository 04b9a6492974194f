// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"errors"
	"net"
	"strconv"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/gocurator/curator/framework/internal/conduit"
	"github.com/gocurator/curator/internal/module"
)

// telemetryScope is the name under which instruments and spans are made.
const telemetryScope = "github.com/gocurator/curator/framework"

// The attributes of this package; "Metrics and traces" in doc.go has the table.
const (
	keyOperation  = attribute.Key("curator.operation")
	keyState      = attribute.Key(logState)
	keyPath       = attribute.Key(logPath)
	keyAttempt    = attribute.Key("curator.attempt")
	keyErrorType  = attribute.Key("error.type")
	keyServer     = attribute.Key(logServer) // without the port
	keyServerPort = attribute.Key("server.port")
)

// telemetry records the spans and metrics of a client. It is nil without a provider, so
// that requests then pay nothing for it.
type telemetry struct {
	tracer      trace.Tracer
	duration    metric.Float64Histogram
	retries     metric.Int64Counter
	transitions metric.Int64Counter
	gauges      gauges
	sizes       sizeInstruments
	paths       bool

	server       atomic.Pointer[[]attribute.KeyValue] // of the newest connection
	registration metric.Registration                  // of gauges, once started
}

// newTelemetry returns nil for a client without providers.
func newTelemetry(cfg *config) (*telemetry, error) {
	switch {
	case cfg.tracers == nil && cfg.meters == nil:
		return nil, nil //nolint:nilnil // nil is the telemetry that does nothing
	case cfg.tracers == nil:
		cfg.tracers = tracenoop.NewTracerProvider()
	case cfg.meters == nil:
		cfg.meters = metricnoop.NewMeterProvider()
	}
	t := &telemetry{tracer: cfg.tracers.Tracer(telemetryScope, trace.WithInstrumentationVersion(module.Version())), paths: cfg.pathAttribute}
	meter := cfg.meters.Meter(telemetryScope, metric.WithInstrumentationVersion(module.Version()))
	var errs [4]error
	t.duration, errs[0] = meter.Float64Histogram("curator.client.operation.duration",
		metric.WithUnit("s"), metric.WithDescription("Time from a call of a verb to its result, retries included."),
		metric.WithExplicitBucketBoundaries(.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30))
	t.retries, errs[1] = meter.Int64Counter("curator.client.retries",
		metric.WithUnit("{retry}"), metric.WithDescription("Attempts of a verb after its first."))
	t.transitions, errs[2] = meter.Int64Counter("curator.session.transitions",
		metric.WithUnit("{transition}"), metric.WithDescription("Changes of the connection state."))
	t.gauges, errs[3] = newGauges(meter)
	var sized [5]error
	t.sizes, sized = newSizeInstruments(meter)
	t.server.Store(new([]attribute.KeyValue))
	if err := errors.Join(append(errs[:], sized[:]...)...); err != nil {
		return nil, err
	}
	// A counter that first appears with its first event hides that event from queries for
	// its increase.
	for _, op := range measures {
		t.retries.Add(context.Background(), 0, t.sizes.of[op.name])
		t.sizes.warnings.Add(context.Background(), 0, t.sizes.of[op.name])
	}
	return t, nil
}

func (t *telemetry) stop() error {
	if t == nil || t.registration == nil {
		return nil
	}
	return t.registration.Unregister()
}

// connected records the server, for later measurements.
func (t *telemetry) connected(h conduit.Handshake) {
	if t == nil {
		return
	}
	server := []attribute.KeyValue{keyServer.String(h.Server)}
	if host, port, err := net.SplitHostPort(h.Server); err == nil {
		server[0] = keyServer.String(host)
		if n, err := strconv.Atoi(port); err == nil {
			server = append(server, keyServerPort.Int(n))
		}
	}
	t.server.Store(&server)
}

// entered is a listener of connection states.
func (t *telemetry) entered(s ConnectionState) {
	server := *t.server.Load()
	for _, state := range []ConnectionState{Connected, Suspended, Reconnected, Lost, ReadOnly} {
		count := int64(0) // so that all counters of a server are there from its first state on
		if state == s {
			count = 1
		}
		t.transitions.Add(context.Background(), count,
			metric.WithAttributes(append([]attribute.KeyValue{keyState.String(state.String())}, server...)...))
	}
}

// measurement is the span and the measurement of all tries of one call together. It is nil
// without telemetry.
type measurement struct {
	t         *telemetry
	operation attribute.KeyValue
	began     time.Time
	span      trace.Span
}

// begin returns the context of the call with its span.
func (t *telemetry) begin(ctx context.Context, op operation, path string) (*measurement, context.Context) {
	if t == nil {
		return nil, ctx
	}
	m := &measurement{t: t, operation: keyOperation.String(op.name), began: time.Now()}
	ctx, m.span = t.tracer.Start(ctx, op.span, trace.WithSpanKind(trace.SpanKindClient), //nolint:spancheck // end ends it
		trace.WithAttributes(m.operation))
	if t.paths {
		m.span.SetAttributes(keyPath.String(path))
	}
	return m, ctx
}

// retry counts a try that is not the first.
func (m *measurement) retry(ctx context.Context, try int) {
	if m == nil {
		return
	}
	m.t.retries.Add(ctx, 1, metric.WithAttributes(m.operation))
	m.span.AddEvent("retry", trace.WithAttributes(keyAttempt.Int(try)))
}

func (m *measurement) record(ctx context.Context, err error) {
	if m == nil {
		return
	}
	m.span.SetAttributes(*m.t.server.Load()...)
	measured := []attribute.KeyValue{m.operation}
	// A class only: texts have paths in them, and would make a series each.
	if err != nil {
		kind := keyErrorType.String(ErrorType(err))
		measured = append(measured, kind)
		m.span.SetAttributes(kind)
		if !isAnswer(err) {
			// Not the text of the error, which contains the path.
			m.span.SetStatus(codes.Error, kind.Value.AsString())
		}
	}
	m.t.duration.Record(ctx, time.Since(m.began).Seconds(), metric.WithAttributes(measured...))
}

// end ends the span, also of a call that has no outcome because user code panicked.
func (m *measurement) end() {
	if m != nil {
		m.span.End()
	}
}

// gauges are the asynchronous instruments, which cost nothing until they are collected.
type gauges struct {
	meter   metric.Meter
	state   metric.Int64ObservableGauge
	lease   metric.Float64ObservableGauge
	watches metric.Int64ObservableUpDownCounter
	cleanup metric.Int64ObservableUpDownCounter
	oldest  metric.Float64ObservableGauge
	guarded metric.Int64ObservableGauge
}

func newGauges(meter metric.Meter) (gauges, error) {
	g := gauges{meter: meter}
	var errs [6]error
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
	g.guarded, errs[5] = meter.Int64ObservableGauge("curator.session.guarded",
		metric.WithDescription("1 while a guard has the session, 0 while none has."))
	return g, errors.Join(errs[:]...)
}

// sizeInstruments are of each call, not of each verb: a pipeline has many.
type sizeInstruments struct {
	request, reply, children, transaction metric.Int64Histogram
	warnings                              metric.Int64Counter

	of map[string]metric.MeasurementOption // by the name of an operation
}

func newSizeInstruments(meter metric.Meter) (s sizeInstruments, errs [5]error) {
	bytes := metric.WithExplicitBucketBoundaries(128, 1<<10, 8<<10, 64<<10, 256<<10, 512<<10, 768<<10, 1<<20, 4<<20, 16<<20)
	s.request, errs[0] = meter.Int64Histogram("curator.client.request.size",
		metric.WithUnit("By"), metric.WithDescription("Sizes of requests."), bytes)
	s.reply, errs[1] = meter.Int64Histogram("curator.client.response.size",
		metric.WithUnit("By"), metric.WithDescription("Sizes of replies."), bytes)
	s.children, errs[2] = meter.Int64Histogram("curator.client.children",
		metric.WithUnit("{znode}"), metric.WithDescription("Children of the folders that were listed."),
		metric.WithExplicitBucketBoundaries(1, 10, 100, 1000, 5000, 10_000, 50_000, 100_000))
	s.transaction, errs[3] = meter.Int64Histogram("curator.client.transaction.operations",
		metric.WithUnit("{operation}"), metric.WithDescription("Operations of transactions."),
		metric.WithExplicitBucketBoundaries(1, 2, 5, 10, 50, 100, 500, 1000, 5000))
	s.warnings, errs[4] = meter.Int64Counter("curator.client.size.warnings",
		metric.WithUnit("{message}"), metric.WithDescription("Requests and replies above three quarters of the limit of a request."))
	s.of = make(map[string]metric.MeasurementOption)
	for _, op := range measures {
		s.of[op.name] = metric.WithAttributeSet(attribute.NewSet(keyOperation.String(op.name)))
	}
	return s, errs
}

func (t *telemetry) sized(ctx context.Context, c *call, request, reply, children int, isNear bool) {
	if t == nil {
		return
	}
	of := t.sizes.of[c.name]
	t.sizes.request.Record(ctx, int64(request), of)
	t.sizes.reply.Record(ctx, int64(reply), of)
	if children >= 0 {
		t.sizes.children.Record(ctx, int64(children))
	}
	if c.length > 0 {
		t.sizes.transaction.Record(ctx, int64(c.length))
	}
	if isNear {
		t.sizes.warnings.Add(ctx, 1, of)
	}
}
