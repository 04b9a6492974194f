package framework

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/gocurator/curator/framework/internal/conduit"
	"github.com/gocurator/curator/framework/internal/wire"
)

// operation is one of the protocol's requests.
type operation struct {
	code  int32
	name  string // as an OpError shows it
	write bool
}

var (
	opCreate          = operation{wire.OpCreate2, "create", true}
	opCreateContainer = operation{wire.OpCreateContainer, "create", true}
	opCreateTTL       = operation{wire.OpCreateTTL, "create", true}
	opDelete          = operation{wire.OpDelete, "delete", true}
	opExists          = operation{wire.OpExists, "exists", false}
	opGet             = operation{wire.OpGetData, "get", false}
	opSet             = operation{wire.OpSetData, "set", true}
	opSync            = operation{wire.OpSync, "sync", false}
	opChildren        = operation{wire.OpGetChildren2, "children", false}
	opCheck           = operation{wire.OpCheck, "check", false}
	opTransact        = operation{wire.OpMulti, "transact", true}
	opSetWatches      = operation{wire.OpSetWatches, "watch data", false}

	opGetACL            = operation{wire.OpGetACL, "get ACL", false}
	opSetACL            = operation{wire.OpSetACL, "set ACL", true}
	opReconfig          = operation{wire.OpReconfig, "reconfig", true}
	opEphemerals        = operation{wire.OpGetEphemerals, "ephemerals", false}
	opAllChildrenNumber = operation{wire.OpGetAllChildrenNumber, "all children number", false}
)

// call is one request of a verb and the handling of its reply. It can be sent any number
// of times.
type call struct {
	operation
	path string // as the caller named it
	body []byte
	common
	confirm bool // a write whose acknowledgement proves that a majority keeps the session

	// decode reads the reply. It returns an error for unacceptable content; the decoder
	// keeps an error for a malformed reply.
	decode func(*wire.Decoder) error

	// refused, when set, translates an error of the server into the call's outcome.
	refused func(error) error

	// begin, when set, is called before each try, and returns a function that receives the
	// outcome of the try in stream order. deliver receives the outcome of the whole exchange.
	begin   func() func(conduit.Reply, error)
	deliver func(ok bool)
}

// exchange sends the calls once, in one write, and decodes the replies. It returns the
// error of the first call that failed.
func (f *Framework) exchange(ctx context.Context, calls ...*call) error {
	if err := f.awaitConnection(ctx, f.cfg.connectionTimeout, calls[0].session); err != nil {
		return &OpError{calls[0].name, calls[0].path, err}
	}
	err := f.exchangeNow(ctx, calls...)
	for _, c := range calls {
		if c.deliver != nil {
			c.deliver(err == nil)
		}
	}
	return err
}

func (f *Framework) exchangeNow(ctx context.Context, calls ...*call) error {
	bound := f.scopeOf(ctx).boundTo()
	sent, memory := make([]*conduit.Call, len(calls)), make([]conduit.Call, len(calls))
	for i, c := range calls {
		if len(c.body) > f.cfg.maxRequest {
			return &OpError{c.name, c.path, fmt.Errorf("%w: a request of %d bytes, at most %d are sent", ErrTooLarge, len(c.body), f.cfg.maxRequest)}
		}
		sent[i] = &memory[i]
		sent[i].Op, sent[i].Body, sent[i].Confirms = c.code, c.body, c.confirm
		if session := cmp.Or(c.session, bound); session != nil {
			sent[i].Session = session.ID()
		}
	}
	// After all checks: what has begun must get an outcome.
	for i, c := range calls {
		if c.begin != nil {
			sent[i].OnDone = c.begin()
		}
	}
	accepted := f.conduit.Do(ctx, sent...)
	var first error
	for i, c := range calls {
		if err := f.outcome(ctx, c, sent[i]); err != nil && first == nil {
			first = &OpError{c.name, c.path, err}
		}
	}
	// No call has failed by itself, but not all of them were answered.
	if first == nil && accepted != nil {
		return &OpError{calls[0].name, calls[0].path, f.requestError(ctx, accepted, calls[0].write)}
	}
	return first
}

// outcome decodes the reply of one call.
func (f *Framework) outcome(ctx context.Context, c *call, sent *conduit.Call) error {
	reply, err := sent.Result()
	switch {
	case err != nil:
		return f.requestError(ctx, err, c.write)
	case reply.Code != 0 && c.refused != nil:
		return c.refused(serverError(reply.Code))
	case reply.Code != 0:
		return serverError(reply.Code)
	case c.decode == nil:
		return nil
	}
	d := wire.NewDecoder(reply.Body)
	meant := c.decode(d)
	if err := d.Err(); err != nil {
		// A server that garbles one reply is not trusted with the next.
		f.conduit.Reset(err)
		err = fmt.Errorf("%w: %w", ErrMalformedReply, err)
		if c.write { // the server has applied it, but the rest of the reply is unreliable
			err = fmt.Errorf("%w: %w", err, errOutcomeUnknown)
		}
		return err
	}
	return meant
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
func (f *Framework) awaitConnection(ctx context.Context, limit time.Duration, session *Session) error {
	if ctx == nil {
		return errNilContext
	}
	if err := f.usable(); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return interrupted(ctx) // even if there is a connection: nothing is sent for it
	}
	session = cmp.Or(session, f.scopeOf(ctx).boundTo())
	if err := session.over(); err != nil {
		return err // although a session of that id may live on
	}
	connected := f.tracker.whenConnected()
	select {
	case <-connected:
		return nil // the usual case needs no timer
	default:
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
		return f.unreachable(fmt.Errorf("%w within %v", ErrNotConnected, limit))
	case <-ended:
		return session.over()
	case <-ctx.Done():
		return f.unreachable(interrupted(ctx))
	case <-f.ctx.Done():
		return f.ended()
	}
}

func (f *Framework) usable() error {
	if f.ctx.Err() != nil {
		return f.ended()
	}
	if !f.started.Load() {
		return ErrNotStarted
	}
	return nil
}

// ended returns why the client accepts no more requests.
func (f *Framework) ended() error {
	if f.closed.Load() {
		return ErrClosed
	}
	return context.Cause(f.ctx)
}
