// SPDX-License-Identifier: Apache-2.0

package conduit

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/gocurator/curator/framework/internal/wire"
)

const (
	// maxToken bounds a challenge in bytes. A Kerberos ticket with the groups of a user may
	// take most of it.
	maxToken = 64 << 10

	// maxChallenges bounds an exchange. DIGEST-MD5 takes two challenges, GSSAPI three.
	maxChallenges = 16

	// exchangeNumerator and exchangeDenominator are the part of the rest of the session that an exchange may take. Another
	// server may get what is left.
	exchangeNumerator, exchangeDenominator = 2, 3
)

// SASL authenticates every connection by a mechanism of RFC 4422, before any other request.
type SASL struct {
	Mechanism string

	// Renews means that a later exchange may use other credentials, so that a refusal is
	// not the end of the conduit.
	Renews bool

	// Start begins the exchange of a connection. It and the step that it returns may
	// block until the context ends. An error of either that was made by Refuse is a refusal.
	// The second function is nil, or the credentials are kept from an earlier exchange. It is called
	// when they were refused, before the next exchange begins, which uses others.
	Start func(ctx context.Context, server string, address net.Addr) (SASLStep, func(), error)
}

// SASLStep takes a challenge, nil at first, and returns the answer, if there is one, and
// whether the mechanism needs no further challenge.
type SASLStep func(ctx context.Context, challenge []byte) (answer []byte, done bool, err error)

// refusal is an error that another connection with the same credentials would meet again.
type refusal struct {
	error
	own bool // of the mechanism, before anything was sent: it is so for all servers
}

func (r refusal) Unwrap() error { return r.error }

// Refuse marks an error as a refusal.
func Refuse(err error) error { return refusal{err, false} }

// saslExchange is the authentication of one connection, as far as the other goroutines of the
// connection take part in it. conn.queue guards it.
type saslExchange struct {
	kept     bool       // the credentials are of an earlier exchange; set before the first token is sent
	excused  bool       // the server has refused them, which does not count; guarded by conn.dispatch
	awaited  int32      // the xid of the request that the server has not answered, 0 for none
	heldPing bool       // a ping of go-zookeeper's waits for the end
	tokens   chan token // what the server has answered
}

// token is a server's answer: nil if it has sent none, which is not the same as an empty one.
type token []byte

func newSASLExchange() saslExchange { return saslExchange{tokens: make(chan token, 1)} }

// authenticate runs the exchange and opens the connection for calls. It takes a goroutine of
// its own, since the mechanism may block; what is read meanwhile does not wait for it.
func (c *conn) authenticate(h Handshake) {
	left, _ := c.owner.lease.left(c.owner.clock.now())
	limit := max(minAttempt, left*exchangeNumerator/exchangeDenominator)
	ctx, cancel := context.WithTimeoutCause(c.owner.ctx, limit, fmt.Errorf("not complete within %v", limit))
	defer cancel()
	giveUp := func() {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) { // and not by Close, which may end the session yet
			c.failExchange(context.Cause(ctx))
		}
	}
	// A mechanism that does not heed its context must not keep the connection.
	stop := context.AfterFunc(ctx, giveUp)
	defer stop()
	unlink := context.AfterFunc(c.ctx, cancel)
	defer unlink()
	select {
	case c.owner.authenticating <- struct{}{}: // a mechanism that blocks gets no second exchange
		defer func() { <-c.owner.authenticating }()
	case <-ctx.Done():
		giveUp() // stop may come before the function that it stops
		return
	}
	if !c.runExchange(ctx) {
		return
	}
	if err := c.admitAuthenticated(h); err != nil {
		c.fail(err)
	}
}

// runExchange begins an exchange and reports whether it is complete. If it is not, the connection has ended.
func (c *conn) runExchange(ctx context.Context) bool {
	step, dropKept, err := c.owner.cfg.SASL.Start(ctx, c.to.server, c.socket.RemoteAddr())
	if err != nil {
		if errors.As(err, new(refusal)) {
			err = refusal{err, true}
		}
		c.failExchange(err)
		return false
	}
	c.exchange.kept = dropKept != nil
	if err = c.takeSteps(ctx, step); err != nil {
		c.failExchange(err)
		if c.wasRefused() && dropKept != nil {
			dropKept()
		}
	}
	return err == nil
}

