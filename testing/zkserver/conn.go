// SPDX-License-Identifier: Apache-2.0

package zkserver

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// linger is how long a connection that the server ends may take to send what was queued and to see its client hang
// up. Without it, a close with unread requests would reset the connection and lose replies on their way.
const linger = time.Second

// conn is one connection, with a goroutine that reads and serves requests one after the other and a goroutine that
// writes what is queued. So replies are in the order of requests, and an event that is queued before a reply arrives
// before it.
type conn struct {
	srv    *Server
	nc     net.Conn
	number int // from 1, in the order in which they came

	// Of the reading goroutine.
	in      *bufio.Reader
	body    []byte // of the frame being served
	greeted bool   // the connect request has been received

	// awaits is the session of a request that has arrived and waits for Server.mu, or 0.
	awaits atomic.Int64

	// Guarded by Server.mu.
	attached    bool     // serves a session; set by the connect request and cleared for good by detach
	session     *session // set once, by the reading goroutine, which therefore may read it without the lock
	ids         []authID
	digest      digestExchange
	lastZxid    int64      // the largest that a reply has carried
	held        []event    // events for later, while reads are frozen
	pending     []*pending // requests that wait for the leader of an ensemble, and those behind them
	claims      int64      // the session that it has, or asks for; 0 while it has asked for a new one
	lossy       bool       // a black hole has swallowed something
	cutOff      *freeze    // what it sees while it is cut off, or nil
	stuck       bool       // a request has got no answer because it is cut off
	established time.Time
	word        bool // it has sent a four-letter word
	traffic     traffic
	holds       int  // bytes of memory, see Server.hold
	released    bool // no longer counted

	outMu   sync.Mutex
	out     []byte
	sealed  bool          // takes no more output
	wake    chan struct{} // one token: there is output
	ended   chan struct{} // closed when the connection must close after sending what is queued
	aborted chan struct{} // closed when it must close now

	abortOnce sync.Once
	readDone  chan struct{}
}

// digestExchange is how far the SASL exchange of a connection is. Server.mu guards it.
type digestExchange struct {
	nonce string
	done  bool
}

// newConn is called with Server.mu held.
func newConn(s *Server, nc net.Conn) *conn {
	s.accepted++
	c := &conn{
		number:      s.accepted,
		srv:         s,
		nc:          nc,
		in:          bufio.NewReaderSize(nc, maxKept),
		established: time.Now(),
		traffic:     newTraffic(),
		wake:        make(chan struct{}, 1),
		ended:       make(chan struct{}),
		aborted:     make(chan struct{}),
		readDone:    make(chan struct{}),
	}
	if id, ok := addressID(nc.RemoteAddr()); ok {
		c.ids = append(c.ids, id)
	}
	return c
}

func (c *conn) remote() string {
	if addr := c.nc.RemoteAddr(); addr != nil {
		return addr.String()
	}
	return ""
}

// host is the client's address without its port.
func (c *conn) host() string {
	host, _, err := net.SplitHostPort(c.remote())
	if err != nil {
		return c.remote()
	}
	return host
}

// errProtocol is in the error of a connection whose client does not speak the protocol.
var errProtocol = errors.New("protocol violated")

// readLoop serves the connection until it fails or its client hangs up. After the server has ended the connection,
// readLoop discards what still arrives.
func (c *conn) readLoop() {
	defer close(c.readDone)
	exited := true
	defer func() {
		if exited { // a hook has, as testing.T.FailNow does
			c.srv.hungUp(c, errors.New("a hook has ended its goroutine"))
			c.abort()
		}
	}()
	err := c.serve()
	exited = false
	c.srv.hungUp(c, err)
	switch {
	case c.isEnded(): // and the writing goroutine closes it
	case errors.Is(err, errProtocol):
		c.srv.log.Warn("connection closed", "client", c.remote(), "error", err)
		c.finish(sendQueued)
	default:
		c.srv.log.Info("connection lost", "client", c.remote(), "error", err)
		c.abort()
	}
	_, _ = io.Copy(io.Discard, c.in) // until the client hangs up; all errors have been reported
}

