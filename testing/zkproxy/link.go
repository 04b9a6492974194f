// SPDX-License-Identifier: Apache-2.0

package zkproxy

import (
	"context"
	"io"
	"net"
	"sync/atomic"
)

// link is a client's connection, together with its connection to the server.
type link struct {
	proxy  *Proxy
	number int
	client net.Conn
	raw    atomic.Bool // carries a four letter word, so there are no frames

	ctx    context.Context // ends with the link
	cancel context.CancelFunc

	// What follows is guarded by the proxy's mu.
	server net.Conn // nil until connected
	over   bool
	open   Direction // the directions that have not ended
	lost   Direction // the directions that lost something, and lose all that follows until Heal resets the link
	calls  map[callKey][]call
	zxid   int64 // of the latest reply that was forwarded
	mute   bool  // a request was lost during CutOff, and nothing after it is answered

	writing chan struct{} // holds a token while a frame is written to the client
}

// call is a frame that was forwarded to the server and waits for its reply.
type call struct {
	index int
	op    int32
	path  string
	cut   bool // reset the connection instead of forwarding the reply
}

// callKey finds the call that a reply answers. Several calls may share a key (pings do), and are answered in order.
type callKey struct {
	handshake bool
	xid       int32
}

// run connects the link to the server and starts its two streams.
func (l *link) run() {
	if l.swallows(ToServer, "not connected") {
		l.drain()
		return
	}
	server, err := l.dial()
	if err != nil {
		if l.swallows(ToClient, err.Error()) || l.swallows(ToServer, err.Error()) {
			l.drain()
			return
		}
		l.end(Unserved, err.Error(), resetConn)
		return
	}
	if !l.attach(server) {
		resetConn(server)
		return
	}
	requests := &stream{link: l, direction: ToServer, from: l.client, to: server, queue: make(chan piece, queueLength)}
	replies := &stream{link: l, direction: ToClient, from: server, to: l.client, queue: make(chan piece, queueLength)}
	requests.replies = replies
	for _, s := range []*stream{requests, replies} {
		l.proxy.running.Go(s.read)
		l.proxy.running.Go(s.carry)
	}
}

func (l *link) dial() (net.Conn, error) {
	l.proxy.mu.Lock()
	target := l.proxy.target
	l.proxy.mu.Unlock()
	ctx, cancel := context.WithTimeout(l.ctx, l.proxy.dialTimeout)
	defer cancel()
	return l.proxy.dialTarget(ctx, "tcp", target)
}

// attach gives the link its server side. It fails if the link is over.
func (l *link) attach(server net.Conn) bool {
	l.proxy.mu.Lock()
	defer l.proxy.mu.Unlock()
	l.server = server
	return !l.over
}

// swallows reports whether the direction is a black hole; if so, what happened is lost, and the link does not survive Heal.
func (l *link) swallows(d Direction, what string) bool {
	l.proxy.mu.Lock()
	defer l.proxy.mu.Unlock()
	return l.swallow(d, Frame{Conn: l.number, Direction: d}, what)
}

// swallow is swallows for a frame, with mu held.
func (l *link) swallow(d Direction, f Frame, detail string) bool {
	if (l.proxy.blackhole|l.lost)&d == 0 {
		return false
	}
	l.lost |= d
	l.proxy.journal.add(Swallowed, f, detail)
	return true
}

// drain reads what the client of a link without a server has to say, until the link is over.
func (l *link) drain() {
	_, _ = io.Copy(io.Discard, l.client) // however it ends, the server must not know before Heal
	<-l.ctx.Done()
}

// reset ends the link by resetting both connections.
func (l *link) reset(why string) { l.end(Reset, why, resetConn) }

// end ends the link once, closing both sides as given.
func (l *link) end(a Action, why string, closeConn func(net.Conn)) {
	p := l.proxy
	p.mu.Lock()
	if l.over {
		p.mu.Unlock()
		return
	}
	l.over = true
	delete(p.links, l)
	server := l.server
	p.journal.add(a, Frame{Conn: l.number}, why)
	p.mu.Unlock()

	l.cancel()
	closeConn(l.client)
	if server != nil {
		closeConn(server)
	}
}

// resetConn closes a connection, with a reset where there is such a thing. A failure means that it is closed already.
func resetConn(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// closeConn closes a connection in good order. A failure means that it is closed already.
func closeConn(conn net.Conn) { _ = conn.Close() }

// endSending tells the other side of a connection that no more will come. If there is no other way, it closes the
// connection.
func endSending(conn net.Conn) error {
	if half, ok := conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return conn.Close()
}

// identify gives a request its index, and a reply the index of its request; cut reports whether the reply must be withheld.
func (l *link) identify(f Frame) (identified Frame, cut bool) {
	l.proxy.mu.Lock()
	defer l.proxy.mu.Unlock()
	switch {
	case f.Direction == ToServer && f.Kind == Request:
		l.proxy.requests++
		f.Index = l.proxy.requests
	case f.Direction == ToClient && f.Kind != Notification && f.Kind != Raw:
		c := l.answered(f)
		f.Index, f.Op, f.Path = c.index, c.op, c.path
		cut = c.cut
	}
	return f, cut
}

// answered removes and returns the call that the reply f answers, with mu held. It is empty if there is none.
func (l *link) answered(f Frame) call {
	key := callKey{handshake: f.Kind == Handshake, xid: f.Xid}
	waiting := l.calls[key]
	if len(waiting) == 0 {
		return call{}
	}
	if len(waiting) == 1 {
		delete(l.calls, key)
	} else {
		l.calls[key] = waiting[1:]
	}
	return waiting[0]
}

// called notes that f goes to the server, with mu held. A replacement without a header has no reply.
func (l *link) called(f Frame, cut bool) {
	if f.Kind != Handshake && len(f.Body) < requestHeader {
		return
	}
	key := callKey{handshake: f.Kind == Handshake, xid: f.Xid}
	l.calls[key] = append(l.calls[key], call{index: f.Index, op: f.Op, path: f.Path, cut: cut})
}
