// SPDX-License-Identifier: Apache-2.0

package conduit

import (
	"bytes"
	"encoding/binary"
	"runtime"
	"slices"
	"time"

	"github.com/gocurator/curator/framework/internal/wire"
)

const (
	// askFrom is how many reads of a connection could have shared requests before the conduit
	// asks the server for its version. That takes another connection.
	askFrom = 32

	// maxJoined bounds the length in bytes of a request that several reads share, so that one with long
	// paths does not delay other requests.
	maxJoined = 16 << 10
)

// A multiRead has no exists, but the reply to a read of data has the Stat. So while recent Stats
// show little data, an exists is sent as such a read. If the server refuses it, it is sent again as
// a plain exists, and the connection joins no later ones.
//
// A multiRead sets no watches and has no place for a list's Stat, so other reads stay what
// they are.

// joinableLocked returns how many of the calls that are next share a request.
func (c *conn) joinableLocked(now time.Time) int {
	next, n, size := c.unsent.all(), 0, joinedHeader
	limit := min(maxJoined, c.owner.cfg.MaxRequest)
	if len(next) > 0 && next[0].Op == wire.OpExists && c.barred {
		return 1
	}
	for n < min(len(next), maxTogether) && next[n].joins() && next[n].Op == next[0].Op {
		if size += joinedHeader + len(next[n].Body); size > limit {
			break
		}
		n++
	}
	switch {
	case n < 2:
		return 1
	case c.version.known.Load() == nil:
		c.noteApartLocked(n)
		return 1
	case !c.version.has(wire.OpMultiRead):
		return 1
	default:
		return min(n, c.window.together(next[0].Op, now))
	}
}

// gather lets callers that are about to read do so before the next write, if reads are under way
// already. Replies come in bursts, and so do the next reads of their callers. But the first of these
// reads wakes the writer.
func (c *conn) gather() {
	c.queue.Lock()
	next, _ := c.unsent.first()
	oldest, _ := c.pending.first()
	gathers := next != nil && next.joins() && oldest.call != nil && oldest.call.Joinable && c.urgent.len() == 0
	c.queue.Unlock()
	if gathers {
		runtime.Gosched()
	}
}

// joins reports whether a call may share a request.
func (c *Call) joins() bool { return c.Joinable && c.again == nil && !c.dropped }

// noteApartLocked notes that calls do not share a request because the version of the server is not
// known, and has it asked for when there were many.
func (c *conn) noteApartLocked(n int) {
	if c.apart >= askFrom {
		return
	}
	if c.apart += n; c.apart >= askFrom {
		c.version.askVersion()
	}
}

// joinedHeader is what an operation in a multiRead takes beside its body, and what ends the list.
const joinedHeader = 9

// joinedLength is the length of the frame of one request for calls.
func joinedLength(calls []*Call) int {
	length := wire.LengthSize + wire.RequestHeader + joinedHeader
	for _, call := range calls {
		length += joinedHeader + len(call.Body)
	}
	return length
}

// appendJoinedLocked writes one request for calls. It has the xid of the first.
func (c *conn) appendJoinedLocked(batch []byte, calls []*Call, cost int, now time.Time) []byte {
	for _, call := range calls {
		call.written = true
	}
	c.window.used += cost
	c.pending.push(pendingRequest{xid: calls[0].xid, op: wire.OpMultiRead, sent: now, cost: cost, call: calls[0], joined: calls})
	batch = binary.BigEndian.AppendUint32(batch, uint32(joinedLength(calls)-wire.LengthSize))
	batch = binary.BigEndian.AppendUint32(batch, uint32(calls[0].xid))
	batch = binary.BigEndian.AppendUint32(batch, uint32(wire.OpMultiRead))
	e := wire.AppendTo(batch)
	for _, call := range calls {
		e.MultiOp(wire.OpGetData)
		e.Raw(call.Body) // exists has the same
	}
	e.MultiEnd()
	return e.Bytes()
}

// receiveJoined gives each of the calls its part of the reply. If they fail because they were joined,
// they are sent again, each alone. That happens if their data is too long together, if the server does
// not know the request after all, or if an exists became a read that is not allowed. Callers hold
// dispatch.
func (c *conn) receiveJoined(calls []*Call, reply Reply, failure error) {
	if reply.Code == wire.CodeUnimplemented {
		_ = c.noteTooOld(wire.OpMultiRead) // no caller has asked for just this request
	}
	if failure != nil || reply.Code == wire.CodeUnimplemented {
		c.sendAlone(calls)
		return
	}
	var barred []*Call
	d := wire.NewDecoder(reply.Body)
	for _, call := range calls {
		part := reply
		if reply.Code == 0 {
			part = nextResult(d, call.Op)
			part.Zxid = reply.Zxid
		}
		if call.Op == wire.OpExists && part.Code == wire.CodeNoAuth {
			barred = append(barred, call)
			continue
		}
		c.settle(call, part, nil)
	}
	if barred != nil {
		c.queue.Lock()
		c.barred = true
		c.queue.Unlock()
		c.sendAlone(barred)
	}
}

// nextResult reads the next result of a multiRead. The reply shares no memory with the other replies,
// so that a caller that keeps one of them does not keep all. Where the server has sent something else,
// the body is nil, which is no reply to a read either.
func nextResult(d *wire.Decoder, op int32) Reply {
	switch {
	case d.MultiResult():
		return Reply{Code: d.Int32()}
	case op == wire.OpExists:
		return Reply{Body: bytes.Clone(d.StatOfDataReply())}
	default:
		return Reply{Body: bytes.Clone(d.DataReply())}
	}
}

// sendAlone puts calls in front of the queue again.
func (c *conn) sendAlone(calls []*Call) {
	c.queue.Lock()
	defer c.queue.Unlock()
	wanted := slices.DeleteFunc(calls, func(call *Call) bool { return call.settled })
	for _, call := range wanted {
		call.again = wanted[0]
	}
	c.unsent.pushFront(wanted)
	c.wakeWriter()
}