func (c *conn) serve() error {
	var prefix [4]byte
	for {
		if _, err := io.ReadFull(c.in, prefix[:]); err != nil {
			return err
		}
		if word := c.srv.words[string(prefix[:])]; word != nil && !c.greeted {
			if c.srv.gate.wait(c.ended) {
				c.answerWord(word)
			}
			return nil
		}
		size := int(int32(binary.BigEndian.Uint32(prefix[:])))
		if size < 0 || size > c.srv.cfg.maxFrame {
			return fmt.Errorf("%w: frame of %d bytes", errProtocol, size)
		}
		if err := c.readBody(size); err != nil {
			return err
		}
		if !c.waitForRequest(len(prefix) + size) {
			return nil
		}
		if err := c.serveFrame(); err != nil {
			return err
		}
		if cap(c.body) > maxKept {
			c.holdBody(maxKept - cap(c.body))
			c.body = nil
		}
	}
}

// readBody reads a frame of size bytes into body. Memory grows with the bytes that arrive, not with the size that the
// client has announced.
func (c *conn) readBody(size int) error {
	c.body = c.body[:0]
	for len(c.body) < size {
		if len(c.body) == cap(c.body) {
			larger := max(maxKept, min(size, 2*cap(c.body)))
			c.holdBody(larger - max(maxKept, cap(c.body)))
			c.body = append(make([]byte, 0, larger), c.body...)
		}
		n, err := io.ReadFull(c.in, c.body[len(c.body):min(size, cap(c.body))])
		c.body = c.body[:len(c.body)+n]
		if err != nil {
			return err
		}
	}
	return nil
}

// holdBody counts memory of body beyond maxKept.
func (c *conn) holdBody(n int) {
	if n != 0 {
		c.srv.mu.Lock()
		defer c.srv.mu.Unlock()
		c.srv.hold(c, n)
	}
}

// serveFrame serves the request in body. An error means that it cannot be one.
func (c *conn) serveFrame() error {
	if !c.srv.gate.wait(c.ended) || c.isEnded() {
		return nil
	}
	in := decoder{b: c.body}
	if !c.greeted {
		c.greeted = true
		r := decodeConnect(&in)
		if in.bad {
			return fmt.Errorf("%w: malformed connect request", errProtocol)
		}
		c.srv.greet(c, r)
		return nil
	}
	r := request{xid: in.int32(), op: OpCode(in.int32())}
	if in.bad {
		return fmt.Errorf("%w: malformed request header", errProtocol)
	}
	r.in = in
	c.srv.serve(c, r)
	return nil
}

// maxIdentities bounds the identities of a connection beside its address, since each of them is compared with each
// entry of an ACL.
const maxIdentities = 1000

func (c *conn) identify(id authID) bool {
	if slices.Contains(c.ids, id) {
		return true
	}
	if len(c.ids) > maxIdentities {
		return false
	}
	c.holdText(1, len(id.scheme)+len(id.id))
	c.ids = append(c.ids, id)
	return true
}

// isSASLAuthenticated reports whether the connection may make a request, as far as it takes an identity of the scheme sasl.
func (c *conn) isSASLAuthenticated(op OpCode) bool {
	return !c.srv.cfg.saslRequired || op == OpAuth || op == OpSASL || c.digest.done
}

// sessionID is the id of the client's session, or 0 if there is none.
func (c *conn) sessionID() int64 {
	if c.session == nil {
		return 0
	}
	return c.session.id
}

// answerWord sends the answer to a four-letter word.
func (c *conn) answerWord(word func(*Server, *bytes.Buffer)) {
	s := c.srv
	s.mu.Lock()
	defer s.mu.Unlock()
	s.received(c)
	c.word = true
	var out bytes.Buffer
	word(s, &out)
	s.reply(c, out.Bytes())
	c.finish(sendQueued)
}
