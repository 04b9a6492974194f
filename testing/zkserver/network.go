// SPDX-License-Identifier: Apache-2.0

package zkserver

import (
	"fmt"
	"net"
	"slices"
	"time"
)

// network is what is wrong with the network between the server and its clients. Server.mu guards it.
type network struct {
	holes     []*hole
	throttles []*throttle
	refusals  int           // how many calls of Refuse are in force
	cuts      map[int64]int // session id -> how many connections to cut that are to come
}

// throttle bounds the rate of the connections of one session, or of all (id 0).
type throttle struct {
	session int64
	rate    int // bytes per second
}

// Cut ends the connection of a session, or with id 0 all connections, as a network failure does. Bytes that are
// queued for the client are lost, and sessions go on. If times is greater than 1, the next connections of the same
// clients are cut as well, each right after its handshake, until this number of connections was cut. So a client
// loses its connection again before it has recovered. Cut returns how many connections it cut at once.
func (s *Server) Cut(sessionID int64, times int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.commandf(sessionID, "Cut %d times", times)
	n := 0
	for _, c := range s.connsOf(sessionID) {
		if c.attached && times > 1 {
			s.net.cuts[c.claims] = times - 1
		}
		s.drop(c, "Cut")
		n++
	}
	return n
}

// cutAgain cuts a connection after its handshake if Cut has asked for that.
func (s *Server) cutAgain(c *conn) {
	left := s.net.cuts[c.claims]
	if left == 0 {
		return
	}
	if left--; left == 0 {
		delete(s.net.cuts, c.claims)
	} else {
		s.net.cuts[c.claims] = left
	}
	s.noteConn(Ended, c, fmt.Sprintf("Cut, %d more to come", left))
	s.cut(c)
}

// Refuse turns new connections away until allow is called. Existing connections go on. With several calls in
// force, each must be taken back. Calling allow again does nothing.
func (s *Server) Refuse() (allow func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.commandf(0, "Refuse")
	s.net.refusals++
	return s.takeBack(0, "Refuse: allow", func() { s.net.refusals-- })
}

// Throttle bounds how many bytes a second travel in each direction of one session's connections, or with id 0 of each
// connection, until restore is called. Of several throttles of one session the oldest counts. It panics if the rate is
// not positive.
func (s *Server) Throttle(sessionID int64, bytesPerSecond int) (restore func()) {
	if bytesPerSecond <= 0 {
		panic(fmt.Sprintf("zkserver: throttle of %d bytes per second: more than 0 expected", bytesPerSecond))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.commandf(sessionID, "Throttle %d", bytesPerSecond)
	t := &throttle{session: sessionID, rate: bytesPerSecond}
	s.net.throttles = append(s.net.throttles, t)
	s.throttled.Store(true)
	return s.takeBack(sessionID, fmt.Sprintf("Throttle %d: restore", bytesPerSecond), func() {
		s.net.throttles = slices.DeleteFunc(s.net.throttles, func(other *throttle) bool { return other == t })
		s.throttled.Store(len(s.net.throttles) > 0)
	})
}

// pace returns how many of n bytes may travel next, and how long they take. Without a throttle it needs no lock: a
// request that has arrived must not wait for one before [conn.awaits] says so.
func (s *Server) pace(c *conn, n int) (int, time.Duration) {
	if !s.throttled.Load() {
		return n, 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.net.throttles {
		if t.session == 0 || t.session == c.claims {
			n = min(n, max(1, t.rate/50))
			return n, time.Duration(n) * time.Second / time.Duration(t.rate)
		}
	}
	return n, 0
}

// Send sends unrequested bytes to the client of a session: garbage, or a frame that starts with its own length in
// four bytes. It returns false if the session has no connection.
func (s *Server) Send(sessionID int64, raw []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.commandf(sessionID, "Send %d bytes", len(raw))
	ss := s.sessions[sessionID]
	if ss == nil || ss.conn == nil {
		return false
	}
	s.reply(ss.conn, raw)
	return true
}

// connsOf lists the connections that have, or ask for, a session, in the order in which they came: with id 0 all.
func (s *Server) connsOf(sessionID int64) []*conn {
	list := slices.DeleteFunc(s.conns(), func(c *conn) bool { return sessionID != 0 && c.claims != sessionID })
	slices.SortFunc(list, func(a, b *conn) int { return a.number - b.number })
	return list
}

// refuses returns why a new connection is turned away, or "" if it is accepted.
func (s *Server) refuses(c *conn) (why string) {
	if s.net.refusals > 0 {
		return "Refuse"
	}
	if limit := s.cfg.maxClients; limit > 0 {
		from := c.host()
		if same := len(slices.DeleteFunc(s.conns(), func(other *conn) bool { return other.host() != from })); same >= limit {
			return fmt.Sprintf("%s has %d connections", from, same)
		}
	}
	return ""
}

// refuse closes a connection at once, with a reset where there is such a thing.
func refuse(nc net.Conn) {
	if tcp, ok := nc.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // fails only on a closed connection
	}
	_ = nc.Close() // a refusal has no caller to report to
}
