// SPDX-License-Identifier: Apache-2.0

package locks

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/internal/instruments"
)

// The attributes of this package; "Metrics and traces" in doc.go has the table.
const (
	keyRecipe    = attribute.Key("curator.recipe")
	keyOutcome   = attribute.Key("curator.outcome")
	keyEnd       = attribute.Key("curator.end")
	keyReason    = attribute.Key("curator.reason")
	keyPath      = instruments.Path
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

// telemetry has the instruments of one lock. It is nil, and does nothing, if the client has
// no provider.
type telemetry struct {
	client              *framework.Framework
	lock                []attribute.KeyValue // on everything: the recipe, and the path if the client says so
	tracer              trace.Tracer
	acquire, hold       *instruments.Histogram
	held, waiting, lost *instruments.Count
}

func newTelemetry(client *framework.Framework, recipe, path string) (*telemetry, error) {
	s := instruments.New(client, "locks", path, keyRecipe.String(recipe))
	if s == nil {
		return nil, nil //nolint:nilnil // nil is the telemetry that does nothing
	}
	var reasons []attribute.KeyValue
	for _, reason := range []framework.LostReason{
		framework.ReasonSuspended, framework.ReasonLeaseEnd, framework.ReasonSessionExpired,
		framework.ReasonNodeDeleted, framework.ReasonAuthFailed, framework.ReasonClosed,
	} {
		reasons = append(reasons, keyReason.String(string(reason)))
	}
	return &telemetry{
		client: client, lock: s.Attributes(), tracer: s.Tracer(),
		acquire: s.Histogram("curator.lock.acquire.duration", "Time from the call to acquire to its result."),
		hold:    s.Histogram("curator.lock.hold.duration", "Time from the grant of a lock to its release or loss."),
		held:    s.UpDown("curator.lock.held", "{hold}", "Locks and permits that this process holds."),
		waiting: s.UpDown("curator.lock.waiting", "{waiter}", "Acquisitions of this process that wait behind another one."),
		lost:    s.Counter("curator.lock.lost", "{loss}", "Locks and permits that were lost while held.", reasons...),
	}, s.Err()
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
func (a *acquireSpan) queued(contenders []string, ours string) {
	if a == nil {
		return
	}
	if position := slices.Index(contenders, ours); position != a.position {
		a.position = position
		a.span.AddEvent("queued", trace.WithAttributes(keyPosition.Int(position)))
	}
	a.waits()
}

// waits counts this acquisition as waiting, once.
func (a *acquireSpan) waits() {
	if a != nil && !a.waiting {
		a.waiting = true
		a.t.waiting.Add(1)
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
	a.t.held.Add(1)
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
		a.t.waiting.Add(-1)
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
	a.t.acquire.Record(ctx, time.Since(a.began), told...)
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

// ended measures a hold that its owner has released, or that was lost if there is a cause.
func (t *telemetry) ended(ctx context.Context, since time.Time, cause error) {
	if t == nil {
		return
	}
	how := "released"
	if cause != nil {
		how = "lost"
		t.lost.Add(1, keyReason.String(lossReason(cause)))
	}
	t.held.Add(-1)
	t.hold.Record(ctx, time.Since(since), keyEnd.String(how))
}

// lossReason returns the attribute curator.reason for the cause of a loss.
func lossReason(cause error) string {
	if lost, ok := errors.AsType[*LostError](cause); ok {
		return string(lost.Reason)
	}
	return "unknown"
}

// lossPause is the time between the log line of a lost lock and the line that counts the
// locks that were lost with it.
const lossPause = time.Second

// keptLosses is how many losses a process remembers.
const keptLosses = 100

// Loss is a hold that this process has lost.
type Loss struct {
	At      time.Time
	Servers string // the client's, as its String method names them
	Path    string // of the contender's node
	Token   int64
	Session int64
	Reason  string // as in the log and in the metric curator.lock.lost
}

// RecentLosses returns the newest of the holds that this process has lost, newest first and
// at most 100, for a page or a bundle of diagnostics. A loss is listed soon after the lease
// has ended. One that only [Lease.Release] has noticed is not listed: Release returned it.
// RecentLosses returns at once and asks no server.
func RecentLosses() []Loss {
	losses.mu.Lock()
	defer losses.mu.Unlock()
	recent := slices.Clone(losses.recent)
	slices.Reverse(recent)
	return recent
}

// losses keeps one interruption, which may cost a client thousands of locks, from filling
// its log. It logs the first loss at once, as the process may exit because of it.
var losses = lossLog{more: make(map[*framework.Session]int)}

type lossLog struct {
	mu     sync.Mutex
	more   map[*framework.Session]int // losses after the first, until they are logged
	recent []Loss                     // oldest first
}

// report keeps the loss of a hold. It logs it, or counts it if it is not the first of its
// session.
func (l *lossLog) report(client *framework.Framework, session *framework.Session, path string, token int64, reason string) {
	log, loss := client.Logger(), Loss{time.Now(), client.String(), path, token, session.ID(), reason}
	l.mu.Lock()
	if len(l.recent) == keptLosses {
		l.recent = slices.Delete(l.recent, 0, 1)
	}
	l.recent = append(l.recent, loss)
	_, told := l.more[session]
	if told {
		l.more[session]++
	} else {
		l.more[session] = 0
	}
	l.mu.Unlock()
	if told { // count logs it
		return
	}
	log.Error("lock lost while held",
		string(keyPath), path, string(keyFence), token, string(keySession), session.String(), string(keyReason), reason)
	time.AfterFunc(lossPause, func() { l.count(log, session, reason) })
}

// count logs how many more locks were lost.
func (l *lossLog) count(log *slog.Logger, session *framework.Session, reason string) {
	l.mu.Lock()
	more := l.more[session]
	delete(l.more, session)
	l.mu.Unlock()
	if more > 0 {
		log.Error("more locks lost while held", "count", more,
			string(keySession), session.String(), string(keyReason), reason)
	}
}
