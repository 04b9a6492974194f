// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gocurator/curator/framework/internal/conduit"
	"github.com/gocurator/curator/framework/internal/wire"
)

// call is one request of a verb and the handling of its reply. It can be sent any number
// of times.
type call struct {
	operation
	path string // as the caller named it
	body []byte
	common
	maxReply int // in place of the client's limit, 0 for that

	confirm bool // a write whose acknowledgement proves that a majority keeps the session

	length int32 // operations of a transaction

	// decode reads the reply. It returns an error for unacceptable content; the decoder
	// keeps an error for a malformed reply.
	decode  func(*wire.Decoder) error
	decoder wire.Decoder // of the newest reply

	// refused, when set, translates an error of the server into the call's outcome.
	refused func(error) error

	// errInto, when set, gets the server's refusal, or the error of decode. The exchange does not
	// fail by it then.
	errInto *error

	follower follower // nil for none
}

// follower takes part in a request: the watch that a read sets, or the create whose reply
// counts even after its caller has gone.
type follower interface {
	// begin is called before each try, and returns a function that receives the outcome of
	// the try in stream order.
	begin() func(conduit.Reply, error)

	// deliver receives the outcome of the whole exchange.
	deliver(ok bool)
}

// requests is the way of all requests of a client and its views. It waits for connections,
// sends, repeats and measures. It knows sessions and the connection, but no verb.
type requests struct {
	cfg       config
	ensemble  *ensemble
	conduit   *conduit.Conduit
	tracker   *tracker
	telemetry *telemetry // nil without providers

	ctx  context.Context // ends when Close begins, or a credential is refused
	stop context.CancelCauseFunc

	started atomic.Bool // calls can be made, or wait for a connection
	closed  atomic.Bool // Close has begun

	sizes sizes

	background background
}

// isJoinable reports whether a call is a read of data, or of a Stat by exists, that sets no watch. The
// conduit has such reads share a request.
func (c *call) isJoinable() bool {
	return (c.code == wire.OpGetData || c.code == wire.OpExists) && c.follower == nil
}

