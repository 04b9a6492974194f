// SPDX-License-Identifier: Apache-2.0

package zkproxy

import (
	"encoding/binary"
	"fmt"
)

// Direction is the way a frame travels. Directions can be combined with |.
type Direction uint8

// The directions.
const (
	ToServer Direction = 1 << iota // from client to server: requests
	ToClient                       // from server to client: replies and notifications

	Both = ToServer | ToClient
)

// String returns the name of the constant.
func (d Direction) String() string {
	switch d {
	case ToServer:
		return "ToServer"
	case ToClient:
		return "ToClient"
	case Both:
		return "Both"
	default:
		return fmt.Sprintf("Direction(%d)", uint8(d))
	}
}

// Kind is the form of a frame.
type Kind uint8

// The kinds of frames.
const (
	Handshake    Kind = iota + 1 // the first frame in each direction: connect request or response
	Request                      // a request that is not a ping
	Reply                        // the reply to a Request
	Ping                         // a ping or its reply
	Notification                 // a watch event
	Raw                          // a piece of a connection that carries a four letter word; interceptors never see one
)

var kindNames = [...]string{"none", "handshake", "request", "reply", "ping", "notification", "raw"}

// String returns the name of the kind in lower case.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// Frame is one message of the protocol, as interceptors see it.
type Frame struct {
	Conn      int       // number of the connection, from 1 in the order in which the proxy accepted them
	Direction Direction // ToServer or ToClient
	Kind      Kind

	// Index is the number of the request, from 1, in the order in which the proxy took requests up, over all its connections. A reply has
	// the number of its request. It is 0 for all other kinds, and for a reply to no request that was forwarded.
	Index int

	Xid  int32  // -1 for notifications, -2 for pings, 0 for handshakes
	Op   int32  // opcode; of a reply, the opcode of its request
	Path string // of the request where its body begins with one, its reply, or the notification; of setWatches the first; else empty
	Zxid int64  // of replies
	Err  int32  // error code of replies, 0 for success

	// Body is all that follows the length, header included; nil in the log. It may be kept but must not be changed.
	Body []byte
}

// String returns a line for failure messages.
func (f Frame) String() string {
	s := fmt.Sprintf("conn %d %v %v", f.Conn, f.Direction, f.Kind)
	switch f.Kind {
	case Request:
		s += fmt.Sprintf(" %d xid %d op %d %s", f.Index, f.Xid, f.Op, f.Path)
	case Reply:
		s += fmt.Sprintf(" %d xid %d op %d %s zxid %#x err %d", f.Index, f.Xid, f.Op, f.Path, f.Zxid, f.Err)
	case Notification:
		s += " " + f.Path
	default: // of the others the kind is all there is to tell
	}
	return s
}

const (
	xidNotification = -1
	xidPing         = -2

	requestHeader = 8  // xid, opcode
	replyHeader   = 16 // xid, zxid, error code
)

// parseFrame parses a body as far as the frame alone allows. first says that the frame is the first one in its
// direction. It fails for a body that is too short for its header.
func parseFrame(conn int, d Direction, first bool, body []byte) (Frame, error) {
	f := Frame{Conn: conn, Direction: d, Body: body}
	var err error
	switch {
	case first:
		f.Kind = Handshake
	case d == ToServer:
		err = parseRequest(&f)
	default:
		err = parseReply(&f)
	}
	return f, err
}

func parseRequest(f *Frame) error {
	if len(f.Body) < requestHeader {
		return fmt.Errorf("request of %d bytes, expected at least %d", len(f.Body), requestHeader)
	}
	f.Kind = Request
	f.Xid, f.Op = int32At(f.Body, 0), int32At(f.Body, 4)
	if f.Xid == xidPing {
		f.Kind = Ping
	}
	switch {
	case opsWithPath[f.Op]:
		f.Path = stringAt(f.Body, requestHeader)
	case f.Op == OpSetWatches:
		f.Path = stringAt(f.Body, requestHeader+12) // after zxid and count
	}
	return nil
}

func parseReply(f *Frame) error {
	if len(f.Body) < replyHeader {
		return fmt.Errorf("reply of %d bytes, expected at least %d", len(f.Body), replyHeader)
	}
	f.Xid, f.Zxid, f.Err = int32At(f.Body, 0), int64(binary.BigEndian.Uint64(f.Body[4:])), int32At(f.Body, 12)
	switch f.Xid {
	case xidNotification:
		f.Kind = Notification
		f.Path = stringAt(f.Body, replyHeader+8) // after type and state
	case xidPing:
		f.Kind = Ping
	default:
		f.Kind = Reply
	}
	return nil
}

func int32At(b []byte, at int) int32 { return int32(binary.BigEndian.Uint32(b[at:])) }

// stringAt returns the string with its length before it at the given place, or "" if there is none.
func stringAt(b []byte, at int) string {
	if len(b) < at+4 {
		return ""
	}
	length := int(int32At(b, at))
	if length < 0 || length > len(b)-at-4 {
		return ""
	}
	return string(b[at+4 : at+4+length])
}
