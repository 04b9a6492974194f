package framework

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/gocurator/curator/framework/internal/conduit"
	"github.com/gocurator/curator/framework/internal/jute"
	"github.com/gocurator/curator/retry"
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
	path    string // as the caller named it
	body    []byte
	session *Session // when set, the only one to run in
	decode  func(*jute.Decoder)
	begin   func() func(conduit.Reply, error) // when set, called before each try for its OnDone
	deliver func(ok bool)                     // when set, to be called with the outcome of the last try
	confirm bool                              // a write whose acknowledgement proves that a majority keeps the session
	absent  func()                            // when set, NoNode is an answer and not an error

	// refused, when set, says what an error of the server's means to the call.
	refused func(error) error

	retry retry.Policy // nil for that of the context or the client

	// after, when set, deals with a reply that was decoded well.
	after func() error
}

// send makes calls until they succeed, the retry policy gives up or the
// context ends. A write whose outcome is unknown is repeated only if repeatable.
func (f *Framework) send(ctx context.Context, repeatable bool, calls ...*call) error {
	return f.measured(ctx, calls[0].retry, measuredAs(calls), calls[0].path, func(ctx context.Context) error {
		err := f.exchange(ctx, calls...)
		if OutcomeUnknown(err) && !repeatable {
			return backoff.Permanent(err)
		}
		return err
	})
}

// retry makes attempts as the policy says, nil for that of the loop which the context
// is in or the client's. An attempt that must not be repeated fails with
// backoff.Permanent.
func (f *Framework) retry(ctx context.Context, policy retry.Policy, attempt func(context.Context) error) error {
	err := attempt(ctx)
	var permanent *backoff.PermanentError
	if errors.As(err, &permanent) {
		return permanent.Err
	}
	if err == nil || !Retryable(err) {
		return err
	}
	// From here on there are pauses, which Close must cut short.
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	//nolint:contextcheck // it is the client's, on top of the caller's
	unbind := context.AfterFunc(f.ctx, func() { cancel(f.ended()) })
	defer unbind()
	first := err
	err = retry.Do(ctx, f.policyFor(ctx, policy), func(ctx context.Context) error {
		err := first
		if first = nil; err == nil {
			err = attempt(ctx)
		}
		if err == nil || Retryable(err) || errors.As(err, &permanent) {
			return err
		}
		return backoff.Permanent(err)
	})
	if first != nil { // the context ended meanwhile; what has happened stays true
		return fmt.Errorf("%w: %w", err, first)
	}
	return err
}

// exchange sends the calls once, in one write, and decodes the replies. The error
// is that of the first call that failed.
func (f *Framework) exchange(ctx context.Context, calls ...*call) error {
	if err := f.awaitConnection(ctx, f.cfg.connectionTimeout, calls[0].session); err != nil {
		return &OpError{calls[0].name, calls[0].path, err}
	}
	return f.exchangeNow(ctx, calls...)
}

func (f *Framework) exchangeNow(ctx context.Context, calls ...*call) error {
	wire := make([]*conduit.Call, len(calls))
	for i, c := range calls {
		if len(c.body) > f.cfg.maxRequest {
			return &OpError{c.name, c.path, fmt.Errorf("%w: a request of %d bytes, at most %d are sent", ErrTooLarge, len(c.body), f.cfg.maxRequest)}
		}
		wire[i] = &conduit.Call{Op: c.code, Body: c.body, Confirms: c.confirm}
		if c.session != nil {
			wire[i].Session = c.session.ID()
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
	case reply.Code == codeNoNode && c.absent != nil:
		c.absent()
		return nil
	case reply.Code != 0 && c.refused != nil:
		return c.refused(serverError(reply.Code))
	case reply.Code != 0:
		return serverError(reply.Code)
	case c.decode == nil:
		return nil
	}
	d := jute.NewDecoder(reply.Body)
	c.decode(d)
	if err := d.Err(); err != nil {
		f.conduit.Reset(err)
		err = fmt.Errorf("%w: %w", ErrMalformedReply, err)
		if c.write { // it says success, and nothing else that can be relied on
			err = fmt.Errorf("%w: %w", err, errOutcomeUnknown)
		}
		return err
	}
	if c.after != nil {
		return c.after()
	}
	return nil
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
		return context.Cause(ctx)
	}
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
		return nil
	case <-tooLate:
		return f.unreachable(fmt.Errorf("%w within %v", ErrNotConnected, limit))
	case <-ended:
		return session.over()
	case <-ctx.Done():
		return f.unreachable(context.Cause(ctx))
	case <-f.ctx.Done():
		return f.ended()
	}
}

func (f *Framework) usable() error {
	if f.ctx.Err() != nil {
		return f.ended()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.conduit == nil {
		return ErrNotStarted
	}
	return nil
}

// ended returns why no request can be made any more.
func (f *Framework) ended() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closing != nil {
		return ErrClosed
	}
	return context.Cause(f.ctx)
}

// failed makes sure that an error of a verb is an OpError.
func failed(op operation, path string, err error) error {
	var have *OpError
	if err == nil || errors.As(err, &have) {
		return err
	}
	return &OpError{op.name, path, err}
}
