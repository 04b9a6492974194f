package zkserver

import "time"

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

// traffic counts what went through a connection, or through all. Server.mu guards it.
type traffic struct {
	received, sent int64
	latency        latency

	lastOp  OpCode // of a connection
	lastXid int32
}

// latency sums up how long requests took, in whole milliseconds, as ZooKeeper counts it.
type latency struct {
	count, total, least, most int64
}

func (l *latency) add(d time.Duration) {
	ms := d.Milliseconds()
	if l.count == 0 || ms < l.least {
		l.least = ms
	}
	l.most = max(l.most, ms)
	l.total += ms
	l.count++
}

func (l *latency) average() float64 {
	return float64(l.total) / float64(max(l.count, 1))
}

// received counts a request.
func (s *Server) received(c *conn) {
	s.traffic.received++
	c.traffic.received++
}

// answered counts the time that a request took.
func (s *Server) answered(c *conn, arrived time.Time) {
	took := time.Since(arrived)
	s.traffic.latency.add(took)
	c.traffic.latency.add(took)
}
