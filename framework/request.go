package framework

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/gocurator/curator/framework/internal/conduit"
	"github.com/gocurator/curator/framework/internal/jute"
)

// operation is one of the protocol's requests. The codes are those of
// ZooKeeper's ZooDefs.OpCode.
type operation struct {
	code  int32
	name  string // as an OpError shows it
	write bool
}

var (
	opCreate          = operation{15, "create", true} // create2, which answers with the Stat
	opCreateContainer = operation{19, "create", true}
	opCreateTTL       = operation{21, "create", true}
	opDelete          = operation{2, "delete", true}
	opExists          = operation{3, "exists", false}
	opGet             = operation{4, "get", false}
	opSet             = operation{5, "set", true}
	opSync            = operation{9, "sync", false}
	opChildren        = operation{12, "children", false}
	opCheck           = operation{13, "check", false}
	opTransact        = operation{14, "transact", true}
	opRemoveWatches   = operation{18, "remove watches", false}
	opSetWatches2     = operation{105, "set watches again", false}
	opSetWatches      = operation{101, "watch data", false}

	opGetACL            = operation{6, "get ACL", false}
	opSetACL            = operation{7, "set ACL", true}
	opReconfig          = operation{16, "reconfig", true}
	opEphemerals        = operation{103, "ephemerals", false}
	opAllChildrenNumber = operation{104, "all children number", false}
)

// call is one request of a verb and what becomes of its reply. It can be sent
// any number of times.
type call struct {
	operation
	path string // as the caller named it
	body []byte
	common
	confirm bool // a write whose acknowledgement proves that a majority keeps the session

	// decode reads the reply. It returns an error of what the reply holds; the decoder
	// keeps those of its form.
	decode func(*jute.Decoder) error

	// refused, when set, says what an error of the server's means to the call.
	refused func(error) error

	// begin, when set, is called before each try for what is told of its outcome in stream
	// order, and deliver with the outcome of the exchange that the call was a part of.
	begin   func() func(conduit.Reply, error)
	deliver func(ok bool)
}

// exchange sends the calls once, in one write, and decodes the replies. The error
// is that of the first call that failed.
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
	wire := make([]*conduit.Call, len(calls))
	for i, c := range calls {
		if len(c.body) > f.cfg.maxRequest {
			return &OpError{c.name, c.path, fmt.Errorf("%w: a request of %d bytes, at most %d are sent", ErrTooLarge, len(c.body), f.cfg.maxRequest)}
		}
		wire[i] = &conduit.Call{Op: c.code, Body: c.body, Confirms: c.confirm}
		if session := cmp.Or(c.session, bound); session != nil {
			wire[i].Session = session.ID()
		}
	}
	for i, c := range calls {
		if c.begin != nil {
			wire[i].OnDone = c.begin()
		}
	}
	accepted := f.conduit.Do(ctx, wire...)
	var first error
	for i, c := range calls {
		if err := f.outcome(ctx, c, wire[i]); err != nil && first == nil {
			first = &OpError{c.name, c.path, err}
		}
	}
	if first == nil && accepted != nil {
		return &OpError{calls[0].name, calls[0].path, f.requestError(ctx, accepted, calls[0].write)}
	}
	return first
}

// outcome decodes the reply of one call.
func (f *Framework) outcome(ctx context.Context, c *call, wire *conduit.Call) error {
	reply, err := wire.Result()
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
	d := jute.NewDecoder(reply.Body)
	meant := c.decode(d)
	if err := d.Err(); err != nil {
		f.conduit.Reset(err)
		err = fmt.Errorf("%w: %w", ErrMalformedReply, err)
		if c.write { // it says success, and nothing else that can be relied on
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
		return interrupted(ctx)
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
		return session.over() // the connection may be that of the next session
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

// ended returns why no request can be made any more.
func (f *Framework) ended() error {
	if f.closed.Load() {
		return ErrClosed
	}
	return context.Cause(f.ctx)
}
