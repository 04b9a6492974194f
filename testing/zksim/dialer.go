// SPDX-License-Identifier: Apache-2.0

package zksim

import (
	"context"
	"errors"
	"maps"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/gocurator/curator/testing/zkserver"
)

// anyServer is the address by which a client is connected to one server or the other.
const anyServer = "servers:2181"

// dialer connects a client to one server after the other, or again and again to one. Answers reach each client after a time of its
// own, so no two of them wake up at the same instant.
type dialer struct {
	servers *zkserver.Ensemble
	host    *host
	client  int  // its number
	first   int  // the server that it connects to first
	stays   bool // it knows no other

	mu     sync.Mutex // guards dialed
	dialed int
}

func (d *dialer) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	select {
	case <-d.host.stalled():
	case <-ctx.Done():
	}
	dial := d.servers.Dial
	if addr == anyServer { // else it is in the configuration of the ensemble, which the client follows
		dial = d.servers.Server(d.next() % len(d.servers.Servers())).Dial
	}
	c, err := dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	mine := &conn{Conn: c, host: d.host, latency: time.Duration(1009 + 337*d.client), mute: make(chan struct{}), closed: make(chan struct{})}
	if !d.host.add(mine) {
		return nil, errors.Join(net.ErrClosed, c.Close())
	}
	return mine, nil
}

// next returns the server of the next attempt.
func (d *dialer) next() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	server := d.first
	if !d.stays {
		server += d.dialed
	}
	d.dialed++
	return server
}

// host is where one life of a process runs. It has the connections of all clients, also of those that are being connected.
type host struct {
	life context.Context // until the process is killed: then there are no more connections
	end  context.CancelFunc

	mu    sync.Mutex // guards all below
	conns map[*conn]bool
	stall chan struct{} // closed when the pause of the process ends; nil while there is none
	held  []*conn       // those that keep what is written until then, also if they were closed meanwhile
}

func newHost() *host {
	h := &host{conns: make(map[*conn]bool)}
	h.life, h.end = context.WithCancel(context.Background())
	return h
}

// add reports false when the process was killed.
func (h *host) add(c *conn) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.life.Err() != nil {
		return false
	}
	h.conns[c] = true
	if h.stall != nil {
		h.hold(c)
	}
	return true
}

// kill ends all connections for good, or has them fall silent.
func (h *host) kill(silent bool) {
	h.mu.Lock()
	h.end()
	conns := slices.Collect(maps.Keys(h.conns))
	h.mu.Unlock()
	for _, c := range conns {
		if silent {
			close(c.mute)
		} else {
			_ = c.Conn.Close() // it is closed only once, and that is all that can fail
		}
	}
}

// running is closed: a process that runs waits for nothing.
var running = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// stalled returns what is closed while the process runs, or when its pause ends.
func (h *host) stalled() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stall == nil {
		return running
	}
	return h.stall
}

// pause holds all that the connections send and receive until resume is called.
func (h *host) pause() (resume func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stall != nil { // by another fault, which ends the pause
		return func() {}
	}
	h.stall = make(chan struct{})
	for c := range h.conns {
		h.hold(c)
	}
	return h.resume
}

// hold keeps what a connection writes. The caller has mu.
func (h *host) hold(c *conn) {
	c.hold()
	h.held = append(h.held, c)
}

func (h *host) resume() {
	h.mu.Lock()
	stall, held := h.stall, h.held
	h.stall, h.held = nil, nil
	h.mu.Unlock()
	close(stall)
	for _, c := range held {
		c.flush()
	}
}

// conn is a connection of a client.
type conn struct {
	net.Conn

	host    *host
	latency time.Duration
	mute    chan struct{} // closed when the connection falls silent
	closed  chan struct{} // closed by Close
	once    sync.Once

	mu     sync.Mutex // guards all below
	isHeld bool       // while the process is paused
	late   []byte     // what was written meanwhile
	ended  bool       // the client has closed the connection
	readBy time.Time  // the deadline of reads; zero for none
}

func (c *conn) isMute() bool {
	select {
	case <-c.mute:
		return true
	default:
		return false
	}
}

// hold keeps what is written until flush.
func (c *conn) hold() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.isHeld = true
}

// flush sends what was kept, also of a connection that its client has closed since: it was under way.
func (c *conn) flush() {
	for {
		c.mu.Lock()
		late, ended := c.late, c.ended
		c.late = nil
		c.isHeld = len(late) > 0
		c.mu.Unlock()
		if len(late) == 0 {
			if ended && !c.isMute() {
				_ = c.Conn.Close() // nobody is left who could be told
			}
			return
		}
		if !c.isMute() {
			_, _ = c.Conn.Write(late) // it fails if the server is gone
		}
	}
}

// await returns when the process is not paused. Its client may close the connection before, or come to its deadline.
func (c *conn) await() error {
	const look = 50 * time.Millisecond
	for stalled := c.host.stalled(); ; {
		c.mu.Lock()
		by := c.readBy
		c.mu.Unlock()
		select {
		case <-stalled:
			return nil
		case <-c.closed:
			return net.ErrClosed
		case <-time.After(look):
		}
		if !by.IsZero() && !time.Now().Before(by) {
			return os.ErrDeadlineExceeded
		}
	}
}

func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.isMute() {
		<-c.closed
		return 0, net.ErrClosed
	}
	if paused := c.await(); paused != nil {
		return 0, paused
	}
	time.Sleep(c.latency)
	return n, err
}

func (c *conn) Write(b []byte) (int, error) {
	if c.isMute() {
		return len(b), nil
	}
	c.mu.Lock()
	held := c.isHeld
	if held {
		c.late = append(c.late, b...)
	}
	c.mu.Unlock()
	if held {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

func (c *conn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	c.readBy = t
	c.mu.Unlock()
	return c.Conn.SetReadDeadline(t)
}

func (c *conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// Close of a silent connection is not heard of by the server, and that of a paused process only later.
func (c *conn) Close() error {
	c.host.mu.Lock()
	delete(c.host.conns, c)
	c.host.mu.Unlock()
	c.once.Do(func() { close(c.closed) })
	c.mu.Lock()
	held := c.isHeld
	c.ended = true
	c.mu.Unlock()
	if held || c.isMute() {
		return nil
	}
	return c.Conn.Close()
}
