package zkserver

// CutOff makes the connection of a session that of a follower which has lost its leader and has not noticed yet, until
// rejoin is called: it answers pings and reads, from the data of this moment, and what needs the leader, writes and
// sync, stays without an answer, and so does everything that its client sends after that. The session hears nothing of
// it: it expires although its pings are acknowledged, and the connection is not told. Other connections, also those with
// which the client comes back, are on the side of the leader.
//
// A follower of ZooKeeper gives up after syncLimit ticks; rejoin is that moment, and ends the connection. Calling it
// again does nothing. CutOff of a session without a connection does nothing either. It copies the tree.
func (s *Server) CutOff(sessionID int64) (rejoin func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.commandf(sessionID, "CutOff")
	ss := s.sessions[sessionID]
	if ss == nil || ss.conn == nil {
		return func() {}
	}
	c := ss.conn
	c.cutOff = &freeze{session: sessionID, tree: s.view(c).snapshot()}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if c.attached {
			s.commandf(sessionID, "CutOff: rejoin")
			s.noteConn(Ended, c, "CutOff is over")
			s.cut(c)
		}
	}
}

// isStuck tells whether a request on a connection that is cut off gets no answer. Answers come in the order of requests:
// one that is missing holds back all after it.
func (c *conn) isStuck(op OpCode) bool {
	if c.cutOff == nil {
		return false
	}
	if op.needsLeader() || op == OpCloseSession {
		c.stuck = true
	}
	return c.stuck
}
