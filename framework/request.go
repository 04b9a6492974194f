// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/gocurator/curator/framework/internal/conduit"
	"github.com/gocurator/curator/internal/chance"
)

// requests is the way of all requests of a client and its views. It waits for connections,
// sends, repeats and measures. It knows sessions and the connection, but no verb.
type requests struct {
	cfg       config
	ensemble  *ensemble
	conduit   *conduit.Conduit
	tracker   *tracker
	telemetry *telemetry // nil without providers

	chance *chance.Source

	ctx  context.Context // ends when Close begins, or a credential is refused
	stop context.CancelCauseFunc

	started atomic.Bool // calls can be made, or wait for a connection
	closed  atomic.Bool // Close has begun

	sizes sizes

	background background
}

// exchange sends the calls once, in one write, and decodes the replies. It returns the
// error of the first call that failed.
func (r *requests) exchange(ctx context.Context, calls ...*call) error {
	return r.exchangeIn(ctx, r.scopeOf(ctx).bound(), calls)
}

// bounds are the session and the history that a call must run in.
type bounds struct {
	session *Session // nil for any
	history int64    // 0 for any
}

// historyOf returns the only history that a call may run in, 0 for any and -1 for none. Its own is 0 if
// the call itself is not bound.
func (in bounds) historyOf(own int64) int64 {
	switch {
	case in.history == 0, in.history == own:
		return own
	case own == 0:
		return in.history
	default:
		return -1 // one of the two has ended
	}
}

// exchangeIn is exchange for a caller that knows the bounds of its context.
func (r *requests) exchangeIn(ctx context.Context, in bounds, calls []*call) error {
	if err := r.awaitConnectionIn(ctx, in.session, r.cfg.ConnectTimeout); err != nil {
		return &OpError{calls[0].name, calls[0].path, err}
	}
	calls, err := r.withoutUnknown(ctx, calls)
	if err != nil || len(calls) == 0 {
		return err
	}
	var room [2]*conduit.Call // for the calls of most verbs
	sent, err := r.begin(in, calls, room[:0])
	if err == nil {
		accepted := r.conduit.Do(ctx, sent...)
		if accepted == nil && isOutOfOrder(calls, sent) {
			if sent, err = r.begin(in, calls, room[:0]); err != nil {
				return err
			}
			for _, s := range sent {
				s.Joinable = false
			}
			accepted = r.conduit.Do(ctx, sent...)
		}
		err = r.outcome(ctx, calls, sent, accepted)
	}
	for _, c := range calls {
		if c.follower != nil {
			c.follower.deliver(err == nil && !c.hasFailed())
		}
	}
	return err
}

// isOutOfOrder reports whether reads must be made again, because some of them were sent again behind others. One
// that sets a watch has begun and ended, and is not repeated.
func isOutOfOrder(calls []*call, sent []*conduit.Call) bool {
	return conduit.OutOfOrder(sent) &&
		!slices.ContainsFunc(calls, func(c *call) bool { return c.follower != nil })
}

// begin appends what is sent for the calls, or returns an error before any of them has begun.
func (r *requests) begin(in bounds, calls []*call, sent []*conduit.Call) ([]*conduit.Call, error) {
	made := make([]conduit.Call, len(calls))
	for i, c := range calls {
		sent = append(sent, &made[i])
		if len(c.body) > r.cfg.MaxRequest {
			return nil, &OpError{c.name, c.path, fmt.Errorf("%w: a request of %d bytes, at most %d are sent", ErrTooLarge, len(c.body), r.cfg.MaxRequest)}
		}
		sent[i].Op, sent[i].Body, sent[i].Confirms = c.code, c.body, c.confirm
		sent[i].Joinable = c.isJoinable()
		sent[i].MaxReply = c.maxReply
		if in.session != nil {
			sent[i].Session = in.session.ID()
		}
		sent[i].History = in.history
	}
	// After all checks, because a call that has begun must get an outcome.
	for i, c := range calls {
		if c.errInto != nil {
			*c.errInto = nil // of an earlier try
		}
		if c.follower != nil {
			sent[i].OnDone = c.follower.begin()
		}
	}
	return sent, nil
}

// outcome decodes the replies. An error accepted says that not all calls were answered.
func (r *requests) outcome(ctx context.Context, calls []*call, sent []*conduit.Call, accepted error) error {
	var first error
	for i, c := range calls {
		reply, err := sent[i].Result()
		if err != nil {
			err = r.requestError(ctx, err, c.write)
			if c.maxReply > 0 && c.errInto != nil && errors.Is(err, ErrTooLarge) {
				err, accepted = c.keep(err), nil // the reply was skipped, and the connection goes on
			}
		} else {
			r.sizes.note(ctx, &r.cfg, r.telemetry, c, reply)
			err = c.replied(reply, sent[i])
		}
		if err != nil && first == nil {
			first = named(c.operation, c.path, err)
		}
	}
	// No call has failed by itself, but not all of them were answered.
	if first == nil && accepted != nil {
		return &OpError{calls[0].name, calls[0].path, r.requestError(ctx, accepted, calls[0].write)}
	}
	return first
}

