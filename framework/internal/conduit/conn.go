package conduit

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework/internal/jute"
)

const (
	xidNotification = -1
	firstOwnXid     = -1000 // and downwards
	lastOwnXid      = -1 << 30

	opClose = -11

	lengthSize       = 4
	requestHeader    = 8
	replyHeader      = 16
	maxHandshake     = 1 << 10
	passwordSize     = 16
	batchSizeAtStart = 512

	// What a TLS server answers to somebody who does not speak it begins with these.
	tlsAlert, tlsMajor = 21, 3
)

// conn is one connection to one server: a net.Conn to go-zookeeper.
//
// Locks, in the order in which they may be taken together: dispatch, writing,
// queue. The methods of Events are called under dispatch.
type conn struct {
	c           *Conduit
	socket      net.Conn
	server      string
	handshakeBy time.Time

	// Used by go-zookeeper's receiving goroutine only.
	in      *bufio.Reader
	length  [lengthSize]byte // of the frame that is being read
	rest    []byte           // of the frame go-zookeeper is reading
	expired bool             // close when rest has been read
	idle    time.Duration
	idleSet time.Time

	dispatch    sync.Mutex // held while a frame is interpreted or the end is told
	established bool
	failed      bool

	writing     sync.Mutex // held while a socket write is under way
	connectSent time.Time  // zero until the connect request is being written
	asked       int64      // the session that it names, 0 for a new one
	batch       []byte

	authenticated bool // the credentials have been written; guarded by writing

	queue   sync.Mutex
	open    bool // accepts calls
	session int64
	nextXid int32
	unsent  []*Call
	pending requests // written, in order

	presented []string // schemes of the credentials that wait for an answer

	wake chan struct{} // tells the writer that unsent has something
	done chan struct{} // closed by fail
}

func newConn(c *Conduit, socket net.Conn, server string, handshakeBy time.Time) *conn {
	return &conn{
		c: c, socket: socket, server: server, handshakeBy: handshakeBy,
		in:      bufio.NewReaderSize(socket, 32<<10),
		batch:   make([]byte, 0, batchSizeAtStart),
		nextXid: firstOwnXid,
		wake:    make(chan struct{}, 1),
		done:    make(chan struct{}),
	}
}

// Read gives go-zookeeper the frames that are meant for it and deals with all
// others on the way.
func (c *conn) Read(p []byte) (int, error) {
	for len(c.rest) == 0 {
		if c.expired {
			// go-zookeeper forgets a connection on which it read "expired".
			return 0, io.EOF
		}
		frame, err := c.readFrame()
		if err != nil {
			c.fail(err)
			return 0, err
		}
		if c.rest, err = c.receive(frame); err != nil {
			c.fail(err)
			return 0, err
		}
		c.extendDeadline()
	}
	n := copy(p, c.rest)
	c.rest = c.rest[n:]
	if len(c.rest) == 0 && c.expired {
		c.fail(zk.ErrSessionExpired)
	}
	return n, nil
}

func (c *conn) readFrame() ([]byte, error) {
	length := c.length[:]
	if _, err := io.ReadFull(c.in, length); err != nil {
		return nil, err
	}
	limit, tooLarge := c.c.cfg.MaxReply, ErrReplyTooLarge
	if !c.isEstablished() {
		if length[0] == tlsAlert && length[1] == tlsMajor {
			return nil, fmt.Errorf("%w: the server speaks TLS on this port", ErrProtocol)
		}
		limit, tooLarge = maxHandshake, ErrProtocol
	}
	n := int32(binary.BigEndian.Uint32(length))
	if n < 0 {
		tooLarge = ErrProtocol
	}
	if n < 0 || int(n) > limit {
		return nil, fmt.Errorf("%w: a frame of %d bytes, at most %d are accepted", tooLarge, uint32(n), limit)
	}
	frame := make([]byte, n)
	if _, err := io.ReadFull(c.in, frame); err != nil {
		return nil, err
	}
	return frame, nil
}

func (c *conn) isEstablished() bool {
	c.dispatch.Lock()
	defer c.dispatch.Unlock()
	return c.established
}

