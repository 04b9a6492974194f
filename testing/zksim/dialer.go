// SPDX-License-Identifier: Apache-2.0

package zksim

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/gocurator/curator/testing/zkserver"
)

// dialer connects a client to one server after the other, or again and again to one. What a client does by chance no seed can
// bring again. So the client's random pause before a connection is made as long as it may be, and another one is added that the
// seed draws. Answers reach each client after a time of its own, so no two of them wake up at the same instant.
type dialer struct {
	servers *zkserver.Ensemble
	client  int           // its number
	first   int           // the server that it connects to first
	stays   bool          // it knows no other
	spread  time.Duration // the longest pause before a connection after one that was stable

	mu     sync.Mutex // guards all below
	random *rand.Rand
	dialed int
	failed int       // connections, one after the other, that have lasted for less than a second
	began  time.Time // the last connection, or the attempt
	ended  time.Time
	dead   bool // there are no more connections
	conns  map[*conn]bool
	stall  chan struct{} // closed when the pause of the process ends; nil while there is none
}

// The client's pauses between connections, without the part that is random.
const (
	firstPause  = 50 * time.Millisecond // and twice as long after each failure
	longestWait = time.Second
)

func (d *dialer) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	n, at := d.next()
	select {
	case <-time.After(time.Until(at)):
	case <-ctx.Done():
	}
	select {
	case <-d.stalled():
	case <-ctx.Done():
	}
	c, err := d.servers.Server(n%len(d.servers.Servers())).Dial(ctx, network, addr)
	if err != nil {
		d.end()
		return nil, err
	}
	mine := &conn{Conn: c, d: d, latency: time.Duration(1009 + 337*d.client), mute: make(chan struct{}), closed: make(chan struct{})}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dead {
		return nil, errors.Join(net.ErrClosed, c.Close())
	}
	d.conns[mine] = true
	return mine, nil
}

// kill ends all connections for good, or has them fall silent.
func (d *dialer) kill(silent bool) {
	d.mu.Lock()
	d.dead = true
	conns := slices.Collect(maps.Keys(d.conns))
	d.mu.Unlock()
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
func (d *dialer) stalled() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.stall == nil {
		return running
	}
	return d.stall
}

// pause holds all that the connections send and receive until resume is called.
func (d *dialer) pause() (resume func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.stall != nil { // by another fault, which ends the pause
		return func() {}
	}
	stall := make(chan struct{})
	d.stall = stall
	for c := range d.conns {
		c.hold()
	}
	held := slices.Collect(maps.Keys(d.conns))
	return func() {
		d.mu.Lock()
		d.stall = nil
		d.mu.Unlock()
		close(stall)
		for _, c := range held {
			c.flush()
		}
	}
}

// next returns the server of the next attempt, and when it begins.
func (d *dialer) next() (server int, at time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	server = d.first
	if !d.stays {
		server += d.dialed
	}
	if d.dialed++; d.dialed > 1 {
		if d.failed++; d.ended.Sub(d.began) >= time.Second {
			d.failed = 0
		}
		longest := d.spread
		if d.failed > 0 {
			longest = max(longest, min(longestWait, firstPause<<min(d.failed, 10)))
		}
		at = d.ended.Add(longest + time.Duration(d.random.Int64N(int64(firstPause))))
	}
	d.began, d.ended = at, at
	return server, at
}

// spreadOver is told of the session's timeout. Clients spread over a part of it.
func (d *dialer) spreadOver(timeout time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.spread = timeout / 30
}

func (d *dialer) end() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ended = time.Now()
}

// conn is a connection of a client.
type conn struct {
	net.Conn

	d       *dialer
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
	for stalled := c.d.stalled(); ; {
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
	c.d.end()
	c.d.mu.Lock()
	delete(c.d.conns, c)
	c.d.mu.Unlock()
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