// takeSteps sends the answers of the mechanism until both sides are done.
func (c *conn) takeSteps(ctx context.Context, step SASLStep) error {
	var challenge token
	for range maxChallenges {
		answer, done, err := step(ctx, challenge)
		switch {
		case err != nil:
			return err
		case done && len(answer) == 0 && challenge != nil:
			return nil // the last challenge was the server's own proof
		}
		first := challenge == nil
		if challenge, err = c.askSASL(ctx, answer); err != nil {
			return err
		}
		switch {
		case done && len(challenge) == 0:
			return nil
		case done:
			return fmt.Errorf("%w: %d bytes after the end of the exchange", ErrProtocol, len(challenge))
		case challenge == nil && first:
			return ErrNoSASL
		case challenge == nil:
			// A server may keep the connection of a client that it has refused.
			return Refuse(errors.New("the server has sent no challenge: it has refused the client, and serves it without its identity (zookeeper.allowSaslFailedClients)"))
		}
	}
	return fmt.Errorf("%w: more than %d challenges", ErrProtocol, maxChallenges)
}

var errUnderWay = errors.New("the exchange is under way")

// ErrNoSASL reports a server that does not know SASL. It is final once no server of the ensemble does.
var ErrNoSASL = errors.New("the server does not know SASL: it needs a JAAS section Server (java.security.auth.login.config) and the provider SASLAuthenticationProvider")

