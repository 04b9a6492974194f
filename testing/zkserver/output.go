// SPDX-License-Identifier: Apache-2.0

package zkserver

import (
	"net"
	"time"
)

// writeLoop writes what is queued until the connection must close, and closes it.
func (c *conn) writeLoop() {
	defer c.abort()
	var spare []byte
	for {
		ending := false
		select {
		case <-c.wake:
		case <-c.ended:
			ending = true
		case <-c.aborted:
			return
		}
		if !c.srv.gate.wait(c.aborted) || ending && !c.srv.awaitVisible(c) {
			return
		}
		if ending {
			c.limitWrites()
		}
		spare = c.swap(spare)
		if err := c.write(spare); err != nil {
			return
		}
		c.srv.wrote(c, len(spare))
		if ending {
			c.hangUp()
			return
		}
	}
}

// write writes b, in pieces on a throttled connection. It skips an empty write, for which net.Pipe would wait for
// a reader.
func (c *conn) write(b []byte) error {
	for len(b) > 0 {
		n, takes := c.srv.pace(c, len(b))
		if !c.pause(takes, c.aborted) {
			return net.ErrClosed
		}
		if _, err := c.nc.Write(b[:n]); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// wrote stops counting n bytes of output that a client has been sent.
func (s *Server) wrote(c *conn, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hold(c, -n)
}

// waitForRequest waits for the time that n bytes of a request take on a throttled connection. It returns false if
// the connection ends first.
func (c *conn) waitForRequest(n int) bool {
	for n > 0 {
		part, takes := c.srv.pace(c, n)
		if !c.pause(takes, c.ended) {
			return false
		}
		n -= part
	}
	return true
}

// pause returns true after d, or false if cancel is closed first.
func (c *conn) pause(d time.Duration, cancel <-chan struct{}) bool {
	return Fault{delay: d}.wait(cancel)
}

// swap takes the queued output and leaves the memory of spare for what comes next.
func (c *conn) swap(spare []byte) []byte {
	c.outMu.Lock()
	defer c.outMu.Unlock()
	queued := c.out
	if c.out = spare[:0]; cap(spare) > maxKept {
		c.out = nil
	}
	return queued
}

// send queues frames. It never blocks: a client that leaves too much unread loses its connection. The caller holds
// Server.mu.
func (c *conn) send(frames []byte) {
	c.srv.hold(c, len(frames))
	if !c.queue(frames) {
		c.srv.hold(c, -len(frames))
	}
}

// queue reports whether the connection takes output.
func (c *conn) queue(frames []byte) bool {
	c.outMu.Lock()
	defer c.outMu.Unlock()
	if c.sealed {
		return false
	}
	c.out = append(c.out, frames...)
	if len(c.out) > c.srv.cfg.maxQueued {
		c.srv.log.Warn("connection cut: its client does not read", "client", c.remote(), "queued", len(c.out))
		c.srv.noteConn(Ended, c, "its client does not read")
		c.out = nil
		c.endLocked()
		return true
	}
	select {
	case c.wake <- struct{}{}:
	default:
	}
	return true
}

// seal makes the connection take no more output, as if its client were already out of reach.
func (c *conn) seal() {
	c.outMu.Lock()
	defer c.outMu.Unlock()
	c.sealed = true
}

// What becomes of queued output when a connection ends.
type ending bool

const (
	sendQueued ending = true
	dropQueued ending = false
)

// finish ends the connection: it takes no more output and the writing goroutine closes it. It does not block.
func (c *conn) finish(how ending) {
	c.outMu.Lock()
	defer c.outMu.Unlock()
	if how == dropQueued {
		c.out = nil
	}
	c.endLocked()
}

func (c *conn) endLocked() {
	c.sealed = true
	if !c.isEnded() {
		close(c.ended)
		c.limitWrites()
	}
}

// isEnded reports whether the server has ended the connection. The client may not have noticed yet.
func (c *conn) isEnded() bool {
	select {
	case <-c.ended:
		return true
	default:
		return false
	}
}

// limitWrites bounds the wait for a client that does not read its last bytes.
func (c *conn) limitWrites() {
	_ = c.nc.SetWriteDeadline(time.Now().Add(linger)) // fails only on a closed connection
}

// hangUp ends the direction to the client and waits until the client has hung up too, at most for linger.
func (c *conn) hangUp() {
	half, ok := c.nc.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil || c.nc.SetReadDeadline(time.Now().Add(linger)) != nil {
		return
	}
	<-c.readDone
}

// abort closes the connection now, whatever is queued. It may be called more than once.
func (c *conn) abort() {
	c.abortOnce.Do(func() {
		c.finish(dropQueued)
		close(c.aborted)
		_ = closeNow(c.nc) // what it could report concerns a peer that is being given up
	})
}

// closeNow closes a connection without a farewell, which with TLS might wait for a client that does not read.
func closeNow(nc net.Conn) error {
	if t, ok := nc.(interface{ NetConn() net.Conn }); ok {
		nc = t.NetConn()
	}
	return nc.Close()
}
