// SPDX-License-Identifier: Apache-2.0

package conduit

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/gocurator/curator/framework/internal/wire"
)

var (
	// ErrNotSent reports a request that has never reached a socket: it has
	// certainly not been applied.
	ErrNotSent = errors.New("request not sent")

	// ErrUnanswered reports a request that was written, wholly or in part, but not answered before its
	// connection or its context ended. It may have been applied.
	ErrUnanswered = errors.New("request sent but not answered")

	// ErrAbandoned is the reason of an [ErrNotSent] or [ErrUnanswered] when the context of
	// the caller has ended.
	ErrAbandoned = errors.New("the caller's context has ended")

	// ErrOtherSession reports a request bound to a session that is not the
	// current one. It was not sent.
	ErrOtherSession = errors.New("bound to another session")

	// ErrOtherHistory reports a request bound to a history that is not the
	// current one. It was not sent.
	ErrOtherHistory = errors.New("bound to another history")

	// ErrNotConnected is the reason of an [ErrNotSent] when there is no
	// connection with a session.
	ErrNotConnected = errors.New("not connected")

	// ErrClosed is the reason of an [ErrNotSent] after Close.
	ErrClosed = errors.New("conduit closed")

	// ErrReplyTooLarge reports a reply above the limit, which was thrown away. It comes
	// with [ErrUnanswered]. The connection goes on, unless the reply was longer than
	// anything that is worth reading.
	ErrReplyTooLarge = errors.New("reply too large")

	// ErrProtocol reports bytes that no ZooKeeper server sends.
	ErrProtocol = errors.New("not ZooKeeper's protocol")
)

// TooOldError reports a server that does not have a kind of request.
type TooOldError struct {
	Server  string
	Version string // "" if it has refused the request without telling its version
	Needs   string
	Other   string // what the server is, if it is no ZooKeeper
	Keeper  string // the version of ClickHouse Keeper that has the request, "" for none
}

func (e *TooOldError) Error() string {
	if e.Other != "" {
		needs := "ZooKeeper"
		if e.Keeper != "" {
			needs = fmt.Sprintf("ZooKeeper, or ClickHouse Keeper %s or later", e.Keeper)
		}
		return fmt.Sprintf("it takes %s, %s is %s", needs, e.Server, e.Other)
	}
	return fmt.Sprintf("it takes ZooKeeper %s or later, the version of %s is %s", e.Needs, e.Server, cmp.Or(e.Version, "older"))
}

// Reply is a server's answer.
type Reply struct {
	Zxid int64
	Code int32 // 0, or a ZooKeeper error code, when Body is empty
	Body []byte
}

// judged is a connection, of whose server the reader of a reply may think ill.
type judged interface {
	fail(why error)
	noteTooOld(op int32) *TooOldError
}

// Call is one request and, once [Conduit.Do] has returned, its outcome. A Call
// is used once.
type Call struct {
	Op int32 // the opcode

	// Joinable says that this is a read of data or an exists, without a watch, which may share a
	// request with other reads. See joined.go.
	Joinable bool

	// Confirms makes the acknowledgement of a write move the quorum's deadline. See
	// Conduit.QuorumDeadline.
	Confirms bool

	catchesUp bool // see catchUp

	Body []byte // the request record without its header

	// MaxReply, when not zero, is the longest reply in bytes that this call takes, in place of
	// the limit of the configuration. A longer one is skipped, however long it is.
	MaxReply int

	// Session, when not zero, is the only session the request may run in.
	Session int64

	// History, when not zero, is the only history the request may run in. See Conduit.History.
	History int64

	// OnDone, when not nil, is called exactly once: in stream order with the reply,
	// or with the error that says why none will come. It may be called after Do has
	// returned, or while Do or Send runs, and must not block.
	OnDone func(Reply, error)

	over judged // the connection that has accepted the call
	last *Call  // of those that a caller waits for together; nil if none waits

	// Of the last call.
	done chan struct{} // gets a value when all are settled
	left int           // of them that are not settled, guarded as what follows

	// Guarded by the connection's queue mutex until done of the last call that was
	// sent with it is closed, or Do returns.
	xid     int32
	written bool // wholly or in part
	dropped bool // given up before it was written
	told    bool // OnDone was called, or is about to be
	settled bool
	again   *Call // the first of those that were sent again together, each alone; nil if it was not
	reply   Reply
	err     error
}

// noteSettled is told of each call that a caller waits for together with c, its last. It may be nil.
func (c *Call) noteSettled() {
	if c == nil {
		return
	}
	if c.left--; c.left == 0 {
		c.done <- struct{}{}
	}
}

// Result returns the outcome. It is valid after Do has returned.
func (c *Call) Result() (Reply, error) { return c.reply, c.err }

// OutOfOrder reports whether calls that were sent in one write were answered in another order, because some of
// them shared a request that the server did not answer. It is valid after [Conduit.Do] has returned nil.
func OutOfOrder(calls []*Call) bool {
	for i, call := range calls[:len(calls)-1] {
		if call.again != nil && call.again != calls[i+1].again {
			return true
		}
	}
	return false
}

// Distrust ends the connection that has brought the reply, because the reply makes no sense. By now
// there may be a newer one, which goes on. It waits for what is being received, so OnDone and
// [Events] must not call it.
func (c *Call) Distrust(why error) {
	if c.over != nil {
		c.over.fail(why)
	}
}

// NoteTooOld remembers that the server of the reply does not know the request. It returns nil for a request that no version
// of a server lacks.
func (c *Call) NoteTooOld() *TooOldError { return c.over.noteTooOld(c.Op) }

// refuse settles calls that were not accepted.
func refuse(calls []*Call, err error) error {
	for _, call := range calls {
		call.settled, call.err = true, err
		if call.OnDone != nil {
			call.OnDone(Reply{}, err)
		}
	}
	return err
}

func notSent(reason error) error { return fmt.Errorf("%w: %w", ErrNotSent, reason) }

// appendFrame appends a call as it goes over the wire.
func appendFrame(b []byte, call *Call) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(wire.RequestHeader+len(call.Body)))
	b = binary.BigEndian.AppendUint32(b, uint32(call.xid))
	b = binary.BigEndian.AppendUint32(b, uint32(call.Op))
	return append(b, call.Body...)
}

// handshakeFrame builds the connect response that go-zookeeper reads.
func handshakeFrame(timeout time.Duration, session int64, password []byte) []byte {
	e := wire.NewEncoder(64)
	e.Int32(wire.LengthSize*3 + 8 + wire.PasswordSize)
	e.Int32(0) // protocol version
	e.Int32(int32(timeout.Milliseconds()))
	e.Int64(session)
	e.Buffer(password)
	return e.Bytes()
}

// headerFrame builds the reply to a request of go-zookeeper's. None that it sends
// has a reply with a body.
func headerFrame(xid int32, reply Reply) []byte {
	e := wire.NewEncoder(wire.LengthSize + wire.ReplyHeader)
	e.Int32(wire.ReplyHeader)
	e.Int32(xid)
	e.Int64(reply.Zxid)
	e.Int32(reply.Code)
	return e.Bytes()
}
