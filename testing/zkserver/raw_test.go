// SPDX-License-Identifier: Apache-2.0

package zkserver_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/testing/zkserver"
)

// Opcodes that the clients of these tests treat in a way of their own.
const (
	opSetACL = 7
	opPing   = 11
	opClose  = -11
)

// patience bounds every wait of these tests for something that must come.
const patience = time.Minute

// body builds the fields of a request. It is written apart from the server's own codec, so that they check each other.
type body struct{ b []byte }

func (b body) int(v int32) body  { return body{binary.BigEndian.AppendUint32(b.b, uint32(v))} }
func (b body) long(v int64) body { return body{binary.BigEndian.AppendUint64(b.b, uint64(v))} }
func (b body) str(s string) body { return body{append(b.int(int32(len(s))).b, s...)} }
func (b body) null() body        { return b.int(-1) }

func (b body) flag(v bool) body {
	if v {
		return body{append(b.b, 1)}
	}
	return body{append(b.b, 0)}
}

func (b body) strs(list ...string) body {
	b = b.int(int32(len(list)))
	for _, s := range list {
		b = b.str(s)
	}
	return b
}

// acl appends a vector of one entry.
func (b body) acl(perms int32, scheme, id string) body {
	return b.int(1).int(perms).str(scheme).str(id)
}

func (b body) open() body { return b.acl(31, "world", "anyone") }

// join appends the fields of another body.
func (b body) join(other body) body { return body{append(b.b, other.b...)} }

// reader takes the fields of a reply; err is set by the first that is not there.
type reader struct {
	b   []byte
	err error
}

