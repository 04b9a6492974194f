// SPDX-License-Identifier: Apache-2.0

package conduit

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/gocurator/curator/framework/internal/wire"
)

// maxBatch bounds what goes out in one write, unless one request is longer. Each
// write has a send time of its own, and pings go out between two.
const maxBatch = 32 << 10

func (c *conn) lockWriting()   { c.writing <- struct{}{} }
func (c *conn) unlockWriting() { <-c.writing }

func (c *conn) tryLockWriting() bool {
	select {
	case c.writing <- struct{}{}:
		return true
	default:
		return false
	}
}

// Write sends a frame of go-zookeeper's. After closeSession it sends nothing more, and no
// call either. The server hangs up once it has answered. A request that arrives then makes
// it reset the connection, and the answer may be lost.
func (c *conn) Write(frame []byte) (int, error) {
	c.lockWriting()
	defer c.unlockWriting()
	now := c.owner.clock.now()
	if c.connectSent.IsZero() {
		if len(frame) < wire.LengthSize+24 {
			return 0, fmt.Errorf("conduit: a connect request of %d bytes", len(frame))
		}
		c.connectSent = now
		if _, err := c.write(c.completeHandshake(frame), c.handshakeBy); err != nil {
			return 0, err
		}
		return len(frame), nil
	}
	if len(frame) < wire.LengthSize+wire.RequestHeader {
		return 0, fmt.Errorf("conduit: a request of %d bytes", len(frame))
	}
	d := wire.NewDecoder(frame[wire.LengthSize:])
	request := pendingRequest{xid: d.Int32(), op: d.Int32(), sent: now}
	c.queue.Lock()
	if c.closing {
		c.queue.Unlock()
		return len(frame), nil
	}
	if c.holdsPingLocked(request.op) {
		c.queue.Unlock()
		return len(frame), nil
	}
	c.closing = request.op == wire.OpCloseSession
	c.pending.push(request)
	by := c.writeByLocked()
	c.queue.Unlock()
	return c.write(frame, by)
}

// completeHandshake adds values to go-zookeeper's connect request that only the conduit
// knows. The newest transaction seen makes a server that is behind it refuse the client. The
// configured timeout replaces the timeout that was negotiated last. Callers hold writing.
//
// Once the lease is over, earlier reads no longer count, and any server will do. Otherwise
// servers that were restored from a backup would refuse the client forever. So would all
// servers if one of them had named a transaction that never existed.
func (c *conn) completeHandshake(frame []byte) []byte {
	const zxidAt, timeoutAt, sessionAt = wire.LengthSize + 4, wire.LengthSize + 12, wire.LengthSize + 16
	const passwordAt = sessionAt + 8 + 4
	_, over := c.owner.lease.check(c.connectSent)
	// A session of a read-only server ended with its connection.
	last := c.owner.handshake.Load()
	fresh := c.owner.cfg.ReadOnly && (over || last != nil && last.ReadOnly)
	if over || fresh {
		if last != nil { // there was a session
			c.owner.seen.forget()
		}
		binary.BigEndian.PutUint64(frame[zxidAt:], 0)
	}
	if fresh {
		binary.BigEndian.PutUint64(frame[sessionAt:], 0)
	}
	if r := c.owner.cfg.Resume; r != nil && binary.BigEndian.Uint64(frame[sessionAt:]) == 0 {
		binary.BigEndian.PutUint64(frame[sessionAt:], uint64(r.ID))
		copy(frame[passwordAt:], r.Password())
	}
	if binary.BigEndian.Uint64(frame[sessionAt:]) != 0 {
		seen := max(c.owner.seen.newest.Load(), int64(binary.BigEndian.Uint64(frame[zxidAt:])))
		binary.BigEndian.PutUint64(frame[zxidAt:], uint64(seen))
	}
	binary.BigEndian.PutUint32(frame[timeoutAt:], uint32(c.owner.cfg.SessionTimeout.Milliseconds()))
	c.asked = int64(binary.BigEndian.Uint64(frame[sessionAt:]))
	if c.owner.cfg.ReadOnly {
		return withReadOnly(frame)
	}
	return frame
}

