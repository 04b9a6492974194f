// SPDX-License-Identifier: Apache-2.0

package conduit

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"net"
	"runtime"
	"slices"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework/internal/wire"
)

const (
	// The answer of a TLS server to a client that does not speak TLS begins with these.
	tlsAlert, tlsMajor = 21, 3

	// readPiece is how much of a long frame is read before the server counts as alive
	// again.
	readPiece = 32 << 10

	// maxDiscard bounds the length of a reply that is read in order to be thrown away.
	maxDiscard = 64 << 20
)

// Read returns the frames that are meant for go-zookeeper, and handles all other frames
// itself.
func (c *conn) Read(p []byte) (int, error) {
	for len(c.rest) == 0 {
		if c.expired {
			// go-zookeeper forgets a connection on which it read "expired".
			return 0, io.EOF
		}
		var err error
		if c.rest, err = c.next(); err != nil {
			c.fail(err)
			return 0, err
		}
	}
	n := copy(p, c.rest)
	c.rest = c.rest[n:]
	if len(c.rest) == 0 && c.expired {
		c.fail(zk.ErrSessionExpired)
	}
	return n, nil
}

// coalesce waits, if it is worth it, before a read that might otherwise bring a single reply. After
// the reply to the only request, its caller runs first: a read would find nothing yet.
func (c *conn) coalesce() {
	if c.in.Buffered() > 0 {
		return
	}
	if c.coalescing.last {
		c.coalescing.last = false
		runtime.Gosched()
	}
	if !c.coalescing.isDue() {
		return
	}
	c.queue.Lock()
	many := c.pending.len() >= coalesceFrom
	c.queue.Unlock()
	if !many {
		return
	}
	c.coalescing.begin()
	select {
	case <-time.After(coalesceTime):
	case <-c.ctx.Done():
	}
}

// next handles one frame and returns the bytes for go-zookeeper, if any.
func (c *conn) next() ([]byte, error) {
	established := c.isEstablished()
	c.coalesce()
	n, err := c.readLength(established)
	switch {
	case err != nil:
		return nil, err
	case !established:
		frame := make([]byte, n)
		if _, err := io.ReadFull(c.in, frame); err != nil {
			return nil, err
		}
		return c.receive(frame)
	}
	// A reply that is longer than a limit takes memory as it comes, and not for what the server says will come.
	isLong, room := n > c.owner.cfg.MaxReply || n > cmp.Or(c.ownLimit(), n), n
	if isLong {
		room = wire.ReplyHeader
	}
	frame := make([]byte, wire.ReplyHeader, room)
	if _, err := io.ReadFull(c.in, frame); err != nil {
		return nil, err
	}
	if isLong {
		if skipped, ours, err := c.skipLong(frame, n); skipped {
			return ours, err
		}
	}
	if frame, err = c.readRest(frame, n); err != nil {
		return nil, err
	}
	return c.receive(frame)
}

func (c *conn) readLength(established bool) (int, error) {
	length := c.length[:]
	if _, err := io.ReadFull(c.in, length); err != nil {
		return 0, err
	}
	limit, tooLarge := max(c.owner.cfg.MaxReply, maxDiscard), ErrReplyTooLarge
	if !established {
		if length[0] == tlsAlert && length[1] == tlsMajor {
			return 0, fmt.Errorf("%w: the server speaks TLS on this port", ErrProtocol)
		}
		limit, tooLarge = maxHandshake, ErrProtocol
	}
	n := int32(binary.BigEndian.Uint32(length))
	switch {
	case n < 0:
		tooLarge = ErrProtocol
	case established && int(n) > limit && c.ownLimit() != 0:
		limit = math.MaxInt32 // it is accepted, or skipped on request
	case established && n < wire.ReplyHeader:
		return 0, fmt.Errorf("%w: a reply of %d bytes, a header has %d", ErrProtocol, n, wire.ReplyHeader)
	}
	if n < 0 || int(n) > limit {
		return 0, fmt.Errorf("%w: a frame of %d bytes, at most %d are accepted", tooLarge, uint32(n), limit)
	}
	return int(n), nil
}

// readRest reads what follows the header of a reply or a notification. A long reply counts as life while it
// comes, for the next frame may be far behind it.
func (c *conn) readRest(frame []byte, n int) ([]byte, error) {
	counts := provesLife(int32(binary.BigEndian.Uint32(frame)))
	for {
		if counts {
			c.hear()
		}
		at, piece := len(frame), min(n-len(frame), readPiece)
		if piece == 0 {
			return frame, nil
		}
		frame = slices.Grow(frame, piece)[:at+piece]
		if _, err := io.ReadFull(c.in, frame[at:]); err != nil {
			return nil, err
		}
	}
}

