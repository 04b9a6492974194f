// SPDX-License-Identifier: Apache-2.0

package locks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/module"
)

// telemetryScope is the name of the instrumentation scope.
const telemetryScope = "github.com/gocurator/curator/recipes/locks"

// The attributes of this package; "Metrics and traces" in doc.go has the table.
const (
	keyRecipe    = attribute.Key("curator.recipe")
	keyOutcome   = attribute.Key("curator.outcome")
	keyEnd       = attribute.Key("curator.end")
	keyReason    = attribute.Key("curator.reason")
	keyPath      = attribute.Key("curator.path")
	keyPosition  = attribute.Key("curator.position")
	keyFence     = attribute.Key("curator.fence")
	keySession   = attribute.Key("curator.session")
	keyErrorType = attribute.Key("error.type")
)

// The values of curator.outcome.
const (
	outcomeAcquired    = "acquired"
	outcomeNotAcquired = "not_acquired"
	outcomeCanceled    = "canceled"
	outcomeLost        = "lost"
	outcomeError       = "error"
)

// errorTypePanic is the error.type of an acquisition whose driver panicked.
const errorTypePanic = "panic"

// buckets has the upper bounds of the histograms, in seconds.
var buckets = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800}

// telemetry has the instruments of one lock. It is nil, and does nothing, if the client has
// no provider.
type telemetry struct {
	client  *framework.Framework
	lock    []attribute.KeyValue // on everything: the recipe, and the path if the client says so
	tracer  trace.Tracer
	acquire metric.Float64Histogram
	hold    metric.Float64Histogram
	held    metric.Int64UpDownCounter
	waiting metric.Int64UpDownCounter
	losses  metric.Int64Counter
}

func newTelemetry(client *framework.Framework, recipe, path string) (*telemetry, error) {
	reports, enabled := client.Telemetry()
	if !enabled {
		return nil, nil //nolint:nilnil // nil is the telemetry that does nothing
	}
	t := &telemetry{
		client: client,
		lock:   []attribute.KeyValue{keyRecipe.String(recipe)},
		tracer: reports.TracerProvider.Tracer(telemetryScope, trace.WithInstrumentationVersion(module.Version())),
	}
	if reports.PathAttribute {
		t.lock = append(t.lock, keyPath.String(path))
	}
	meter := reports.MeterProvider.Meter(telemetryScope, metric.WithInstrumentationVersion(module.Version()))
	var errs [5]error
	t.acquire, errs[0] = meter.Float64Histogram("curator.lock.acquire.duration",
		metric.WithUnit("s"), metric.WithDescription("Time from the call to acquire to its result."),
		metric.WithExplicitBucketBoundaries(buckets...))
	t.hold, errs[1] = meter.Float64Histogram("curator.lock.hold.duration",
		metric.WithUnit("s"), metric.WithDescription("Time from the grant of a lock to its release or loss."),
		metric.WithExplicitBucketBoundaries(buckets...))
	t.held, errs[2] = meter.Int64UpDownCounter("curator.lock.held",
		metric.WithUnit("{hold}"), metric.WithDescription("Locks and permits that this process holds."))
	t.waiting, errs[3] = meter.Int64UpDownCounter("curator.lock.waiting",
		metric.WithUnit("{waiter}"), metric.WithDescription("Acquisitions of this process that wait behind another one."))
	t.losses, errs[4] = meter.Int64Counter("curator.lock.lost",
		metric.WithUnit("{loss}"), metric.WithDescription("Locks and permits that were lost while held."))
	if err := errors.Join(errs[:]...); err != nil {
		return nil, fmt.Errorf("locks: telemetry: %w", err)
	}
	t.startAtZero()
	return t, nil
}

// startAtZero creates the counters of the lock with zeros. A counter that begins with its
// first event hides that event from a rate or an increase.
func (t *telemetry) startAtZero() {
	ctx := context.Background()
	t.held.Add(ctx, 0, t.with())
	t.waiting.Add(ctx, 0, t.with())
	for _, reason := range []framework.LostReason{
		framework.ReasonSuspended, framework.ReasonLeaseEnd, framework.ReasonSessionExpired,
		framework.ReasonNodeDeleted, framework.ReasonAuthFailed, framework.ReasonClosed,
	} {
		t.losses.Add(ctx, 0, t.with(keyReason.String(string(reason))))
	}
}

func (t *telemetry) with(more ...attribute.KeyValue) metric.MeasurementOption {
	return metric.WithAttributes(slices.Concat(t.lock, more)...)
}

// acquireSpan records one call to acquire. It is nil, and does nothing, without telemetry.
type acquireSpan struct {
	t        *telemetry
	span     trace.Span
	began    time.Time
	waiting  bool
	position int
	over     bool
}

