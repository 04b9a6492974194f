// SPDX-License-Identifier: Apache-2.0

package conduit

import (
	"fmt"
	"time"

	"github.com/gocurator/curator/framework/internal/wire"
	"github.com/gocurator/curator/internal/secrets"
)

func (c *conn) receiveHandshake(frame []byte) ([]byte, error) {
	if isRefusedSession(frame) {
		return nil, errNoLocalSessions
	}
	d := wire.NewDecoder(frame)
	d.Int32() // protocol version
	h := Handshake{Server: c.to.server, Timeout: time.Duration(d.Int32()) * time.Millisecond}
	h.SessionID = d.Int64()
	password := d.Buffer()
	h.Password = secrets.Hide(password)
	h.ReadOnly = d.Len() > 0 && d.Bool() // not from servers before 3.4
	if err := d.Err(); err != nil {
		return nil, fmt.Errorf("%w: connect response: %w", ErrProtocol, err)
	}
	c.lockWriting()
	sent, asked := c.connectSent, c.asked
	c.unlockWriting()
	if sent.IsZero() {
		return nil, fmt.Errorf("%w: a connect response before the request", ErrProtocol)
	}
	if h.ReadOnly && (asked != 0 || !c.owner.cfg.ReadOnly) {
		return nil, errReadOnlyServer
	}
	if h.SessionID == 0 {
		// Data that was read in the session says nothing about the next server.
		c.expired = true
		c.owner.seen.forget()
		c.owner.cfg.Events.Expired()
		return handshakeFrame(0, 0, make([]byte, wire.PasswordSize)), nil
	}
	if h.Timeout <= 0 || len(password) != wire.PasswordSize {
		return nil, fmt.Errorf("%w: connect response with timeout %v and a password of %d bytes",
			ErrProtocol, h.Timeout, len(password))
	}
	if asked != 0 && asked != h.SessionID {
		c.owner.seen.forget() // ClickHouse Keeper hands out another session without a word
	}
	c.establish(h, sent)
	return handshakeFrame(h.Timeout, h.SessionID, password), nil
}

// establish begins the connection of a session; callers hold dispatch.
func (c *conn) establish(h Handshake, sent time.Time) {
	c.enter(exchanging)
	c.version.unusual.Store(IsUnusual(h.SessionID))
	c.owner.handshake.Store(&h)
	c.owner.hosts.spreadOver(h.Timeout / spreadShare)
	if c.owner.lease.open(h.SessionID, h.Timeout, sent, c.owner.clock.now()) {
		c.owner.fresh.Store(true)
	}
	c.behind = c.owner.seen.unproved.Load()
	c.owner.seen.resumed.Store(true)
	c.queue.Lock()
	c.session, c.granted = h.SessionID, h.Timeout
	c.window = newWindow(h.Timeout)
	c.queue.Unlock()
	go c.writeLoop()
	if c.owner.cfg.SASL != nil {
		// The error of a caller that waits, until there is an outcome.
		underWay := fmt.Errorf("authentication at %s: %w", c.to.server, c.exchangeError(errUnderWay))
		c.owner.lastFailure.Store(&underWay)
		go c.authenticate(h)
		return
	}
	c.resume(h)
}

// admit opens the connection for calls, once the session is registered; callers hold dispatch.
func (c *conn) admit(h Handshake) {
	if register := c.owner.cfg.Register; register != nil && !h.ReadOnly && c.owner.registered.Load() != h.SessionID {
		register(h, func() {
			c.dispatch.Lock()
			defer c.dispatch.Unlock()
			if c.phase != ended {
				c.owner.registered.Store(h.SessionID)
				c.openFor(h)
			}
		})
		return
	}
	c.openFor(h)
}

// openFor opens the connection for the calls of a session; callers hold dispatch.
func (c *conn) openFor(h Handshake) {
	c.owner.lastFailure.Store(nil)
	h.Fresh = c.owner.fresh.Swap(false)
	c.enter(serving)
	if len(c.owner.credentials()) > 0 {
		c.wakeWriter()
	}
	if h.ReadOnly {
		go c.leaveForWriter()
	}
	c.owner.cfg.Events.Connected(h)
}