// provesLife reports whether a frame with this xid shows that the server hears the
// client. A notification does not, and a credential is answered only once.
func provesLife(xid int32) bool { return xid != wire.XidNotification && xid != wire.XidAuth }

// ownLimit returns the limit that the oldest request has for its reply, 0 for none.
func (c *conn) ownLimit() int {
	c.queue.Lock()
	defer c.queue.Unlock()
	request, _ := c.pending.first()
	return request.ownLimit()
}

// ownLimit returns the limit that a request has for its reply, 0 for none.
func (r *pendingRequest) ownLimit() int {
	if r.call == nil || r.joined != nil {
		return 0
	}
	return r.call.MaxReply
}

// skipLong handles a frame that is longer than a limit. A reply that its call does not accept is
// skipped, and only its call fails. It returns false if the call accepts it.
func (c *conn) skipLong(head []byte, n int) (skipped bool, forZooKeeper []byte, err error) {
	xid, reply := decodeHeader(head)
	c.queue.Lock()
	request, found := c.pending.first()
	c.queue.Unlock()
	limit, ours := c.owner.cfg.MaxReply, found && request.xid == xid && request.call != nil
	if ours {
		limit = cmp.Or(request.ownLimit(), limit)
	}
	if n <= limit {
		return false, nil, nil
	}
	tooLarge := fmt.Errorf("%w: %d bytes, at most %d are accepted", ErrReplyTooLarge, n, limit)
	if !ours {
		// Only a reply to a call of ours can be skipped: any other frame may be a watch event.
		return true, nil, fmt.Errorf("%w: xid %d: %s", ErrProtocol, xid, tooLarge.Error())
	}
	for left := n - wire.ReplyHeader; left > 0; {
		k, err := io.CopyN(io.Discard, c.in, int64(min(left, readPiece)))
		if err != nil {
			return true, nil, err
		}
		left -= int(k)
		c.hear()
	}
	c.dispatch.Lock()
	defer c.dispatch.Unlock()
	if c.phase == ended {
		return true, nil, net.ErrClosed
	}
	forZooKeeper, err = c.receiveReply(xid, reply, n, fmt.Errorf("%w: %w", ErrUnanswered, tooLarge))
	return true, forZooKeeper, err
}

func decodeHeader(head []byte) (xid int32, reply Reply) {
	d := wire.NewDecoder(head)
	xid = d.Int32()
	return xid, Reply{Zxid: d.Int64(), Code: d.Int32()}
}

// receive interprets a frame and returns the bytes for go-zookeeper, if any.
func (c *conn) receive(frame []byte) ([]byte, error) {
	c.dispatch.Lock()
	defer c.dispatch.Unlock()
	if c.phase == ended {
		return nil, net.ErrClosed
	}
	if c.phase == handshaking {
		return c.receiveHandshake(frame)
	}
	xid, reply := decodeHeader(frame[:wire.ReplyHeader])
	reply.Body = frame[wire.ReplyHeader:]
	switch xid {
	case wire.XidNotification:
		return nil, c.receiveNotification(reply)
	case wire.XidAuth:
		return nil, c.receiveAuthReply(reply.Code)
	}
	if c.takesSASL(xid) {
		return nil, c.receiveSASL(reply)
	}
	return c.receiveReply(xid, reply, len(frame), nil)
}

func (c *conn) receiveNotification(reply Reply) error {
	d := wire.NewDecoder(reply.Body)
	kind := zk.EventType(d.Int32())
	d.Int32() // state
	path := d.String()
	if err := d.Err(); err != nil {
		return fmt.Errorf("%w: notification: %w", ErrProtocol, err)
	}
	// Before any listener acts on the event.
	c.owner.seen.event(reply.Zxid)
	if kind == zk.EventNodeDeleted {
		c.owner.ephemerals.deleted(path)
	}
	c.owner.cfg.Events.Notified(Notification{Type: kind, Path: path})
	return nil
}

// receiveAuthReply handles the answer to the oldest unanswered credential. A server answers
// it while it reads, before it processes the preceding request. So the answer has no place
// in the order of the other replies. It proves nothing about the lease either, because the
// server does not count it as a sign of life of the session.
func (c *conn) receiveAuthReply(code int32) error {
	c.queue.Lock()
	scheme, ok := c.credentials.answered()
	c.queue.Unlock()
	if !ok {
		return fmt.Errorf("%w: a reply to a credential that was not presented", ErrProtocol)
	}
	switch code {
	case 0:
		return nil
	case wire.CodeAuthFailed:
		err := fmt.Errorf("%w: scheme %q at %s", ErrAuthFailed, scheme, c.to)
		c.noteRefusal(err, false, false)
		return err
	default:
		return fmt.Errorf("authentication by scheme %q: server error %d", scheme, code)
	}
}

