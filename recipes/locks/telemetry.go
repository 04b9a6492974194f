// SPDX-License-Identifier: Apache-2.0

package locks

import (
	"context"
	"errors"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/locks/internal/telemetry"
)

// measured is the feature of a lock whose client has a provider of metrics or traces.
var measured = feature{name: "telemetry", ofHolds: true, attach: func(l *lock) error {
	t, err := telemetry.New(l.client, l.cfg.recipe, l.path)
	if t != nil {
		l.observers = append(l.observers, measures{t: t})
	}
	return err
}}

// measuredTurn is the feature of the turn at a semaphore: it is waited for, but not counted as held.
var measuredTurn = feature{name: "telemetry", attach: func(l *lock) error {
	l.observers = append(l.observers, measuresWait{})
	return nil
}}

// spanKey finds the span of the acquisition in a context.
type spanKey struct{}

func spanIn(ctx context.Context) *telemetry.Span {
	span, _ := ctx.Value(spanKey{}).(*telemetry.Span)
	return span
}

// measuresWait records a wait in the span of the acquisition that it is part of.
type measuresWait struct{ ignores }

func (measuresWait) queued(ctx context.Context, _ string, position int) {
	spanIn(ctx).Queued(position)
}

func (measuresWait) suspended(ctx context.Context) { spanIn(ctx).Suspended() }

// measures records the acquisitions and holds of a lock.
type measures struct {
	measuresWait

	t *telemetry.Lock
}

func (m measures) begins(ctx context.Context) context.Context {
	ctx, span := m.t.Begin(ctx)
	return context.WithValue(ctx, spanKey{}, span)
}

func (measures) granted(ctx context.Context, h *hold) { spanIn(ctx).Granted(h.token, h.session) }

func (m measures) ended(ctx context.Context, h *hold, cause error) { m.t.Ended(ctx, h.since, cause) }

// returns ends the span by the outcome and, for a failure, the type of the error.
func (measures) returns(ctx context.Context, err error) {
	span := spanIn(ctx)
	switch {
	case err == nil:
		span.End(ctx, telemetry.Acquired, "")
	case errors.Is(err, errPanicked):
		span.End(ctx, telemetry.Error, "panic")
	case ctx.Err() != nil: // before the others, which it may have caused
		span.End(ctx, telemetry.Canceled, framework.ErrorType(ctx.Err()))
	case errors.Is(err, ErrNotAcquired):
		span.End(ctx, telemetry.NotAcquired, "")
	case errors.Is(err, ErrSequenceExhausted):
		span.End(ctx, telemetry.Error, "sequence_exhausted")
	case errors.Is(err, errOwnNodeGone), errors.Is(err, framework.ErrSessionExpired):
		span.End(ctx, telemetry.Lost, framework.ErrorType(err))
	default:
		span.End(ctx, telemetry.Error, framework.ErrorType(err))
	}
}