// receive interprets a frame and returns what go-zookeeper is to see, if
// anything.
func (c *conn) receive(frame []byte) ([]byte, error) {
	c.dispatch.Lock()
	defer c.dispatch.Unlock()
	switch {
	case c.failed:
		return nil, net.ErrClosed
	case !c.established:
		return c.receiveHandshake(frame)
	case len(frame) < replyHeader:
		return nil, fmt.Errorf("%w: a reply of %d bytes, a header has %d", ErrProtocol, len(frame), replyHeader)
	}
	d := jute.NewDecoder(frame)
	xid, zxid, code := d.Int32(), d.Int64(), d.Int32()
	body := frame[replyHeader:]
	switch xid {
	case xidNotification:
		return nil, c.receiveNotification(body)
	case xidAuth:
		return nil, c.receiveAuthReply(code)
	}
	return c.receiveReply(xid, Reply{Zxid: zxid, Code: code, Body: body})
}

func (c *conn) receiveHandshake(frame []byte) ([]byte, error) {
	if isRefusedSession(frame) {
		return nil, errNoLocalSessions
	}
	d := jute.NewDecoder(frame)
	d.Int32() // protocol version
	timeout := time.Duration(d.Int32()) * time.Millisecond
	session, password := d.Int64(), d.Buffer()
	readOnly := d.Len() > 0 && d.Bool() // not from servers before 3.4
	if err := d.Err(); err != nil {
		return nil, fmt.Errorf("%w: connect response: %w", ErrProtocol, err)
	}
	c.writing.Lock()
	sent, asked := c.connectSent, c.asked
	c.writing.Unlock()
	if sent.IsZero() {
		return nil, fmt.Errorf("%w: a connect response before the request", ErrProtocol)
	}
	if readOnly && (asked != 0 || !c.c.cfg.ReadOnly) {
		return nil, errReadOnlyServer
	}
	if session == 0 {
		c.expired = true
		c.c.zxid.Store(0)
		c.c.cfg.Events.Expired()
		return handshakeFrame(0, 0, make([]byte, passwordSize)), nil
	}
	if timeout <= 0 || len(password) != passwordSize {
		return nil, fmt.Errorf("%w: connect response with timeout %v and a password of %d bytes",
			ErrProtocol, timeout, len(password))
	}
	c.established = true
	c.c.readOnly.Store(readOnly)
	c.c.lastFailure.Store(nil)
	c.queue.Lock()
	c.open, c.session = true, session
	c.queue.Unlock()
	if len(c.c.cfg.Auth) > 0 {
		c.wakeWriter()
	}
	fresh := c.c.lease.open(session, timeout, sent, time.Now())
	go c.writeLoop()
	if readOnly {
		go c.seekWriter()
	}
	c.c.cfg.Events.Connected(Handshake{
		SessionID: session, Password: password, Timeout: timeout, Server: c.server, Fresh: fresh, ReadOnly: readOnly,
	})
	return handshakeFrame(timeout, session, password), nil
}

func (c *conn) receiveNotification(body []byte) error {
	d := jute.NewDecoder(body)
	kind := zk.EventType(d.Int32())
	d.Int32() // state
	path := d.String()
	if err := d.Err(); err != nil {
		return fmt.Errorf("%w: notification: %w", ErrProtocol, err)
	}
	c.c.cfg.Events.Notified(Notification{Type: kind, Path: path})
	return nil
}

func (c *conn) receiveReply(xid int32, reply Reply) ([]byte, error) {
	c.queue.Lock()
	request, found := c.pending.first()
	if !found || request.xid != xid {
		c.queue.Unlock()
		return nil, fmt.Errorf("%w: a reply with xid %d out of order", ErrProtocol, xid)
	}
	if request.call != nil && len(c.presented) > 0 {
		c.queue.Unlock()
		return nil, fmt.Errorf("%w: a reply before that to the credentials", ErrProtocol)
	}
	c.pending.pop()
	c.queue.Unlock()

	c.c.sawZxid(reply.Zxid)
	if provesSession(reply.Code) {
		c.c.lease.renew(request.sent, time.Now())
	}
	if call := request.call; call != nil {
		if call.Confirms && reply.Code == 0 {
			c.c.lease.confirm(request.sent, c.c.cfg.Tick)
		}
		c.settle(call, reply, nil)
		return nil, nil
	}
	if request.op == opClose && (reply.Code == 0 || c.c.readOnly.Load()) {
		c.c.sessionClosed.Store(true)
	}
	return headerFrame(xid, reply), nil
}

// provesSession tells whether a reply with this error code shows that the server
// counted the request as a sign of life.
func provesSession(code int32) bool {
	switch code {
	case -6, -112, -118, codeNotReadOnly, -124: // unimplemented, session expired, moved, not read-only, SASL required
		return false
	default:
		return true
	}
}

