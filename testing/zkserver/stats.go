// SPDX-License-Identifier: Apache-2.0

package zkserver

// Stats counts what a server holds. A test that leaves nothing behind sees the same before and after.
type Stats struct {
	Znodes      int // as zk_znode_count of mntr: 5 on a new server, since ZooKeeper counts its root twice
	Watches     int // pairs of path and connection, in the tables of data and child watches, as zk_watch_count
	Ephemerals  int // ephemeral nodes
	Connections int // connections that have a session
	Sessions    int // sessions alive, connected or not
}

// Stats returns the counts of this moment.
func (s *Server) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := Stats{
		Znodes:     s.tree.znodeCount(),
		Watches:    s.watches.count(),
		Ephemerals: s.tree.ephemeralCount(),
		Sessions:   len(s.sessions),
	}
	for _, c := range s.conns() {
		if c.attached {
			st.Connections++
		}
	}
	return st
}