// presentAgain has the credentials presented with the next request, if they were presented before.
func (c *conn) presentAgain() {
	c.queue.Lock()
	defer c.queue.Unlock()
	if c.credentials.presented {
		c.credentials.presented, c.credentials.again = false, true
	}
}

func (c *conn) writeLoop() {
	for {
		select {
		case <-c.wake:
			c.gather()
			if err := c.flush(); err != nil {
				c.fail(err)
				return
			}
		case <-c.ctx.Done():
			return
		}
	}
}

// flush writes what is queued, as far as the window admits it.
func (c *conn) flush() error {
	for {
		more, err := c.writeBatch()
		if err != nil || !more {
			return err
		}
	}
}

// writeBatch writes one batch, and reports whether there was anything to write.
func (c *conn) writeBatch() (more bool, err error) {
	c.lockWriting() // given back between batches, for pings
	defer c.unlockWriting()
	batch, by := c.takeBatch(c.owner.clock.now())
	if len(batch) == 0 {
		return false, nil
	}
	_, err = c.write(batch, by)
	return true, err
}

// takeBatch takes calls out of the queue until the batch or the window is full;
// callers hold writing.
func (c *conn) takeBatch(now time.Time) (batch []byte, by time.Time) {
	c.queue.Lock()
	defer c.queue.Unlock()
	return c.takeBatchLocked(now)
}

func (c *conn) takeBatchLocked(now time.Time) (batch []byte, by time.Time) {
	if c.closing || c.phase < resuming {
		return nil, time.Time{}
	}
	batch = c.credentials.present(c.batch[:0])
	for call, ok := c.urgent.first(); ok && len(batch) < maxBatch; call, ok = c.urgent.first() {
		c.urgent.pop()
		batch = c.appendLocked(batch, call, 0, now)
	}
	for len(batch) < maxBatch {
		call, ok := c.unsent.first()
		if c.window.held = ok; !ok {
			break
		}
		if n := c.joinableLocked(now); n > 1 {
			joined := slices.Clone(c.unsent.all()[:n])
			cost := c.window.costJoined(joined[0].Op, n, joinedLength(joined), now)
			if !c.admitsLocked(cost, now) {
				break
			}
			c.unsent.popN(n)
			batch = c.appendJoinedLocked(batch, joined, cost, now)
			continue
		}
		cost := c.window.cost(call.Op, wire.LengthSize+wire.RequestHeader+len(call.Body), now)
		if !call.dropped && !c.admitsLocked(cost, now) {
			break
		}
		c.unsent.pop()
		batch = c.appendLocked(batch, call, cost, now)
	}
	// One long request must not keep its memory for as long as the connection lives.
	if cap(batch) <= 2*maxBatch {
		c.batch = batch
	}
	return batch, c.writeByLocked()
}

func (c *conn) admitsLocked(cost int, now time.Time) bool {
	oldest, _ := c.pending.first()
	return c.window.admits(cost, oldest.sent, now)
}

func (c *conn) appendLocked(batch []byte, call *Call, cost int, now time.Time) []byte {
	if call.dropped {
		c.dropped--
		return batch
	}
	call.written = true
	c.window.used += cost
	c.pending.push(pendingRequest{xid: call.xid, op: call.Op, sent: now, cost: cost, call: call})
	return appendFrame(batch, call)
}

// write sends bytes; callers hold writing.
func (c *conn) write(b []byte, by time.Time) (int, error) {
	if !by.Equal(c.writeBy) {
		if err := c.socket.SetWriteDeadline(by); err != nil {
			return 0, err
		}
		c.writeBy = by
	}
	return c.socket.Write(b)
}

// writeByLocked returns when a write that begins now must be done. That is when go-zookeeper
// would take a silent server for dead, or up to an eighth earlier. Setting a deadline takes
// time, so writes that follow each other closely share one. Callers hold writing as well.
func (c *conn) writeByLocked() time.Time {
	limit := c.granted * 2 / 3
	by := time.Now().Add(limit)
	if later := by.Sub(c.writeBy); 0 <= later && later < limit/8 {
		return c.writeBy
	}
	return by
}