// Write sends a frame of go-zookeeper's.
func (c *conn) Write(frame []byte) (int, error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	now := time.Now()
	if c.connectSent.IsZero() {
		if len(frame) < lengthSize+24 {
			return 0, fmt.Errorf("conduit: a connect request of %d bytes", len(frame))
		}
		c.connectSent = now
		if _, err := c.write(c.completeHandshake(frame), c.handshakeBy); err != nil {
			return 0, err
		}
		return len(frame), nil
	}
	if len(frame) < lengthSize+requestHeader {
		return 0, fmt.Errorf("conduit: a request of %d bytes", len(frame))
	}
	d := jute.NewDecoder(frame[lengthSize:])
	c.queue.Lock()
	c.pending.push(pendingRequest{xid: d.Int32(), op: d.Int32(), sent: now})
	c.queue.Unlock()
	return c.write(frame, now.Add(c.writeLimit()))
}

// completeHandshake puts into go-zookeeper's connect request what only the
// conduit knows: the newest transaction seen, so that a server that is behind it
// refuses us, and the timeout we asked for first, in place of the last one
// negotiated.
//
// Once the lease is over, nothing that was read before counts any more, and any
// server will do: all would refuse us for ever if they were restored from a backup,
// or if one of them has named a transaction that never was.
func (c *conn) completeHandshake(frame []byte) []byte {
	const zxidAt, timeoutAt, sessionAt = lengthSize + 4, lengthSize + 12, lengthSize + 16
	_, over := c.c.lease.check(c.connectSent)
	anew := c.c.startsAnew(over)
	if over || anew {
		c.c.zxid.Store(0)
		binary.BigEndian.PutUint64(frame[zxidAt:], 0)
	}
	if anew {
		binary.BigEndian.PutUint64(frame[sessionAt:], 0)
	}
	if binary.BigEndian.Uint64(frame[sessionAt:]) != 0 {
		seen := max(c.c.zxid.Load(), int64(binary.BigEndian.Uint64(frame[zxidAt:])))
		binary.BigEndian.PutUint64(frame[zxidAt:], uint64(seen))
	}
	binary.BigEndian.PutUint32(frame[timeoutAt:], uint32(c.c.cfg.SessionTimeout.Milliseconds()))
	c.asked = int64(binary.BigEndian.Uint64(frame[sessionAt:]))
	if c.c.cfg.ReadOnly {
		return withReadOnly(frame)
	}
	return frame
}

func (c *conn) writeLoop() {
	for {
		select {
		case <-c.wake:
			if err := c.flush(); err != nil {
				c.fail(err)
				return
			}
		case <-c.done:
			return
		}
	}
}

// flush writes everything that is queued in one write.
func (c *conn) flush() error {
	c.writing.Lock()
	defer c.writing.Unlock()
	now := time.Now()
	batch := c.batch[:0]
	c.queue.Lock()
	if !c.authenticated {
		batch = c.appendAuth(batch)
	}
	for _, call := range c.unsent {
		batch = appendFrame(batch, call)
		c.pending.push(pendingRequest{xid: call.xid, op: call.Op, sent: now, call: call})
	}
	clear(c.unsent)
	c.unsent = c.unsent[:0]
	c.queue.Unlock()
	if cap(batch) <= maxHandshake*64 {
		c.batch = batch
	}
	if len(batch) == 0 {
		return nil
	}
	_, err := c.write(batch, now.Add(c.writeLimit()))
	return err
}

// write sends bytes; callers hold writing.
func (c *conn) write(b []byte, by time.Time) (int, error) {
	if err := c.socket.SetWriteDeadline(by); err != nil {
		return 0, err
	}
	return c.socket.Write(b)
}

func (c *conn) writeLimit() time.Duration { return c.c.cfg.SessionTimeout * 2 / 3 }

func (c *conn) isOpen() bool {
	c.queue.Lock()
	defer c.queue.Unlock()
	return c.open
}

// enqueue accepts the calls, all or none.
func (c *conn) enqueue(calls []*Call) error {
	c.queue.Lock()
	defer c.queue.Unlock()
	switch {
	case c.open:
	case c.c.refused.Load():
		return notSent(ErrAuthFailed)
	default:
		return notSent(ErrNotConnected)
	}
	for _, call := range calls {
		if call.Session != 0 && call.Session != c.session {
			return notSent(ErrOtherSession)
		}
	}
	for _, call := range calls {
		call.xid = c.nextXid
		if c.nextXid--; c.nextXid < lastOwnXid {
			c.nextXid = firstOwnXid
		}
	}
	c.unsent = append(c.unsent, calls...)
	c.wakeWriter()
	return nil
}

