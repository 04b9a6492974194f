// SPDX-License-Identifier: Apache-2.0

package zkserver

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gocurator/curator/internal/freeport"
)

// ErrClosed is returned by methods of a closed server.
var ErrClosed = errors.New("zkserver: server closed")

// Server is a ZooKeeper server in memory. Its methods may be called from any goroutine; [Server.Intercept] names
// the exceptions for hooks.
type Server struct {
	cfg     config
	log     *slog.Logger
	created time.Time // origin of clock

	handlers map[OpCode]func(*call) code             // of requests
	words    map[string]func(*Server, *bytes.Buffer) // the four-letter words that write their answers

	timing atomic.Pointer[timing] // of the clock; nil for the one of time.Now
	gate   gate                   // shut while the server is paused
	hooks  hooks

	throttled atomic.Bool // there are throttles; changed with mu held

	lifecycle sync.Mutex // held by Stop, Restart and Close, which take mu inside; never the other way round

	// mu makes every request one step: it guards all below and the state of connections that says so. Nothing blocks
	// while it is held. Locks of a connection are taken inside it.
	mu          *sync.Mutex // one for all servers of an ensemble
	member      *member     // nil for a server that stands alone
	closed      bool
	addr        string // of the listener, kept for Restart
	run         *run   // nil while stopped
	hasRun      bool
	tree        *tree
	watches     *watches
	sessions    map[int64]*session
	nextSession int64
	freezes     []*freeze
	readOnly    bool // LoseQuorum is in force
	dialed      int  // the port of the latest client in memory
	accepted    int  // connections so far
	net         network
	journal     *journal // one for all servers of an ensemble
	scratch     encoder
	traffic     traffic
	held        int // bytes of memory, see hold
	checks      int // that the present request or transaction may still cost, see allowed
}

// run is the time between a start and a stop: its listener and its goroutines.
type run struct {
	listener net.Listener // nil without one
	stop     chan struct{}
	conns    map[*conn]struct{} // guarded by Server.mu
	wg       sync.WaitGroup
}

// beginRun listens and starts the goroutines that serve no single connection.
func (s *Server) beginRun() error {
	r := &run{stop: make(chan struct{}), conns: make(map[*conn]struct{})}
	if s.cfg.listen {
		l, err := listen(s.addr)
		if err != nil {
			return fmt.Errorf("zkserver: %w", err)
		}
		r.listener = l
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hasRun {
		s.commandf(0, "Restart")
	}
	s.run, s.hasRun = r, true
	for _, ss := range s.sessions {
		s.touch(ss)
	}
	if s.member != nil {
		s.member.started()
	}
	r.wg.Go(func() { s.keepTime(r) })
	if r.listener != nil {
		s.addr = r.listener.Addr().String()
		r.wg.Go(func() { s.accept(r) })
	}
	return nil
}

// listen is net.Listen, but replaces port 0 by one that stays free while the server is stopped.
func listen(addr string) (net.Listener, error) {
	if host, port, err := net.SplitHostPort(addr); err == nil && port == "0" {
		return freeport.Listen(host)
	}
	return net.Listen("tcp", addr)
}

// keepTime expires sessions at every tick and sweeps containers.
func (s *Server) keepTime(r *run) {
	due := s.nextTick()
	expiry := time.NewTimer(s.realTime(due - s.clock()))
	defer expiry.Stop()
	containers := time.NewTicker(s.cfg.containerCheck)
	defer containers.Stop()
	for {
		select {
		case <-expiry.C:
			s.expireSessions(due)
			due = s.nextTick()
			expiry.Reset(s.realTime(due - s.clock()))
		case <-containers.C:
			s.sweep()
		case <-r.stop:
			return
		}
	}
}

// acceptRetry is the pause after a failed Accept, say for lack of file descriptors.
const acceptRetry = 10 * time.Millisecond

func (s *Server) accept(r *run) {
	for {
		nc, err := r.listener.Accept()
		switch {
		case err == nil:
			s.ServeConn(nc)
		case errors.Is(err, net.ErrClosed):
			return
		default:
			s.log.Warn("accept failed", "error", err)
			select {
			case <-time.After(acceptRetry):
			case <-r.stop:
				return
			}
		}
	}
}

// ServeConn serves a connection that comes neither from the listener nor from [Server.Dial], such as an end of a
// net.Pipe. It returns at once. The server owns nc from then on. It closes nc when the connection ends or the server
// is stopped or closed, and at once if the server already is.
func (s *Server) ServeConn(nc net.Conn) { s.serveConn(nc) }

// serveConn is ServeConn and reports whether the connection is served.
func (s *Server) serveConn(nc net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run == nil {
		refuse(nc)
		return false
	}
	if s.cfg.secure != nil {
		nc = s.cfg.secure(nc)
	}
	r, c := s.run, newConn(s, nc)
	if why := s.refuses(c); why != "" {
		s.noteConn(Refused, c, why)
		refuse(nc)
		return false
	}
	s.noteConn(Accepted, c, c.remote())
	r.conns[c] = struct{}{}
	s.hold(c, connFootprint)
	r.wg.Go(c.readLoop)
	r.wg.Go(func() {
		c.writeLoop()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.detach(c)
		delete(r.conns, c)
		s.release(c)
	})
	return true
}

// Addr returns the address that the server listens on, or last listened on, as host:port. It is empty for a server
// without a listener.
func (s *Server) Addr() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.cfg.listen {
		return ""
	}
	return s.addr
}