// exchange sends the calls once, in one write, and decodes the replies. It returns the
// error of the first call that failed.
func (r *requests) exchange(ctx context.Context, calls ...*call) error {
	if err := r.awaitConnection(ctx, r.cfg.ConnectTimeout, calls[0].session); err != nil {
		return &OpError{calls[0].name, calls[0].path, err}
	}
	calls, err := r.withoutUnknown(ctx, calls)
	if err != nil || len(calls) == 0 {
		return err
	}
	sent, err := r.begin(ctx, calls)
	if err == nil {
		accepted := r.conduit.Do(ctx, sent...)
		if accepted == nil && isOutOfOrder(calls, sent) {
			if sent, err = r.begin(ctx, calls); err != nil {
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

// begin returns what is sent for the calls, or an error before any of them has begun.
func (r *requests) begin(ctx context.Context, calls []*call) ([]*conduit.Call, error) {
	scope := r.scopeOf(ctx)
	bound := scope.boundTo()
	sent := newCalls(len(calls))
	for i, c := range calls {
		if len(c.body) > r.cfg.MaxRequest {
			return nil, &OpError{c.name, c.path, fmt.Errorf("%w: a request of %d bytes, at most %d are sent", ErrTooLarge, len(c.body), r.cfg.MaxRequest)}
		}
		sent[i].Op, sent[i].Body, sent[i].Confirms = c.code, c.body, c.confirm
		sent[i].Joinable = c.isJoinable()
		sent[i].MaxReply = c.maxReply
		if session := cmp.Or(c.session, bound); session != nil {
			sent[i].Session = session.ID()
		}
		sent[i].History = scope.boundHistory(c.history)
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
			r.measure(ctx, c, reply)
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

// newCalls returns n calls that are not set up. One call, as of most verbs, and two, as of a
// contender, share one piece of memory with their list.
func newCalls(n int) []*conduit.Call {
	switch n {
	case 1:
		var one struct {
			list [1]*conduit.Call
			call conduit.Call
		}
		one.list[0] = &one.call
		return one.list[:]
	case 2:
		var two struct {
			list  [2]*conduit.Call
			calls [2]conduit.Call
		}
		two.list[0], two.list[1] = &two.calls[0], &two.calls[1]
		return two.list[:]
	}
	list, calls := make([]*conduit.Call, n), make([]conduit.Call, n)
	for i := range calls {
		list[i] = &calls[i]
	}
	return list
}

// replied decodes the reply to a call.
func (c *call) replied(reply conduit.Reply, sent *conduit.Call) error {
	if reply.Code == wire.CodeUnimplemented {
		// The version could not be found out, but the answer shows it.
		if why := sent.NoteTooOld(); why != nil {
			return unsupported(why)
		}
	}
	switch {
	// For some verbs a refusal is an answer, such as NoNode for Exists.
	case reply.Code != 0 && c.refused != nil:
		return c.keep(c.refused(serverError(reply.Code)))
	case c.write && leavesDoubt(reply.Code):
		return fmt.Errorf("%w: %w", serverError(reply.Code), errOutcomeUnknown)
	case reply.Code != 0:
		return c.keep(serverError(reply.Code))
	case c.decode == nil:
		return nil
	}
	c.decoder = *wire.NewDecoder(reply.Body)
	d := &c.decoder
	meant := c.decode(d)
	if err := d.Err(); err != nil {
		// A server that garbles one reply is not trusted with the next.
		sent.Distrust(err)
		err = fmt.Errorf("%w: %w", ErrMalformedReply, err)
		if c.write { // the server has applied it, but the rest of the reply is unreliable
			err = fmt.Errorf("%w: %w", err, errOutcomeUnknown)
		}
		return err
	}
	return c.keep(meant)
}

// keep stores an error where errInto says, and returns what the exchange fails by.
func (c *call) keep(err error) error {
	if c.errInto == nil || err == nil || Retryable(err) { // a retry sends all calls again
		return err
	}
	*c.errInto = failed(c.operation, c.path, err)
	return nil
}

// hasFailed reports whether the call alone has failed.
func (c *call) hasFailed() bool { return c.errInto != nil && *c.errInto != nil }

// pathCall builds a request that consists of a path.
func pathCall(root chroot, op operation, path string, decode func(*wire.Decoder) error) ([]*call, error) {
	if err := ValidatePath(path); err != nil {
		return nil, err
	}
	var e wire.Encoder
	e.String(root.full(path))
	return []*call{{operation: op, path: path, body: e.Bytes(), decode: decode}}, nil
}

// answeringNoNode is a refused for which NoNode is an answer and not an error.
func answeringNoNode(absent func()) func(error) error {
	return func(err error) error {
		if err != ErrNoNode { //nolint:errorlint // it is the answer itself
			return err
		}
		absent()
		return nil
	}
}

// awaitConnection waits until there is a connection, the limit has passed (0 for
// none), the context or the session (nil for any) ends, or the client is closed.
func (r *requests) awaitConnection(ctx context.Context, limit time.Duration, session *Session) error {
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
	bound := r.scopeOf(ctx).boundTo()
	if err := bound.over(); err != nil {
		return err
	}
	session = cmp.Or(session, bound)
	if err := session.over(); err != nil {
		return err // although a session of that id may live on
	}
	if there {
		return nil // the usual case needs no timer
	}
	var tooLate <-chan time.Time
	if limit > 0 {
		timer := time.NewTimer(limit)
		defer timer.Stop()
		tooLate = timer.C
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

func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
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
		result = ErrSessionEnded
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

// background is the goroutines of a client that end with its context.
type background struct {
	mu      sync.Mutex
	closed  bool
	running sync.WaitGroup
}

// start starts a goroutine that close waits for, or returns false after close.
func (b *background) start(run func()) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	b.running.Go(run)
	return true
}

// close waits until all goroutines have ended. No other can be started.
func (b *background) close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.running.Wait()
}
