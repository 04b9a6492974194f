// SPDX-License-Identifier: Apache-2.0

package zkproxy_test

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/testing/zkproxy"
)

// patience bounds waits that end at once unless something is broken.
const patience = time.Minute

// fakeServer answers frames in ZooKeeper's form: a connect response to the first frame of a connection, a reply to any other, and a
// notification before the reply to a getData.
type fakeServer struct {
	t        *testing.T
	listener net.Listener
	received chan []byte // bodies after the handshake
	ended    chan error  // how the reading of a connection ended
	running  sync.WaitGroup

	mu    sync.Mutex
	zxid  int64
	conns []net.Conn
}

func startServer(t *testing.T) *fakeServer {
	t.Helper()
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	s := &fakeServer{t: t, listener: listener, received: make(chan []byte, 1000), ended: make(chan error, 100)}
	s.running.Go(s.accept)
	t.Cleanup(func() {
		require.NoError(t, listener.Close())
		s.hangUp()
		s.running.Wait()
	})
	return s
}

func (s *fakeServer) addr() string { return s.listener.Addr().String() }

func (s *fakeServer) accept() {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return // closed by the cleanup
		}
		s.mu.Lock()
		s.conns = append(s.conns, conn)
		s.mu.Unlock()
		s.running.Go(func() { s.ended <- s.serve(conn) })
	}
}

// hangUp closes all connections.
func (s *fakeServer) hangUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, conn := range s.conns {
		conn.Close()
	}
}

func (s *fakeServer) serve(conn net.Conn) error {
	defer conn.Close()
	first, err := readFrame(conn)
	if err != nil {
		return err
	}
	if err := writeFrame(conn, append([]byte("hello "), first...)); err != nil {
		return err
	}
	for {
		body, err := readFrame(conn)
		if err != nil {
			return err
		}
		s.received <- body
		if len(body) < 8 {
			return errors.New("request without a header")
		}
		xid, op := binary.BigEndian.Uint32(body), int32(binary.BigEndian.Uint32(body[4:]))
		if op == zkproxy.OpGetData {
			event := append(header(-1, s.nextZxid(), 0), 0, 0, 0, 3, 0, 0, 0, 3)
			if err := writeFrame(conn, appendString(event, "/watched")); err != nil {
				return err
			}
		}
		if err := writeFrame(conn, header(int32(xid), s.nextZxid(), 0)); err != nil {
			return err
		}
	}
}

func (s *fakeServer) nextZxid() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.zxid++
	return s.zxid
}

// next returns the next body that the server has received after a handshake.
func (s *fakeServer) next() []byte {
	s.t.Helper()
	select {
	case body := <-s.received:
		return body
	case <-time.After(patience):
		require.FailNow(s.t, "server received nothing")
		return nil
	}
}

// end returns how the reading of a connection ended.
func (s *fakeServer) end() error {
	s.t.Helper()
	select {
	case err := <-s.ended:
		return err
	case <-time.After(patience):
		require.FailNow(s.t, "no connection ended")
		return nil
	}
}

// client speaks frames, one call after the other.
type client struct {
	t    *testing.T
	conn halfCloser
}

// halfCloser is a connection whose directions can end one by one.
type halfCloser interface {
	net.Conn
	CloseWrite() error
}

// dial connects without a handshake.
func dial(t *testing.T, addr string) *client {
	t.Helper()
	conn := must.Get(net.Dial("tcp", addr))(t)
	return newClient(t, conn)
}

func newClient(t *testing.T, conn net.Conn) *client {
	t.Helper()
	t.Cleanup(func() { conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(patience)))
	return &client{t: t, conn: conn.(halfCloser)}
}

// connect connects and shakes hands.
func connect(t *testing.T, addr string) *client {
	t.Helper()
	c := dial(t, addr)
	c.greet()
	return c
}

// greet shakes hands with a fakeServer.
func (c *client) greet() {
	c.t.Helper()
	c.sendBody([]byte("connect"))
	require.Equal(c.t, "hello connect", string(c.receive()))
}

func (c *client) sendBody(body []byte) {
	c.t.Helper()
	require.NoError(c.t, writeFrame(c.conn, body))
}

func (c *client) send(xid, op int32, path string) {
	c.t.Helper()
	c.sendBody(request(xid, op, path))
}

func (c *client) receive() []byte {
	c.t.Helper()
	body := must.Get(readFrame(c.conn))(c.t)
	return body
}

// requireReply receives a frame and checks that it is the reply to xid.
func (c *client) requireReply(xid int32) {
	c.t.Helper()
	require.Equal(c.t, xid, int32(binary.BigEndian.Uint32(c.receive())))
}

// call sends a request and requires its reply.
func (c *client) call(xid, op int32, path string) {
	c.t.Helper()
	c.send(xid, op, path)
	c.requireReply(xid)
}

// requireReset checks that the connection ends by a reset and without another frame.
func (c *client) requireReset() {
	c.t.Helper()
	_, err := readFrame(c.conn)
	require.True(c.t, isReset(err), "%v", err)
}

// requireRefused checks that a new connection is reset, which may happen before the client knows that it has one.
func requireRefused(t *testing.T, addr string) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err == nil {
		defer conn.Close()
		require.NoError(t, conn.SetDeadline(time.Now().Add(patience)))
		_, err = conn.Read(make([]byte, 1))
	}
	require.True(t, isReset(err), "%v", err)
}

// requireSilence checks that nothing has arrived by now.
func (c *client) requireSilence() {
	c.t.Helper()
	require.NoError(c.t, c.conn.SetReadDeadline(time.Now().Add(10*time.Millisecond)))
	n, err := c.conn.Read(make([]byte, 1))
	var timeout net.Error
	require.True(c.t, errors.As(err, &timeout) && timeout.Timeout(), "%d bytes, %v", n, err)
	require.NoError(c.t, c.conn.SetDeadline(time.Now().Add(patience)))
}

func readFrame(r io.Reader) ([]byte, error) {
	var length [4]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return nil, err
	}
	body := make([]byte, binary.BigEndian.Uint32(length[:]))
	_, err := io.ReadFull(r, body)
	return body, err
}

func writeFrame(w io.Writer, body []byte) error {
	_, err := w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...))
	return err
}

func request(xid, op int32, path string) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(xid))
	b = binary.BigEndian.AppendUint32(b, uint32(op))
	return appendString(b, path)
}

func header(xid int32, zxid int64, code int32) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(xid))
	b = binary.BigEndian.AppendUint64(b, uint64(zxid))
	return binary.BigEndian.AppendUint32(b, uint32(code))
}

func appendString(b []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(s))), s...)
}
