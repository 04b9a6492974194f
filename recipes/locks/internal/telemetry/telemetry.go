// SPDX-License-Identifier: Apache-2.0

// Package telemetry measures and traces what locks do, and logs the holds that they lose.
package telemetry

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/internal/instruments"
)

// The attributes; "Metrics and traces" in doc.go of package locks has the table.
const (
	keyRecipe    = attribute.Key("curator.recipe")
	keyOutcome   = attribute.Key("curator.outcome")
	keyEnd       = attribute.Key("curator.end")
	keyReason    = attribute.Key("curator.reason")
	keyPosition  = attribute.Key("curator.position")
	keyFence     = attribute.Key("curator.fence")
	keySession   = attribute.Key("curator.session")
	keyErrorType = attribute.Key("error.type")
)

// The values of curator.outcome.
const (
	Acquired    = "acquired"
	NotAcquired = "not_acquired"
	Canceled    = "canceled"
	Lost        = "lost"
	Error       = "error"
)

// Lock has the instruments of one lock.
type Lock struct {
	client              *framework.Framework
	lock                []attribute.KeyValue // on everything: the recipe, and the path if the client says so
	tracer              trace.Tracer
	acquire, hold       *instruments.Histogram
	held, waiting, lost *instruments.Count
}

// New returns the instruments of the lock at path, nil if the client has no provider.
func New(client *framework.Framework, recipe, path string) (*Lock, error) {
	s := instruments.New(client, "locks", path, keyRecipe.String(recipe))
	if s == nil {
		return nil, nil //nolint:nilnil // there is nothing to measure with
	}
	var reasons []attribute.KeyValue
	for _, reason := range []framework.LostReason{
		framework.ReasonSuspended, framework.ReasonLeaseEnd, framework.ReasonSessionExpired,
		framework.ReasonNodeDeleted, framework.ReasonAuthFailed, framework.ReasonClosed,
		framework.ReasonMaxHold,
	} {
		reasons = append(reasons, keyReason.String(string(reason)))
	}
	return &Lock{
		client: client, lock: s.Attributes(), tracer: s.Tracer(),
		acquire: s.Histogram("curator.lock.acquire.duration", "Time from the call to acquire to its result."),
		hold:    s.Histogram("curator.lock.hold.duration", "Time from the grant of a lock to its release or loss."),
		held:    s.UpDown("curator.lock.held", "{hold}", "Locks and permits that this process holds."),
		waiting: s.UpDown("curator.lock.waiting", "{waiter}", "Acquisitions of this process that wait behind another one."),
		lost:    s.Counter("curator.lock.lost", "{loss}", "Locks and permits that were lost while held.", reasons...),
	}, s.Err()
}

// Span records one call to acquire. It is nil, and records no wait, without instruments.
type Span struct {
	t       *Lock
	span    trace.Span
	began   time.Time
	waiting bool
}

// Begin returns the context to acquire with. The caller ends the span when the acquisition
// returns.
func (t *Lock) Begin(ctx context.Context) (context.Context, *Span) {
	a := &Span{t: t, began: time.Now()}
	ctx, a.span = t.tracer.Start(ctx, "acquire lock", trace.WithAttributes(t.lock...)) //nolint:spancheck // End does
	return ctx, a
}

// Queued records that the acquisition is about to wait, at a position that has changed. It is negative if it is not known.
func (a *Span) Queued(position int) {
	if a == nil {
		return
	}
	if position >= 0 {
		a.span.AddEvent("queued", trace.WithAttributes(keyPosition.Int(position)))
	}
	if !a.waiting {
		a.waiting = true
		a.t.waiting.Add(1)
	}
}

// Suspended records an interruption.
func (a *Span) Suspended() {
	if a != nil {
		a.span.AddEvent("suspended")
	}
}

// Granted records the beginning of a hold, which Ended ends.
func (a *Span) Granted(token int64, session *framework.Session) {
	a.span.AddEvent("granted")
	a.span.SetAttributes(keyFence.Int64(token), keySession.String(session.String()))
	a.t.held.Add(1)
}

// End measures the acquisition. ctx is the context that Begin returned. errorType may be "".
func (a *Span) End(ctx context.Context, outcome, errorType string) {
	defer a.span.End()
	if a.waiting {
		a.t.waiting.Add(-1)
	}
	told := []attribute.KeyValue{keyOutcome.String(outcome)}
	if errorType != "" {
		told = append(told, keyErrorType.String(errorType))
	}
	a.span.SetAttributes(told...)
	reports, _ := a.t.client.Telemetry()
	a.span.SetAttributes(reports.Server...)
	if outcome == Lost || outcome == Error {
		a.span.SetStatus(codes.Error, errorType) // not the text of the error, which has the path in it
	}
	a.t.acquire.Record(ctx, time.Since(a.began), told...)
}

// Ended measures a hold that its owner has released, or that was lost if there is a cause.
func (t *Lock) Ended(ctx context.Context, since time.Time, cause error) {
	how := "released"
	if cause != nil {
		how = "lost"
		t.lost.Add(1, keyReason.String(reason(cause)))
	}
	t.held.Add(-1)
	t.hold.Record(ctx, time.Since(since), keyEnd.String(how))
}

// reason returns the attribute curator.reason for the cause of a loss.
func reason(cause error) string {
	if lost, ok := errors.AsType[*framework.LostError](cause); ok {
		return string(lost.Reason)
	}
	return "unknown"
}