func (r *reader) take(n int) []byte {
	if r.err == nil && (n < 0 || n > len(r.b)) {
		r.err = fmt.Errorf("%d bytes wanted, %d left", n, len(r.b))
	}
	if r.err != nil {
		return make([]byte, max(n, 8))
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

func (r *reader) int() int32  { return int32(binary.BigEndian.Uint32(r.take(4))) }
func (r *reader) long() int64 { return int64(binary.BigEndian.Uint64(r.take(8))) }
func (r *reader) flag() bool  { return r.take(1)[0] != 0 }

func (r *reader) str() string {
	n := r.int()
	if n < 0 {
		return fmt.Sprintf("null(%d)", n)
	}
	return string(r.take(int(n)))
}

func (r *reader) strs() []string {
	var list []string
	for range max(r.int(), 0) {
		list = append(list, r.str())
	}
	return list
}

type stat struct {
	czxid, mzxid, ctime, mtime  int64
	version, cversion, aversion int32
	owner                       int64
	dataLength, children        int32
	pzxid                       int64
}

func (r *reader) stat() stat {
	return stat{
		czxid: r.long(), mzxid: r.long(), ctime: r.long(), mtime: r.long(),
		version: r.int(), cversion: r.int(), aversion: r.int(),
		owner: r.long(), dataLength: r.int(), children: r.int(), pzxid: r.long(),
	}
}

// rawEvent is a watch event as it came.
type rawEvent struct {
	kind int32
	path string
}

// rawReply is the reply to a request; events came on the same connection before it.
type rawReply struct {
	xid    int32
	zxid   int64
	err    int32
	fields reader
	events []rawEvent
}

// rawClient speaks the protocol by hand. It is for one goroutine. Methods that return an error report the end of the
// connection; anything else that is wrong is returned as well.
type rawClient struct {
	nc       net.Conn
	xid      int32
	session  int64
	password []byte
	timeout  int32
	readOnly bool // so the server says
	pending  []rawEvent
}

// connection is what a rawClient asks for when it connects.
type connection struct {
	lastZxid   int64
	timeoutMs  int32
	session    int64
	password   []byte
	noReadOnly bool // the client does not know of read-only servers
	readOnly   bool // it can do with one
}

func dialTCP(addr string) (net.Conn, error) {
	return net.DialTimeout("tcp", addr, patience)
}

// handshake connects over nc.
func handshake(nc net.Conn, want connection) (*rawClient, error) {
	c := &rawClient{nc: nc}
	if want.password == nil {
		want.password = make([]byte, 16)
	}
	b := body{}.int(0).long(want.lastZxid).int(want.timeoutMs).long(want.session).str(string(want.password))
	if !want.noReadOnly {
		b = b.flag(want.readOnly)
	}
	if err := c.write(b); err != nil {
		return nil, err
	}
	frame, err := c.read()
	if err != nil {
		return nil, err
	}
	r := reader{b: frame}
	r.int()
	c.timeout, c.session, c.password = r.int(), r.long(), []byte(r.str())
	if !want.noReadOnly {
		c.readOnly = r.flag()
	}
	if r.err != nil {
		return nil, fmt.Errorf("connect response: %w", r.err)
	}
	if len(r.b) != 0 {
		return nil, fmt.Errorf("connect response: %d bytes too many", len(r.b))
	}
	return c, nil
}

// write fails, as read does, once the server has cut the client off and the client has hung up.
func (c *rawClient) write(b body) error {
	if c.nc == nil {
		return io.ErrClosedPipe
	}
	if err := c.nc.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	_, err := c.nc.Write(body{}.str(string(b.b)).b)
	return err
}

func (c *rawClient) read() ([]byte, error) {
	if c.nc == nil {
		return nil, io.ErrClosedPipe
	}
	if err := c.nc.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return nil, err
	}
	var size [4]byte
	if _, err := io.ReadFull(c.nc, size[:]); err != nil {
		return nil, err
	}
	frame := make([]byte, binary.BigEndian.Uint32(size[:]))
	_, err := io.ReadFull(c.nc, frame)
	return frame, err
}

// send sends a request and returns the xid that its reply has to carry.
func (c *rawClient) send(op int32, b body) (int32, error) {
	return c.sendAs(0, op, b)
}

// sendAs sends a request under an xid, 0 for the next. A ping is always answered as -2.
func (c *rawClient) sendAs(xid, op int32, b body) (int32, error) {
	if xid == 0 {
		c.xid++
		xid = c.xid
	}
	if op == opPing {
		xid = -2
	}
	return xid, c.write(body{}.int(xid).int(op).join(b))
}

// receive returns the next reply.
func (c *rawClient) receive() (rawReply, error) {
	for {
		frame, err := c.read()
		if err != nil {
			return rawReply{}, err
		}
		r := reader{b: frame}
		reply := rawReply{xid: r.int(), zxid: r.long(), err: r.int()}
		if reply.xid == -1 {
			kind, state, path := r.int(), r.int(), r.str()
			if state != 3 || reply.zxid != -1 || reply.err != 0 || r.err != nil || len(r.b) != 0 {
				return rawReply{}, fmt.Errorf("malformed event %x", frame)
			}
			c.pending = append(c.pending, rawEvent{kind, path})
			continue
		}
		reply.events, c.pending = c.pending, nil
		reply.fields = r
		return reply, r.err
	}
}

// call sends a request and waits for its reply.
func (c *rawClient) call(op int32, b body) (rawReply, error) {
	xid, err := c.send(op, b)
	if err != nil {
		return rawReply{}, err
	}
	reply, err := c.receive()
	if err == nil && reply.xid != xid {
		err = fmt.Errorf("reply to %d, %d expected", reply.xid, xid)
	}
	return reply, err
}

// start starts a server that is closed with the test.
func start(tb testing.TB, opts ...zkserver.Option) *zkserver.Server {
	tb.Helper()
	srv := must.Get(zkserver.Start(opts...))(tb)
	tb.Cleanup(func() { require.NoError(tb, srv.Close()) })
	return srv
}

// rawTo connects a raw client that is hung up with the test.
func rawTo(tb testing.TB, srv *zkserver.Server, want connection) *rawClient {
	tb.Helper()
	c := must.Get(tryRaw(tb, srv, want))(tb)
	return c
}

func tryRaw(tb testing.TB, srv *zkserver.Server, want connection) (*rawClient, error) {
	tb.Helper()
	nc := must.Get(dialTCP(srv.Addr()))(tb)
	tb.Cleanup(func() { nc.Close() })
	if want.timeoutMs == 0 {
		want.timeoutMs = 10_000
	}
	return handshake(nc, want)
}

// must returns the reply to a request that has to succeed.
func (c *rawClient) must(tb testing.TB, op int32, b body) rawReply {
	tb.Helper()
	reply := must.Get(c.call(op, b))(tb)
	require.Zero(tb, reply.err, "error code of opcode %d", op)
	return reply
}

// code returns the error code of a request.
func (c *rawClient) code(tb testing.TB, op int32, b body) int32 {
	tb.Helper()
	reply := must.Get(c.call(op, b))(tb)
	if reply.err != 0 {
		require.Empty(tb, reply.fields.b, "body of an error reply")
	}
	return reply.err
}

// events returns what has been queued for the client so far: all of it comes before the reply to a ping.
func (c *rawClient) events(tb testing.TB) []rawEvent {
	tb.Helper()
	return c.must(tb, 11, body{}).events
}

// hungUp waits for the server to close the connection and fails if anything else comes.
func (c *rawClient) hungUp(tb testing.TB) {
	tb.Helper()
	_, err := c.receive()
	require.True(tb, ended(err), "got %v", err)
}

// ended tells whether err is the end of a connection, not a timeout or something malformed.
func ended(err error) bool {
	var op *net.OpError
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrClosedPipe) || errors.As(err, &op) && !op.Timeout()
}

// watchMissing sets a watch on a node that does not exist.
func (c *rawClient) watchMissing(tb testing.TB, path string) {
	tb.Helper()
	require.EqualValues(tb, -101, c.code(tb, 3, body{}.str(path).flag(true)))
}

// createBody is the request of create, create2 and createContainer.
func createBody(path, data string, flags int32) body {
	return body{}.str(path).str(data).open().int(flags)
}