// enqueue accepts the calls, all or none, for the writer.
func (c *conn) enqueue(calls []*Call) error {
	c.queue.Lock()
	defer c.queue.Unlock()
	if err := c.enqueueLocked(calls); err != nil {
		return err
	}
	c.wakeWriter()
	return nil
}

// maxAlone is how many bytes of calls their caller writes itself.
const maxAlone = 4 << 10

// enqueueOrWrite is enqueue, but the caller writes the calls itself if they are alone. That
// spares them the way over the writer, some microseconds. The caller must not hold dispatch.
func (c *conn) enqueueOrWrite(calls []*Call) error {
	c.queue.Lock()
	alone := c.areAloneLocked(calls) && c.tryLockWriting()
	err := c.enqueueLocked(calls)
	if !alone {
		if err == nil {
			c.wakeWriter()
		}
		c.queue.Unlock()
		return err
	}
	var failure error
	if err == nil {
		batch, by := c.takeBatchLocked(c.owner.clock.now())
		c.queue.Unlock()
		_, failure = c.write(batch, by)
	} else {
		c.queue.Unlock()
	}
	c.unlockWriting()
	if failure != nil {
		c.fail(failure) // which settles the calls
	}
	return err
}

// areAloneLocked reports whether a write of the calls cannot block. That is so if they are
// short, the socket has a buffer, and the server has answered everything that was written
// before. A caller whose context ends must not be kept by a server that does not read.
func (c *conn) areAloneLocked(calls []*Call) bool {
	if !c.buffered || c.pending.len()+c.urgent.len()+c.unsent.len() > 0 || !c.credentials.areAnswered() {
		return false
	}
	size := 0
	for _, call := range calls {
		size += wire.LengthSize + wire.RequestHeader + len(call.Body)
	}
	return size <= maxAlone
}

func (c *conn) enqueueLocked(calls []*Call) error {
	switch {
	case c.closing:
		return notSent(ErrClosed)
	case c.phase == serving:
	case c.owner.refused.Load():
		return notSent(ErrAuthFailed)
	default:
		return notSent(ErrNotConnected)
	}
	// All before any is queued: the calls go together or not at all.
	for _, call := range calls {
		if call.Session != 0 && call.Session != c.session {
			return notSent(ErrOtherSession)
		}
		if call.History != 0 && call.History != c.owner.History() {
			return notSent(ErrOtherHistory)
		}
	}
	queue := &c.unsent
	if slices.ContainsFunc(calls, func(call *Call) bool { return call.Confirms }) {
		// A hold depends on the acknowledgement, so it does not wait behind bulk.
		queue = &c.urgent
	}
	for _, call := range calls {
		c.pushLocked(queue, call)
	}
	return nil
}

func (c *conn) pushLocked(queue *fifo[*Call], call *Call) {
	call.over, call.xid = c, c.takeXidLocked()
	if call.Op == wire.OpPing {
		call.xid = wire.XidPing // the server answers so in any case
	}
	queue.push(call)
}

func (c *conn) takeXidLocked() int32 {
	xid := c.nextXid
	if c.nextXid--; c.nextXid < lastOwnXid {
		c.nextXid = firstOwnXid
	}
	return xid
}

func (c *conn) wakeWriter() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// abandon settles calls whose caller has stopped waiting, for the given reason. Calls not
// yet written are never written.
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
		if !call.written {
			call.err = notSent(reason)
			// Else its connection has failed, and tells it at this moment.
			if !call.told {
				call.dropped, call.told = true, true
				dropped = append(dropped, call)
			}
		}
		result = call.err
	}
	// Dropped calls stay queued until there are many, or each would cost a search.
	if c.dropped += len(dropped); c.dropped > c.unsent.len()/2 {
		c.dropGivenUpLocked()
	}
	c.queue.Unlock()
	for _, call := range dropped {
		if call.OnDone != nil {
			call.OnDone(Reply{}, call.err)
		}
	}
	return result
}

// dropGivenUpLocked takes calls that were given up out of the queues.
func (c *conn) dropGivenUpLocked() {
	if c.dropped == 0 {
		return
	}
	isWanted := func(call *Call) bool { return !call.dropped }
	c.urgent.keep(isWanted)
	c.unsent.keep(isWanted)
	c.dropped = 0
}
