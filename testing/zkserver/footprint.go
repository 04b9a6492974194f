// SPDX-License-Identifier: Apache-2.0

package zkserver

// What the server keeps in memory for its connections is counted: requests that have arrived in part, output that
// waits for a client to read it, watches, events held back and identities. The sum of that and of what sessions take
// stays below [WithMaxMemory]. Data of znodes and the log are not part of it.
const (
	// connFootprint is what every connection takes: the stacks of its goroutines, and its buffers at their smallest.
	connFootprint = 24 << 10

	// maxKept is how much memory of a request or an answer a connection keeps for the next one, so that a large one
	// does not leave its size behind.
	maxKept = 4 << 10

	// entryFootprint is what a watch, an event or an identity takes beside its text.
	entryFootprint = 300

	// sessionFootprint is what a session takes, with a connection or without. Sessions take half of the memory at
	// most: they last until they expire, so further ones are refused.
	sessionFootprint = 800
)

// heldBySessions is how many bytes sessions take.
func (s *Server) heldBySessions() int { return len(s.sessions) * sessionFootprint }

// hold counts n more bytes that the server keeps for c, or fewer if n is negative. If that makes too many, the
// connections with the most are cut, which may be c itself. It is called with Server.mu held.
func (s *Server) hold(c *conn, n int) {
	if c.released {
		return
	}
	c.holds += n
	s.held += n
	for s.held+s.heldBySessions() > s.cfg.maxMemory {
		if !s.cutLargest() {
			return
		}
	}
}

// holdText is hold for entries of a list, with their text.
func (c *conn) holdText(entries, text int) {
	c.srv.hold(c, entries*entryFootprint+text)
}

// release stops counting what is kept for c, which is ending.
func (s *Server) release(c *conn) {
	s.held -= c.holds
	c.holds, c.released = 0, true
}

// cutLargest cuts the connection that holds the most, and reports whether there was one. It closes the connection at
// once, because a farewell would need the memory that is short.
func (s *Server) cutLargest() bool {
	if s.run == nil {
		return false
	}
	var largest *conn
	for c := range s.run.conns {
		if !c.released && (largest == nil || c.holds > largest.holds) {
			largest = c
		}
	}
	if largest == nil {
		return false
	}
	s.log.Warn("connection cut: connections hold too much memory", "client", largest.remote(),
		"bytes", largest.holds, "all connections", s.held, "limit", s.cfg.maxMemory)
	s.noteConn(Ended, largest, "connections hold too much memory")
	s.release(largest)
	largest.abort()
	return true
}
