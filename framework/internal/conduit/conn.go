// SPDX-License-Identifier: Apache-2.0

package conduit

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gocurator/curator/framework/internal/wire"
)

const (
	firstOwnXid = -1000 // and downwards
	lastOwnXid  = -1 << 30

	maxHandshake     = 1 << 10
	batchSizeAtStart = 512
)

// conn is one connection to one server: a net.Conn to go-zookeeper.
//
// Locks, in the order in which they may be taken together: dispatch, writing,
// queue. The methods of Events are called under dispatch.
type conn struct {
	owner       *Conduit
	socket      net.Conn
	buffered    bool   // the operating system buffers what is written to the socket
	to          target // the server, and its address if that is known
	handshakeBy time.Time
	began       time.Time
	heard       atomic.Int64    // when a part of a reply came last, in nanoseconds since began; 0 for never
	ctx         context.Context // ended by fail, after the end was reported
	cancel      context.CancelFunc
	version     serverVersion
	exchange    saslExchange

	// dispatch is held while a frame is interpreted or the end is reported.
	dispatch sync.Mutex
	refused  bool // the server has refused the client, and Events was told
	behind   bool // the server may not know all that the client has seen

	incoming
	outgoing
	backlog
}

// incoming is the state of reading. Only go-zookeeper's receiving goroutine uses it.
type incoming struct {
	in      *bufio.Reader
	length  [wire.LengthSize]byte // of the frame that is being read
	rest    []byte                // of the frame go-zookeeper is reading
	expired bool                  // close when rest has been read
	idle    time.Duration
	idleSet time.Time

	coalescing coalescing
}

// phase is how far a connection has come. It only goes forward.
type phase int

const (
	handshaking phase = iota // the server has not accepted the session
	exchanging               // SASL, if the client has a mechanism
	resuming                 // the server shows what it has, see conn.resume, and the session is registered
	serving                  // open for calls; Connected was reported
	ended
)

// enter begins a phase; callers hold dispatch, and not queue.
func (c *conn) enter(next phase) {
	c.queue.Lock()
	defer c.queue.Unlock()
	if next <= c.phase {
		panic(fmt.Sprintf("conduit: a connection goes from phase %d to %d", c.phase, next))
	}
	c.phase = next
}

// outgoing is the state of writing.
type outgoing struct {
	// writing holds a value while a socket write is under way. It is a channel because a
	// write may take as long as the other side likes. A channel also serves its waiters in
	// order, so a ping waits for one batch at most.
	writing     chan struct{}
	connectSent time.Time     // zero until the connect request is being written; guarded by writing
	asked       int64         // the session that it names, 0 for a new one; guarded by writing
	writeBy     time.Time     // the socket's deadline for writes; guarded by writing
	batch       []byte        // guarded by writing
	wake        chan struct{} // wakes the writer when there is something to write
}

// backlog is the requests that are to be written, and that wait for replies.
type backlog struct {
	queue   sync.Mutex // guards what follows
	phase   phase      // written under dispatch as well, so either is enough to read it
	closing bool       // the end of the session is written: nothing may follow
	session int64
	granted time.Duration // the session timeout
	nextXid int32
	urgent  fifo[*Call] // to be written before unsent, whatever the window says
	unsent  fifo[*Call]
	dropped int                  // of unsent: given up by their callers
	pending fifo[pendingRequest] // written, in order
	window  window
	apart   int  // how many reads could have shared requests, had the server's version been known
	barred  bool // a znode could not be read: exists is not joined any more

	credentials credentials
}

// pendingRequest is a request on the wire, ours (call is set) or go-zookeeper's.
type pendingRequest struct {
	xid  int32
	op   int32
	sent time.Time
	cost int // of the window
	call *Call

	joined []*Call // of a request that several share: all of them, beginning with call
}

// calls returns the calls that wait for the reply, none for a request of go-zookeeper.
func (r *pendingRequest) calls() []*Call {
	switch {
	case r.joined != nil:
		return r.joined
	case r.call != nil:
		return []*Call{r.call}
	default:
		return nil
	}
}

func newConn(owner *Conduit, socket net.Conn, to target, handshakeBy time.Time) *conn {
	_, buffered := socket.(*net.TCPConn) // a type around it may block
	ctx, cancel := context.WithCancel(context.Background())
	ask := func(ctx context.Context) (string, error) { return owner.dialer.ask(ctx, to, "srvr") }
	return &conn{
		owner: owner, socket: socket, buffered: buffered, to: to, handshakeBy: handshakeBy, began: time.Now(), ctx: ctx, cancel: cancel,
		version: serverVersion{
			server: to, versions: &owner.versions, log: owner.cfg.Logger, ask: ask, over: ctx, closed: owner.cfg.Ended, found: make(chan struct{}),
		},
		exchange: newSASLExchange(),

		incoming: incoming{in: bufio.NewReaderSize(socket, 32<<10), coalescing: coalescing{often: coalesceOften}},
		outgoing: outgoing{writing: make(chan struct{}, 1), batch: make([]byte, 0, batchSizeAtStart), wake: make(chan struct{}, 1)},
		backlog:  backlog{nextXid: firstOwnXid, credentials: credentials{all: owner.credentials}},
	}
}

func (c *conn) isEstablished() bool {
	c.dispatch.Lock()
	defer c.dispatch.Unlock()
	return c.phase > handshaking
}

// noteTooOld is what the reader of a reply calls, see judged.
func (c *conn) noteTooOld(op int32) *TooOldError { return c.version.noteTooOld(op) }