func (c *conn) wakeWriter() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// abandon settles the calls whose caller has gone, for the reason given. Those
// not yet written never will be.
func (c *conn) abandon(calls []*Call, reason error) error {
	var dropped []*Call
	var result error
	c.queue.Lock()
	for _, call := range calls {
		if call.settled {
			if call.err != nil && result == nil {
				result = call.err
			}
			continue
		}
		call.settled = true
		call.err = fmt.Errorf("%w: %w", ErrUnanswered, reason)
		if c.unqueue(call) {
			call.err = notSent(reason)
			dropped = append(dropped, call)
		}
		result = call.err
	}
	c.queue.Unlock()
	for _, call := range dropped {
		if call.OnDone != nil {
			call.OnDone(Reply{}, call.err)
		}
	}
	return result
}

// unqueue takes a call out of unsent, if it is there; callers hold queue.
func (c *conn) unqueue(call *Call) bool {
	for i, queued := range c.unsent {
		if queued == call {
			c.unsent = slices.Delete(c.unsent, i, i+1)
			return true
		}
	}
	return false
}

// settle ends a call; callers hold dispatch.
func (c *conn) settle(call *Call, reply Reply, err error) {
	if call.OnDone != nil {
		call.OnDone(reply, err)
	}
	c.queue.Lock()
	defer c.queue.Unlock()
	if !call.settled {
		call.settled, call.reply, call.err = true, reply, err
		if call.done != nil {
			close(call.done)
		}
	}
}

// fail ends the connection: once, and after whatever frame is being received.
func (c *conn) fail(reason error) {
	c.dispatch.Lock()
	defer c.dispatch.Unlock()
	if c.failed {
		return
	}
	c.failed = true
	close(c.done)
	c.queue.Lock()
	pending, unsent := c.pending.all(), c.unsent
	c.pending, c.unsent, c.open = requests{}, nil, false
	c.queue.Unlock()
	if c.established {
		c.c.cfg.Events.Disconnected(reason)
	} else {
		reason = fmt.Errorf("handshake with %s: %w", c.server, reason)
		c.c.lastFailure.Store(&reason)
	}
	for i, request := range pending {
		if i > 0 && errors.Is(reason, ErrReplyTooLarge) { // it was for the first
			reason = fmt.Errorf("%w: another call has failed: %s", ErrProtocol, reason.Error())
		}
		if request.call != nil {
			c.settle(request.call, Reply{}, fmt.Errorf("%w: %w", ErrUnanswered, reason))
		}
	}
	for _, call := range unsent {
		c.settle(call, Reply{}, notSent(reason))
	}
	// Last, as TLS takes a while to say goodbye to a server that does not read. The
	// socket's own error has nothing to add: the connection ends here.
	_ = c.socket.Close()
}

// Close is called by go-zookeeper when it is done with the connection.
func (c *conn) Close() error {
	c.fail(errors.New("closed by go-zookeeper: it heard nothing from the server in time, or is closing"))
	return nil
}

// SetReadDeadline is called by go-zookeeper before each frame. Until the
// handshake is done the limit of the attempt holds.
func (c *conn) SetReadDeadline(t time.Time) error {
	if !c.isEstablished() {
		return c.socket.SetReadDeadline(c.handshakeBy)
	}
	c.idle = 0
	if !t.IsZero() {
		c.idleSet = time.Now()
		c.idle = t.Sub(c.idleSet)
	}
	return c.socket.SetReadDeadline(t)
}

// extendDeadline gives the server the same time again after a frame that
// go-zookeeper does not see.
func (c *conn) extendDeadline() {
	if c.idle == 0 || len(c.rest) > 0 {
		return
	}
	now := time.Now()
	if now.Sub(c.idleSet) < c.idle/8 {
		return
	}
	c.idleSet = now
	// A socket that refuses a deadline is closed, and the next read says so.
	_ = c.socket.SetReadDeadline(now.Add(c.idle))
}

// SetWriteDeadline does nothing: each write has a deadline of its own.
func (c *conn) SetWriteDeadline(time.Time) error { return nil }

// SetDeadline is not used by go-zookeeper.
func (c *conn) SetDeadline(t time.Time) error { return c.SetReadDeadline(t) }

func (c *conn) LocalAddr() net.Addr  { return c.socket.LocalAddr() }
func (c *conn) RemoteAddr() net.Addr { return c.socket.RemoteAddr() }