// receiveReply handles the reply to the oldest request. A failure, if not nil, becomes
// the outcome of its call, although the server has answered it.
func (c *conn) receiveReply(xid int32, reply Reply, length int, failure error) ([]byte, error) {
	now := c.owner.clock.now()
	request, err := c.takePending(xid, reply, length, now)
	if err != nil {
		return nil, err
	}
	c.owner.seen.reply(reply.Zxid)
	c.owner.versions.noteAnswer(c.to, request.op)
	if request.call != nil && request.call.catchesUp && reply.Code == wire.CodeThrottled {
		// Nothing was committed. The next connection begins with it again.
		return nil, fmt.Errorf("%s is too busy to confirm the newest transaction that the client has seen", c.to.server)
	}
	if provesSession(reply.Code) {
		c.noteProof(request, now)
	}
	switch {
	case reply.Code == wire.CodeSASLRequired: // and the server hangs up
		for _, call := range request.calls() {
			c.settle(call, reply, failure)
		}
		return nil, c.receiveDemand(request.op)
	case request.joined != nil: // one read for several calls
		c.receiveJoined(request.joined, reply, failure)
		return nil, nil
	case request.call != nil:
		c.receiveAnswer(request, reply, failure)
		return nil, nil
	}
	// A read-only server refuses to close, but the session ends with its connection.
	if request.op == wire.OpCloseSession && (reply.Code == 0 || c.owner.handshake.Load().ReadOnly) {
		c.owner.sessionClosed.Store(true)
	}
	return headerFrame(xid, reply), nil
}

// receiveAnswer settles the call of a request that is no request of go-zookeeper.
func (c *conn) receiveAnswer(request pendingRequest, reply Reply, failure error) {
	if request.call.Confirms && reply.Code == 0 { // a majority has it
		c.owner.lease.confirm(request.sent, c.owner.cfg.Tick)
	}
	if failure != nil { // nothing of it can be used
		reply = Reply{}
	}
	c.owner.ephemerals.answered(request.call, reply)
	c.settle(request.call, reply, failure)
}

// takePending removes the oldest request, which the reply must belong to.
func (c *conn) takePending(xid int32, reply Reply, length int, now time.Time) (pendingRequest, error) {
	c.queue.Lock()
	defer c.queue.Unlock()
	request, found := c.pending.first()
	if !found || request.xid != xid {
		return request, fmt.Errorf("%w: a reply with xid %d out of order", ErrProtocol, xid)
	}
	// The credentials went out first, and a server answers them while it reads.
	if request.call != nil && len(c.credentials.unanswered) > 0 && !c.credentials.again {
		return request, fmt.Errorf("%w: a reply before the reply to the credentials", ErrProtocol)
	}
	c.pending.pop()
	c.coalescing.noteReply(now.Sub(request.sent), c.pending.len())
	switch {
	case request.joined != nil:
		c.window.learn(joinedAs(request.call.Op), length/len(request.joined), now)
	case request.call != nil:
		c.window.learn(request.op, length, now)
		if request.call.Joinable && request.op == wire.OpExists {
			data := wire.NewDecoder(reply.Body).Stat().DataLength
			c.window.learn(existsAsData, length+int(max(0, data)), now)
		}
	}
	c.window.answered(request.cost, request.sent, now)
	oldest, _ := c.pending.first()
	if c.window.resumes(oldest.sent, now) {
		c.wakeWriter()
	}
	return request, nil
}

// noteProof notes that the server has counted a request as a sign of life; callers hold
// dispatch.
func (c *conn) noteProof(request pendingRequest, now time.Time) {
	switch {
	case request.call != nil && request.call.catchesUp:
		c.behind = false
		c.owner.seen.unproved.Store(false)
	case !c.behind:
		if c.phase >= resuming {
			c.owner.hosts.noteAdmission(c.to)
		}
		// This server sent the events, so it has applied their transactions, and its
		// replies name one that is as new.
		c.owner.seen.unproved.Store(false)
	}
	if c.owner.lease.renew(request.sent, now) {
		if c.phase != serving {
			c.owner.fresh.Store(true)
			return
		}
		h := *c.owner.handshake.Load()
		h.Fresh = true
		c.owner.cfg.Events.Revived(h)
	}
}

// provesSession reports whether a reply with this error code shows that the server
// counted the request as a sign of life.
func provesSession(code int32) bool {
	switch code {
	case wire.CodeUnimplemented, wire.CodeSessionExpired, wire.CodeSessionMoved, wire.CodeNotReadOnly, wire.CodeSASLRequired:
		return false
	default:
		return true
	}
}