// Stop stops listening and cuts all connections, but keeps data and sessions, as when the process of a ZooKeeper server
// is stopped. No session expires until [Server.Restart]. It waits for the goroutines of the server. Stopping a stopped
// server does nothing; a closed one returns [ErrClosed].
func (s *Server) Stop() error {
	s.lifecycle.Lock()
	defer s.lifecycle.Unlock()
	if s.isClosed() {
		return ErrClosed
	}
	return s.endRun()
}

// Restart serves again after [Server.Stop], on the same address, and gives every session its full timeout again,
// as a new leader does. It does nothing if the server runs, and returns [ErrClosed] if it is closed. It fails if
// the address has been taken in the meantime; the caller may then call it again.
func (s *Server) Restart() error {
	s.lifecycle.Lock()
	defer s.lifecycle.Unlock()
	s.mu.Lock()
	closed, running := s.closed, s.run != nil
	s.mu.Unlock()
	switch {
	case closed:
		return ErrClosed
	case running:
		return nil
	}
	return s.beginRun()
}

// Close stops the server for good and waits for all its goroutines. Closing it again does nothing and returns nil.
func (s *Server) Close() error {
	s.lifecycle.Lock()
	defer s.lifecycle.Unlock()
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	return s.endRun()
}

func (s *Server) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// endRun ends the current run, if there is one, and waits for its goroutines.
func (s *Server) endRun() error {
	s.mu.Lock()
	r := s.run
	s.run = nil
	var conns []*conn
	if r != nil {
		s.commandf(0, "Stop")
		for c := range r.conns {
			s.detach(c)
			conns = append(conns, c)
		}
		if s.member != nil {
			s.member.stopped()
		}
	}
	s.mu.Unlock()
	if r == nil {
		return nil
	}
	close(r.stop)
	var err error
	if r.listener != nil {
		err = r.listener.Close()
	}
	for _, c := range conns {
		c.abort()
	}
	r.wg.Wait()
	if err != nil {
		return fmt.Errorf("zkserver: %w", err)
	}
	return nil
}

// begin opens a transaction with its own zxid. The zxid is used up even when the transaction fails or the request
// is malformed.
func (s *Server) begin() *txn {
	s.tree.zxid++
	s.checks = maxChecks
	return &txn{
		tree: s.tree, watches: s.watches,
		zxid: s.tree.zxid, now: s.now(),
		sasl: s.cfg.saslUsers != nil, keeper: s.cfg.keeper,
		wraps: !s.cfg.version.atLeast(serverVersion{3, 6, 0}),
	}
}

// now is the time of a transaction, in milliseconds since the Unix epoch. In an ensemble it is the leader's.
func (s *Server) now() int64 {
	if s.member != nil && s.member.applying != nil {
		return s.member.applying.time
	}
	return time.Now().UnixMilli()
}

// detach makes the server forget a connection: its watches go, it belongs to no session, and its requests are
// ignored.
func (s *Server) detach(c *conn) {
	if !c.attached {
		return
	}
	c.attached = false
	c.held, c.pending = nil, nil
	s.watches.drop(c)
	if c.session.conn == c {
		c.session.conn = nil
	}
}

// drop ends a connection as a failure of the network does: what is queued for its client is lost.
func (s *Server) drop(c *conn, why string) {
	s.noteConn(Ended, c, why)
	s.detach(c)
	c.finish(dropQueued)
}

// cut detaches a connection and closes it once what was queued for its client is sent.
func (s *Server) cut(c *conn) {
	s.detach(c)
	c.finish(sendQueued)
}

// elect ends all connections, as a server does when it looks for a leader.
func (s *Server) elect() {
	for _, c := range s.connsOf(0) {
		s.drop(c, "the quorum has changed")
	}
}

// conns lists the connections that are not ended.
func (s *Server) conns() []*conn {
	if s.run == nil {
		return nil
	}
	list := make([]*conn, 0, len(s.run.conns))
	for c := range s.run.conns {
		if !c.isEnded() {
			list = append(list, c)
		}
	}
	return list
}

func (s *Server) note(e Event) {
	j := s.journal
	j.last++
	e.Seq, e.At = j.last, time.Since(s.created)
	if s.member != nil {
		e.Server = s.member.id
	}
	j.add(e)
	if j.added != nil {
		close(j.added)
		j.added = nil
	}
}

// noteConn adds an event about a connection and the session that it has or asks for.
func (s *Server) noteConn(kind EventKind, c *conn, detail string) {
	s.note(Event{Kind: kind, Conn: c.number, SessionID: c.claims, Detail: detail})
}

func (s *Server) noteRequest(kind EventKind, c *conn, r Request) {
	s.note(Event{Kind: kind, Conn: c.number, SessionID: c.claims, Request: r})
}

// commandf notes a call of a method.
func (s *Server) commandf(sessionID int64, format string, args ...any) {
	s.note(Event{Kind: Commanded, SessionID: sessionID, Detail: fmt.Sprintf(format, args...)})
}

// takeBack returns a function that ends what a call has put in force, and notes that. Calling it again does nothing.
func (s *Server) takeBack(sessionID int64, what string, back func()) func() {
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.note(Event{Kind: Commanded, SessionID: sessionID, Detail: what})
		back()
	})
}