// begin returns the context to acquire with. The caller ends the span when the acquisition
// returns, and defers abandon in case a driver panics.
func (t *telemetry) begin(ctx context.Context) (context.Context, *acquireSpan) {
	if t == nil {
		return ctx, nil
	}
	a := &acquireSpan{t: t, began: time.Now(), position: -1}
	ctx, a.span = t.tracer.Start(ctx, "acquire lock", trace.WithAttributes(t.lock...)) //nolint:spancheck // end does
	return ctx, a
}

// queued records that ours is about to wait, and its position if that has changed.
func (a *acquireSpan) queued(ctx context.Context, contenders []string, ours string) {
	if a == nil {
		return
	}
	if position := slices.Index(contenders, ours); position != a.position {
		a.position = position
		a.span.AddEvent("queued", trace.WithAttributes(keyPosition.Int(position)))
	}
	a.waits(ctx)
}

// waits counts this acquisition as waiting, once.
func (a *acquireSpan) waits(ctx context.Context) {
	if a != nil && !a.waiting {
		a.waiting = true
		a.t.waiting.Add(ctx, 1, a.t.with())
	}
}

func (a *acquireSpan) suspended() {
	if a != nil {
		a.span.AddEvent("suspended")
	}
}

// granted records the beginning of a hold, which released or lost ends.
func (a *acquireSpan) granted(token int64, session *framework.Session) {
	if a == nil {
		return
	}
	a.span.AddEvent("granted")
	a.span.SetAttributes(keyFence.Int64(token), keySession.String(session.String()))
	a.t.held.Add(context.Background(), 1, a.t.with())
}

// end measures the acquisition. ctx is the context that begin returned.
func (a *acquireSpan) end(ctx context.Context, err error) {
	if a != nil {
		outcome, errorType := classify(ctx, err)
		a.finish(ctx, outcome, errorType)
	}
}

// abandon measures an acquisition that has not returned because a driver panicked. After
// end it does nothing.
func (a *acquireSpan) abandon(ctx context.Context) {
	if a != nil && !a.over {
		a.finish(ctx, outcomeError, errorTypePanic)
	}
}

func (a *acquireSpan) finish(ctx context.Context, outcome, errorType string) {
	a.over = true
	defer a.span.End()
	if a.waiting {
		a.t.waiting.Add(ctx, -1, a.t.with())
	}
	told := []attribute.KeyValue{keyOutcome.String(outcome)}
	if errorType != "" {
		told = append(told, keyErrorType.String(errorType))
	}
	a.span.SetAttributes(told...)
	reports, _ := a.t.client.Telemetry()
	a.span.SetAttributes(reports.Server...)
	if outcome == outcomeLost || outcome == outcomeError {
		a.span.SetStatus(codes.Error, errorType) // not the text of the error, which has the path in it
	}
	a.t.acquire.Record(ctx, time.Since(a.began).Seconds(), a.t.with(told...))
}

// classify returns the outcome of an acquisition and, for a failure, the type of its error.
func classify(ctx context.Context, err error) (outcome, errorType string) {
	switch {
	case err == nil:
		return outcomeAcquired, ""
	case ctx.Err() != nil: // before the others, which it may have caused
		return outcomeCanceled, framework.ErrorType(ctx.Err())
	case errors.Is(err, ErrNotAcquired):
		return outcomeNotAcquired, ""
	case errors.Is(err, ErrSequenceExhausted):
		return outcomeError, "sequence_exhausted"
	case errors.Is(err, errOwnNodeGone), errors.Is(err, framework.ErrSessionExpired):
		return outcomeLost, framework.ErrorType(err)
	default:
		return outcomeError, framework.ErrorType(err)
	}
}

// released measures a hold that its owner has released.
func (t *telemetry) released(ctx context.Context, since time.Time) {
	if t != nil {
		t.ended(ctx, since, "released")
	}
}

// lost measures a hold that was lost.
func (t *telemetry) lost(since time.Time, cause error) {
	if t == nil {
		return
	}
	ctx := context.Background()
	t.ended(ctx, since, "lost")
	t.losses.Add(ctx, 1, t.with(keyReason.String(lossReason(cause))))
}

// lossReason returns the attribute curator.reason for the cause of a loss.
func lossReason(cause error) string {
	if lost, ok := errors.AsType[*LostError](cause); ok {
		return string(lost.Reason)
	}
	return "unknown"
}

func (t *telemetry) ended(ctx context.Context, since time.Time, how string) {
	t.held.Add(ctx, -1, t.with())
	t.hold.Record(ctx, time.Since(since).Seconds(), t.with(keyEnd.String(how)))
}
