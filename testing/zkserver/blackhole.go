// SPDX-License-Identifier: Apache-2.0

package zkserver

import (
	"errors"
	"fmt"
	"slices"
)

// Direction is the way that bytes travel. Directions can be combined with |.
type Direction uint8

// The directions.
const (
	ToServer Direction = 1 << iota // requests
	ToClient                       // replies and events

	Both = ToServer | ToClient
)

// String returns the name of the constant.
func (d Direction) String() string {
	switch d {
	case ToServer:
		return "ToServer"
	case ToClient:
		return "ToClient"
	case Both:
		return "Both"
	default:
		return fmt.Sprintf("Direction(%d)", uint8(d))
	}
}

// hole is a black hole for one session, or for all (id 0).
type hole struct {
	session   int64
	direction Direction
	healed    chan struct{}
}

// Blackhole discards all bytes between the server and one session's connections, in one direction or both, until
// heal is called. With id 0 it does so for all connections. Neither side is notified, and neither learns that the
// other has hung up. Requests discarded ToServer reach no hook and do not keep the session alive, so it expires.
// New connections can be made. A new connection that asks for the session is silent as well.
//
// heal ends the connections that have lost something, because the rest of their streams would make no sense. Other
// connections go on. Calling heal again does nothing.
func (s *Server) Blackhole(sessionID int64, d Direction) (heal func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.commandf(sessionID, "Blackhole %v", d)
	h := &hole{session: sessionID, direction: d, healed: make(chan struct{})}
	s.net.holes = append(s.net.holes, h)
	return s.takeBack(sessionID, fmt.Sprintf("Blackhole %v: heal", d), func() { s.heal(h) })
}

func (s *Server) heal(h *hole) {
	s.net.holes = slices.DeleteFunc(s.net.holes, func(other *hole) bool { return other == h })
	close(h.healed)
	for _, c := range s.connsOf(h.session) {
		if c.lossy {
			s.drop(c, "lost something in a Blackhole")
		}
	}
}

// hole returns the black hole that c sends into or receives from, or nil.
func (s *Server) hole(c *conn, d Direction) *hole {
	for _, h := range s.net.holes {
		if h.direction&d != 0 && (h.session == 0 || h.session == c.claims) {
			return h
		}
	}
	return nil
}

// swallow reports whether a black hole discards what is described, and logs it.
func (s *Server) swallow(c *conn, d Direction, r Request, detail string) bool {
	if s.hole(c, d) == nil {
		return false
	}
	c.lossy = true
	s.note(Event{Kind: Swallowed, Conn: c.number, SessionID: c.claims, Request: r, Detail: detail})
	return true
}

// awaitVisible waits until the client of c can see what happens to the connection. It returns false if the
// connection is aborted first.
func (s *Server) awaitVisible(c *conn) bool {
	for {
		s.mu.Lock()
		h := s.hole(c, ToClient)
		s.mu.Unlock()
		if h == nil {
			return true
		}
		select {
		case <-h.healed:
		case <-c.aborted:
			return false
		}
	}
}

// hungUp notes that reading from a connection has ended with err, unless the client's farewell is lost on its way.
func (s *Server) hungUp(c *conn, err error) {
	s.mu.Lock()
	if !c.isEnded() && !errors.Is(err, errProtocol) && s.swallow(c, ToServer, Request{}, "end of stream") {
		s.mu.Unlock()
		<-c.ended
		s.mu.Lock()
	}
	defer s.mu.Unlock()
	if !c.isEnded() {
		s.noteConn(Ended, c, fmt.Sprint(err))
	}
	s.detach(c)
}
