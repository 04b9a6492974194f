// SPDX-License-Identifier: Apache-2.0

package zkserver

import (
	"math"
	"strconv"
	"time"
)

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

	// Of the request of a connection that was answered last.
	lastOp     string        // see statName
	lastXid    int32         // of the last that its client gave a number, -1 for none
	lastZxid   int64         // of the last transaction by then
	lastAnswer time.Duration // when, on the server's clock
}

func newTraffic() traffic {
	return traffic{lastOp: "NA", lastXid: -1, lastZxid: -1}
}

// latency sums up how long requests took, in whole milliseconds, as ZooKeeper counts it.
type latency struct {
	count, total, least, most, last int64
}

func (l *latency) add(d time.Duration) {
	ms := d.Milliseconds()
	if l.count == 0 || ms < l.least {
		l.least = ms
	}
	l.most = max(l.most, ms)
	l.last = ms
	l.total += ms
	l.count++
}

// average has up to four decimals, and at least one.
func (l *latency) average() string {
	mean := math.Round(1e4*float64(l.total)/float64(max(l.count, 1))) / 1e4
	if mean == math.Trunc(mean) {
		return strconv.FormatFloat(mean, 'f', 1, 64)
	}
	return strconv.FormatFloat(mean, 'f', -1, 64)
}

func (s *Server) received(c *conn) {
	s.traffic.received++
	c.traffic.received++
}

// answered notes that the answer to a request has gone out, and how long that took. Credentials do not count.
func (s *Server) answered(c *conn, r request, err code, arrived time.Time) {
	if operations[r.op].stat == "" {
		return
	}
	took := time.Since(arrived)
	s.traffic.latency.add(took)
	t := &c.traffic
	t.latency.add(took)
	t.lastOp = statName(r.op, err)
	if r.xid >= 0 { // the others are what clients do for themselves
		t.lastXid = r.xid
	}
	t.lastZxid, t.lastAnswer = s.tree.zxid, s.clock()
}