func (c *conn) hasEnded() bool { return c.ctx.Err() != nil }

// isLive reports whether the server has accepted the session, and the connection has not ended.
func (c *conn) isLive() bool {
	c.dispatch.Lock()
	defer c.dispatch.Unlock()
	return c.phase > handshaking && c.phase != ended
}

// settle ends a call; callers hold dispatch.
func (c *conn) settle(call *Call, reply Reply, err error) {
	// The caller may give the call up at this moment, and then tells OnDone itself.
	c.queue.Lock()
	told := call.told
	call.told = true
	c.queue.Unlock()
	if call.OnDone != nil && !told {
		call.OnDone(reply, err)
	}
	c.queue.Lock()
	defer c.queue.Unlock()
	if !call.settled {
		call.settled, call.reply, call.err = true, reply, err
		call.last.noteSettled()
	}
}

// fail ends the connection: once, and after whatever frame is being received.
func (c *conn) fail(reason error) {
	c.dispatch.Lock()
	defer c.dispatch.Unlock()
	last := c.phase
	if last == ended {
		return
	}
	c.enter(ended)
	c.queue.Lock()
	c.dropGivenUpLocked()
	pending, unsent := c.pending.all(), append(c.urgent.all(), c.unsent.all()...)
	c.pending, c.urgent, c.unsent = fifo[pendingRequest]{}, fifo[*Call]{}, fifo[*Call]{}
	c.queue.Unlock()
	if last == serving {
		// First, so that a caller that tries again waits for the next connection.
		c.owner.cfg.Events.Disconnected(reason)
	} else {
		reason = c.noteFailure(reason, last)
	}
	if isHangUp(reason) {
		ops := make([]int32, len(pending))
		for i, request := range pending {
			ops[i] = request.op
		}
		c.version.noteHangUp(ops) // before the calls end, which are tried again
	}
	c.cancel()
	for i, request := range pending {
		if errors.Is(reason, ErrReplyTooLarge) && (i > 0 || request.joined != nil) { // it was for the first, if that is one call
			reason = fmt.Errorf("%w: another call has failed: %s", ErrProtocol, reason.Error())
		}
		for _, call := range request.calls() {
			c.owner.ephemerals.unanswered(call)
			c.settle(call, Reply{}, fmt.Errorf("%w: %w", ErrUnanswered, reason))
		}
	}
	for _, call := range unsent {
		c.settle(call, Reply{}, notSent(reason))
	}
	// Last, because TLS takes a while to close when the server does not read. The error
	// of Close adds nothing: the connection has ended.
	_ = c.socket.Close()
}

// noteFailure reports a connection that has ended in a phase before it was open for calls, and returns the reason.
func (c *conn) noteFailure(reason error, in phase) error {
	if in > handshaking {
		doing := "authentication at"
		if in == resuming && !c.refused {
			doing = "first request to"
		}
		reason = fmt.Errorf("%s %s: %w", doing, c.to, reason)
		if c.refused {
			c.owner.lastFailure.Store(&reason)
		} else {
			c.owner.failed(Failure{Reason: reason, Reached: true})
		}
		return reason
	}
	c.owner.seen.refused()
	reason = fmt.Errorf("handshake with %s: %w", c.to, reason)
	if isHangUp(reason) {
		c.owner.hungUp(reason)
	} else {
		c.owner.failed(Failure{Reason: reason})
	}
	return reason
}

// Close is called by go-zookeeper when it is done with the connection.
func (c *conn) Close() error {
	c.fail(errors.New("closed by go-zookeeper: it heard nothing from the server in time, or is closing"))
	return nil
}

// leaveForWriter ends the connection to a read-only server once another server takes
// writes. If this server regains a quorum, it ends the connection itself.
func (c *conn) leaveForWriter() {
	if server, found := seekWriter(c.ctx, c.owner.hosts.all, c.to, c.owner.dialer.ask); found {
		c.owner.hosts.prefer(server)
		c.fail(errors.New("found a server that takes writes: " + server.String()))
	}
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

// hear records that a part of a reply has come and extends the read deadline:
// go-zookeeper sees few of the replies, and would take the server for dead.
//
// Notifications do not count. They show that the server can reach the client, not
// that the client can reach the server, which is what keeps the session.
func (c *conn) hear() {
	now := time.Now()
	c.heard.Store(max(1, int64(now.Sub(c.began))))
	if c.idle == 0 || now.Sub(c.idleSet) < c.idle/8 {
		return
	}
	c.idleSet = now
	// A socket that refuses a deadline is closed, and the next read says so.
	_ = c.socket.SetReadDeadline(now.Add(c.idle))
}

// isReplying reports whether replies keep coming. On an idle connection they come as
// often as go-zookeeper pings, every third of the session timeout.
func (c *conn) isReplying() bool {
	c.queue.Lock()
	granted := c.granted
	c.queue.Unlock()
	heard := c.heard.Load()
	return heard != 0 && time.Since(c.began)-time.Duration(heard) < granted/3
}

// SetWriteDeadline does nothing: each write has a deadline of its own.
func (c *conn) SetWriteDeadline(time.Time) error { return nil }

// SetDeadline is not used by go-zookeeper.
func (c *conn) SetDeadline(t time.Time) error { return c.SetReadDeadline(t) }

func (c *conn) LocalAddr() net.Addr  { return c.socket.LocalAddr() }
func (c *conn) RemoteAddr() net.Addr { return c.socket.RemoteAddr() }
