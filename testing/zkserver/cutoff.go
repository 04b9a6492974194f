// SPDX-License-Identifier: Apache-2.0

package zkserver

// CutOff puts the connection of a session on a follower that has lost its leader without noticing, until rejoin is
// called. The follower answers pings and reads from the data of this moment. Writes and sync need the leader: they
// get no answer, and neither does any request after them. The session expires although its pings are acknowledged,
// and the connection is not notified. Other connections are on the leader's side, even new ones of the same
// client.
//
// A follower of ZooKeeper gives up after syncLimit ticks. rejoin is that moment and ends the connection. Calling
// it again does nothing. CutOff does nothing for a session without a connection. It copies the tree.
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