// awaitConnection waits until there is a connection, the limit has passed (0 for
// none), the context or its session ends, or the client is closed.
func (r *requests) awaitConnection(ctx context.Context, limit time.Duration) error {
	return r.awaitConnectionIn(ctx, r.scopeOf(ctx).bound().session, limit)
}

// awaitConnectionIn is awaitConnection for a context that is bound to a session (nil for none).
func (r *requests) awaitConnectionIn(ctx context.Context, session *Session, limit time.Duration) error {
	if ctx == nil {
		return errNilContext
	}
	if err := r.usable(); err != nil {
		return err
	}
	connected := r.tracker.whenConnected()
	there := isClosed(connected)
	switch {
	case ctx.Err() != nil && there: // nothing is sent for it
		return interrupted(ctx)
	case ctx.Err() != nil:
		return r.unreachable(interrupted(ctx))
	}
	if err := session.over(); err != nil {
		return err // although a session of that id may live on
	}
	if there {
		return nil // the usual case needs no timer
	}
	return r.awaitOpen(ctx, connected, limit, session)
}

// awaitOpen is awaitConnection for a call that may wait, while there is no connection.
func (r *requests) awaitOpen(ctx context.Context, connected <-chan struct{}, limit time.Duration, session *Session) error {
	var tooLate <-chan time.Time
	if limit > 0 {
		tooLate = time.After(limit)
	}
	var ended <-chan struct{}
	if session != nil {
		ended = session.Done()
	}
	select {
	case <-connected:
		return session.over() // the connection may belong to the next session
	case <-tooLate:
		return r.unreachable(fmt.Errorf("%w within %v", ErrNotConnected, limit))
	case <-ended:
		return session.over()
	case <-ctx.Done():
		return r.unreachable(interrupted(ctx))
	case <-r.ctx.Done():
		return r.ended()
	}
}

func (r *requests) usable() error {
	if r.ctx.Err() != nil {
		return r.ended()
	}
	if !r.started.Load() {
		return ErrNotStarted
	}
	return nil
}

// ended returns why the client accepts no more requests.
func (r *requests) ended() error {
	if r.closed.Load() {
		return ErrClosed
	}
	return context.Cause(r.ctx)
}

// requestError translates the conduit's error for a request without a reply.
func (r *requests) requestError(ctx context.Context, err error, write bool) error {
	sent := errors.Is(err, conduit.ErrUnanswered)
	var result error
	switch {
	case errors.Is(err, conduit.ErrOtherSession):
		result = errOtherSession
	case errors.Is(err, conduit.ErrOtherHistory):
		result = errOtherHistory
	case errors.Is(err, conduit.ErrAbandoned):
		// Checked before the end of the client: the caller's own context comes first.
		result = interrupted(ctx)
	case r.ctx.Err() != nil: // however the connection ended
		result = r.ended()
	case sent && errors.Is(err, conduit.ErrReplyTooLarge):
		result = fmt.Errorf("%w: %w", ErrTooLarge, err)
	case sent:
		result = fmt.Errorf("%w: %w", ErrConnectionLost, err)
	default:
		result = fmt.Errorf("%w: %w", ErrNotConnected, err)
	}
	if sent && write {
		// A part of it may have reached the server.
		return fmt.Errorf("%w: %w", result, errOutcomeUnknown)
	}
	return result
}

// unreachable adds to an error the reason why there is no connection, if it is known.
func (r *requests) unreachable(err error) error {
	if reason := r.conduit.LastFailure(); reason != nil {
		return fmt.Errorf("%w (%w)", err, attemptError{reason})
	}
	if r.tracker.everHadSession() {
		return err // the servers are known to be right: it is an outage
	}
	return fmt.Errorf("%w (no server has refused or answered yet: %v)", err, r.ensemble.current())
}

// lacks fails if the server cannot have a request. There must be a connection already.
func (r *requests) lacks(ctx context.Context, op int32) error {
	return r.checked(ctx, r.conduit.Lacks(ctx, op))
}

// checked translates the error of what the conduit knows of a server.
func (r *requests) checked(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if tooOld, ok := errors.AsType[*conduit.TooOldError](err); ok {
		return unsupported(tooOld)
	}
	return r.requestError(ctx, err, false)
}

// withoutUnknown returns the calls that the server may know. The others fail as if the server had refused them: one that
// does not know a request hangs up, and may end the session.
func (r *requests) withoutUnknown(ctx context.Context, calls []*call) ([]*call, error) {
	left := calls
	for _, c := range calls {
		err := r.lacks(ctx, c.code)
		switch {
		case err == nil:
			continue
		case errors.Is(err, ErrUnsupported) && c.refused != nil && c.refused(errUnimplemented) == nil, c.keep(err) == nil:
			left = slices.DeleteFunc(slices.Clone(left), func(other *call) bool { return other == c })
		default:
			return nil, named(c.operation, c.path, err)
		}
	}
	return left, nil
}