// askSASL sends a token and returns the server's.
func (c *conn) askSASL(ctx context.Context, answer []byte) (token, error) {
	if len(answer) > c.owner.cfg.MaxRequest {
		return nil, Refuse(fmt.Errorf("a token of %d bytes, at most %d are sent", len(answer), c.owner.cfg.MaxRequest))
	}
	if err := c.sendSASL(answer); err != nil {
		return nil, err
	}
	select {
	case t := <-c.exchange.tokens:
		return t, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (c *conn) sendSASL(answer []byte) error {
	c.lockWriting()
	defer c.unlockWriting()
	e := wire.NewEncoder(wire.LengthSize + len(answer))
	e.Buffer(append([]byte{}, answer...)) // empty rather than null, on which servers fail
	call := &Call{Op: wire.OpSASL, Body: e.Bytes()}
	c.queue.Lock()
	if c.closing {
		c.queue.Unlock()
		return ErrClosed
	}
	call.xid = c.takeXidLocked()
	c.exchange.awaited = call.xid
	by := c.writeByLocked()
	c.queue.Unlock()
	_, err := c.write(appendFrame(nil, call), by)
	return err
}

// takesSASL reports whether the exchange waits for this reply. Servers answer these requests while they
// read, so the answer has no place in the order of the other replies.
func (c *conn) takesSASL(xid int32) bool {
	c.queue.Lock()
	defer c.queue.Unlock()
	if c.exchange.awaited == 0 || c.exchange.awaited != xid {
		return false
	}
	c.exchange.awaited = 0
	return true
}

// receiveSASL handles the reply that the exchange waits for; callers hold dispatch. A refusal is
// reported here, before the end of the connection, which follows it, can be read.
func (c *conn) receiveSASL(reply Reply) error {
	switch reply.Code {
	case 0:
	case wire.CodeAuthFailed, wire.CodeSASLRequired:
		return c.refuse(Refuse(fmt.Errorf("error %d: the server knows no such user or principal, the password or the key is not its own, or the clocks differ; its log has the reason", reply.Code)))
	case wire.CodeUnimplemented:
		return c.refuse(ErrNoSASL)
	default:
		return c.exchangeError(fmt.Errorf("server error %d", reply.Code))
	}
	d := wire.NewDecoder(reply.Body)
	t := token(d.Buffer())
	switch err := d.Err(); {
	case err != nil:
		return c.exchangeError(fmt.Errorf("%w: %w", ErrProtocol, err))
	case d.Len() > 0:
		return c.exchangeError(fmt.Errorf("%w: %d bytes after a token", ErrProtocol, d.Len()))
	case len(t) > maxToken:
		return c.exchangeError(fmt.Errorf("%w: a token of %d bytes, at most %d are accepted", ErrProtocol, len(t), maxToken))
	}
	c.exchange.tokens <- t // there is room: the exchange has one request under way
	return nil
}

func (c *conn) exchangeError(err error) error {
	return fmt.Errorf("SASL %s: %w", c.owner.cfg.SASL.Mechanism, err)
}

// failExchange ends the connection because of the exchange.
func (c *conn) failExchange(err error) {
	c.dispatch.Lock()
	if c.phase != ended {
		err = c.refuse(err)
	}
	c.dispatch.Unlock()
	c.fail(err)
}

// refuse returns the error with which the connection must end, and reports it if it is a refusal that
// counts; callers hold dispatch.
func (c *conn) refuse(err error) error {
	var r refusal
	without := errors.Is(err, ErrNoSASL)
	refused := errors.As(err, &r) || without
	err = c.exchangeError(err)
	if !refused {
		return err
	}
	if c.exchange.kept && !without && c.owner.hosts.excuse() {
		c.exchange.excused = true
		return err
	}
	// Other credentials do not help where there is no SASL.
	c.noteRefusal(fmt.Errorf("%s: %w", c.to, err), r.own, !without && c.owner.cfg.SASL.Renews)
	return err
}

// wasRefused reports whether the server has refused the client.
func (c *conn) wasRefused() bool {
	c.dispatch.Lock()
	defer c.dispatch.Unlock()
	return c.refused || c.exchange.excused
}

// sessionAttempts is how many refused attempts a client whose credentials are fixed makes at least within a session.
const sessionAttempts = 6

// noteRefusal reports that a server has refused the client, or that the client has nothing to show. If this
// is final, no other connection is made. Callers hold dispatch.
func (c *conn) noteRefusal(err error, own, renews bool) {
	c.refused = true
	timeout, ceiling := c.owner.handshake.Load().Timeout, maxRefusalPause
	if !renews && !c.owner.fresh.Load() { // there is a session to save, and nothing that many attempts could lock
		ceiling = min(ceiling, timeout/sessionAttempts)
	}
	all, final := c.owner.hosts.noteRefusal(c.to, own, timeout, ceiling)
	if final = final && !renews; final {
		c.owner.refused.Store(true)
	}
	c.owner.cfg.Events.AuthFailed(err, all, final)
}

// admitAuthenticated opens the connection for calls after the exchange.
func (c *conn) admitAuthenticated(h Handshake) error {
	c.dispatch.Lock()
	defer c.dispatch.Unlock()
	if c.phase == ended {
		return net.ErrClosed
	}
	if len(c.owner.credentials()) == 0 { // otherwise the first reply shows that all credentials are accepted
		c.owner.hosts.noteAdmission(c.to)
	}
	c.resume(h)
	c.queue.Lock()
	held := c.exchange.heldPing
	c.queue.Unlock()
	if held {
		go c.sendHeldPing() // it may block, and what is read must not wait for it
	}
	return nil
}

func (c *conn) sendHeldPing() {
	e := wire.NewEncoder(wire.LengthSize + wire.RequestHeader)
	e.Int32(wire.RequestHeader)
	e.Int32(wire.XidPing)
	e.Int32(wire.OpPing)
	if _, err := c.Write(e.Bytes()); err != nil {
		c.fail(err)
	}
}

// holdsPingLocked reports whether a request of go-zookeeper is a ping that must wait for the end of the
// exchange. Some servers hang up on any other request before that. The first of them shows it.
func (c *conn) holdsPingLocked(op int32) bool {
	if op != wire.OpPing || c.phase >= resuming || c.owner.cfg.SASL == nil || !c.owner.demandsSASL.Load() {
		return false
	}
	c.exchange.heldPing = true
	return true
}

// receiveDemand handles the answer of a server that serves no client without an identity, after which it
// hangs up. Callers hold dispatch.
func (c *conn) receiveDemand(op int32) error {
	switch {
	case c.phase >= resuming:
		err := errors.New("the server serves only clients that have authenticated by SASL, or by another of its schemes (enforce.auth.schemes)")
		c.noteRefusal(fmt.Errorf("%s: %w", c.to, err), false, false)
		return err
	case op == wire.OpPing:
		c.owner.demandsSASL.Store(true)
		return c.exchangeError(errors.New("the exchange has taken longer than a third of the session timeout, and the server takes no ping before its end: the next pings wait"))
	default:
		return c.exchangeError(errors.New("the server takes no other request before the end of the exchange"))
	}
}
