// SPDX-License-Identifier: Apache-2.0

package conduit

import (
	"encoding/binary"
	"time"

	"github.com/gocurator/curator/framework/internal/wire"
)

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
