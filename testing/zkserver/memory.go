// SPDX-License-Identifier: Apache-2.0

package zkserver

import (
	"context"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Dial connects to the server in memory, whatever network and address are named. It opens no socket: inside a
// bubble of testing/synctest, waiting for such a connection lets the fake clock advance. It has the signature of
// (*net.Dialer).DialContext, so clients take it as their dialer. The client's address is 127.0.0.1 with a port
// that counts connections.
//
// Dial does not block. It fails when ctx has ended, and with ECONNREFUSED while the server is stopped or refuses
// connections.
func (s *Server) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("zkserver: dial: %w", context.Cause(ctx))
	}
	client, server := s.pipe()
	if !s.serveConn(server) {
		return nil, fmt.Errorf("zkserver: dial: %w", syscall.ECONNREFUSED)
	}
	return client, nil
}

// Dial is [Server.Dial] of the server that [Ensemble.ConnectString] has at addr, and fails for another address.
func (e *Ensemble) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	names := e.ConnectString()
	i := slices.Index(strings.Split(names, ","), addr)
	if i < 0 {
		return nil, fmt.Errorf("zkserver: dial %q: one of %s expected", addr, names)
	}
	return e.members[i].s.Dial(ctx, network, addr)
}

// pipe returns the two ends of a connection in memory.
func (s *Server) pipe() (client, server net.Conn) {
	s.mu.Lock()
	s.dialed = s.dialed%math.MaxUint16 + 1
	addr, mine := memoryAddr("127.0.0.1:"+strconv.Itoa(s.dialed)), memoryAddr("zkserver")
	if s.member != nil {
		mine = memoryAddr(s.member.address())
	}
	s.mu.Unlock()
	toServer, toClient := newHalf(), newHalf()
	return &memoryConn{in: toClient, out: toServer, local: addr, remote: mine},
		&memoryConn{in: toServer, out: toClient, local: mine, remote: addr}
}

// memoryAddr is the address of one end of a connection in memory.
type memoryAddr string

func (memoryAddr) Network() string  { return "memory" }
func (a memoryAddr) String() string { return string(a) }

// memoryConn is one end of a connection in memory. Unlike an end of net.Pipe it has a buffer in each direction, as
// a socket has, so a write does not wait for the reader.
type memoryConn struct {
	in, out       *half
	local, remote memoryAddr
}

func (c *memoryConn) Read(p []byte) (int, error)  { return c.in.read(p) }
func (c *memoryConn) Write(p []byte) (int, error) { return c.out.write(p) }
func (c *memoryConn) LocalAddr() net.Addr         { return c.local }
func (c *memoryConn) RemoteAddr() net.Addr        { return c.remote }

// CloseWrite ends the direction to the other end.
func (c *memoryConn) CloseWrite() error {
	c.out.change(func() { c.out.ended = true })
	return nil
}

// Close ends both directions. What was written before can still be read at the other end.
func (c *memoryConn) Close() error {
	c.out.change(func() { c.out.ended, c.out.writerGone = true, true })
	c.in.change(func() { c.in.readerGone, c.in.data = true, nil })
	return nil
}

func (c *memoryConn) SetDeadline(t time.Time) error {
	c.in.change(func() { c.in.readBy = t })
	c.out.change(func() { c.out.writeBy = t })
	return nil
}

func (c *memoryConn) SetReadDeadline(t time.Time) error {
	c.in.change(func() { c.in.readBy = t })
	return nil
}

func (c *memoryConn) SetWriteDeadline(t time.Time) error {
	c.out.change(func() { c.out.writeBy = t })
	return nil
}

// halfSize is how many bytes one direction holds before a write waits.
const halfSize = 64 << 10

// half is one direction of a connection in memory.
type half struct {
	mu         sync.Mutex // guards all that follows
	data       []byte
	ended      bool // no more will be written
	writerGone bool
	readerGone bool
	readBy     time.Time     // zero: no deadline
	writeBy    time.Time     // zero: no deadline
	changed    chan struct{} // closed and replaced at every change
}

func newHalf() *half { return &half{changed: make(chan struct{})} }

// change makes a change and wakes all waiters.
func (h *half) change(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f()
	h.wake()
}

func (h *half) wake() {
	close(h.changed)
	h.changed = make(chan struct{})
}

func (h *half) read(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for {
		switch {
		case h.readerGone:
			return 0, net.ErrClosed
		case passed(h.readBy):
			return 0, os.ErrDeadlineExceeded
		case len(p) == 0:
			return 0, nil
		case len(h.data) > 0:
			n := copy(p, h.data)
			h.data = h.data[n:]
			h.wake()
			return n, nil
		case h.ended:
			return 0, io.EOF
		}
		h.wait(h.readBy)
	}
}

func (h *half) write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for written := 0; ; {
		switch {
		case h.writerGone:
			return written, net.ErrClosed
		case h.ended || h.readerGone:
			return written, syscall.EPIPE
		case passed(h.writeBy):
			return written, os.ErrDeadlineExceeded
		}
		if n := min(len(p)-written, halfSize-len(h.data)); n > 0 {
			h.data = append(h.data, p[written:written+n]...)
			written += n
			h.wake()
		}
		if written == len(p) {
			return written, nil
		}
		h.wait(h.writeBy)
	}
}

// wait returns at the next change or when the deadline has passed. It is called, and returns, with mu held.
func (h *half) wait(deadline time.Time) {
	changed := h.changed
	h.mu.Unlock()
	defer h.mu.Lock()
	if deadline.IsZero() {
		<-changed
		return
	}
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	select {
	case <-changed:
	case <-timer.C:
	}
}

func passed(deadline time.Time) bool {
	return !deadline.IsZero() && !time.Now().Before(deadline)
}
