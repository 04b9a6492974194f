// SPDX-License-Identifier: Apache-2.0

package zksim

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"net"
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
	closed  chan struct{} // closed by Close of a silent connection
	once    sync.Once
}

func (c *conn) isMute() bool {
	select {
	case <-c.mute:
		return true
	default:
		return false
	}
}

func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.isMute() {
		<-c.closed
		return 0, net.ErrClosed
	}
	time.Sleep(c.latency)
	return n, err
}

func (c *conn) Write(b []byte) (int, error) {
	if c.isMute() {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

// Close of a silent connection is not heard of by the server.
func (c *conn) Close() error {
	c.d.end()
	c.d.mu.Lock()
	delete(c.d.conns, c)
	c.d.mu.Unlock()
	if c.isMute() {
		c.once.Do(func() { close(c.closed) })
		return nil
	}
	return c.Conn.Close()
}
