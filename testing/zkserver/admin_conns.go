// SPDX-License-Identifier: Apache-2.0

package zkserver

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

func (s *Server) adminConns(out *bytes.Buffer) {
	for _, c := range s.connsOf(0) {
		fmt.Fprintf(out, " %s", c.brief())
		if t := c.traffic; c.session != nil {
			fmt.Fprintf(out, ",sid=%s,lop=%s,est=%d,to=%d",
				hexID(c.session.id), t.lastOp, c.established.UnixMilli(), c.session.timeout.Milliseconds())
			if t.lastXid >= 0 {
				fmt.Fprintf(out, ",lcxid=0x%x", t.lastXid)
			}
			l := t.latency
			fmt.Fprintf(out, ",lzxid=%s,lresp=%d,llat=%d,minlat=%d,avglat=%d,maxlat=%d", hexID(t.lastZxid),
				t.lastAnswer.Milliseconds(), l.last, l.least, l.total/max(l.count, 1), l.most)
		}
		out.WriteString(")\n")
	}
	out.WriteByte('\n')
}

// brief begins with what ZooKeeper waits for on the connection. 1 means more requests, even though a four-letter
// word is the last one.
func (c *conn) brief() string {
	interest := 1
	if c.word {
		interest = 0
	}
	return fmt.Sprintf("/%s[%d](queued=0,recved=%d,sent=%d", c.remote(), interest, c.traffic.received, c.traffic.sent)
}

func (s *Server) adminDump(out *bytes.Buffer) {
	s.adminDumpSessions(out)
	fmt.Fprintf(out, "ephemeral nodes dump:\nSessions with Ephemerals (%d):\n", len(s.tree.ephemerals))
	for _, id := range slices.Sorted(maps.Keys(s.tree.ephemerals)) {
		fmt.Fprintf(out, "%s:\n", hexID(id))
		for _, path := range s.tree.ephemeralsOf(id) {
			fmt.Fprintf(out, "\t%s\n", path)
		}
	}
	s.adminDumpConns(out)
}

// adminDumpSessions shows together what expires together. A follower or an observer does not know when that is.
func (s *Server) adminDumpSessions(out *bytes.Buffer) {
	if s.member != nil && !s.member.isLeading() {
		fmt.Fprintf(out, "SessionTracker dump:\nGlobal Sessions(%d):\n", len(s.sessions))
		for _, id := range slices.Sorted(maps.Keys(s.sessions)) {
			fmt.Fprintf(out, "%s\t%dms\n", hexID(id), s.sessions[id].timeout.Milliseconds())
		}
		return
	}
	sets := make(map[time.Duration][]int64)
	for _, id := range slices.Sorted(maps.Keys(s.sessions)) {
		at := s.sessions[id].expires
		sets[at] = append(sets[at], id)
	}
	fmt.Fprintf(out, "SessionTracker dump:\nSession Sets (%d)/(%d):\n", len(sets), len(s.sessions))
	for _, at := range slices.Sorted(maps.Keys(sets)) {
		s.adminExpiry(out, at, len(sets[at]))
		for _, id := range sets[at] {
			fmt.Fprintf(out, "\t%s\n", hexID(id))
		}
	}
}

// sessionlessTimeout is how long ZooKeeper leaves a connection alone that has no session, and what it rounds the expiry of
// all connections up to (zookeeper.nio.sessionlessCnxnTimeout). Here it is for show.
const sessionlessTimeout = 10 * time.Second

func (s *Server) adminDumpConns(out *bytes.Buffer) {
	all, sets := s.connsOf(0), make(map[time.Duration][]*conn)
	for _, c := range all {
		at := s.clock() + sessionlessTimeout
		if c.session != nil {
			at = c.session.expires
		}
		at = at.Truncate(sessionlessTimeout) + sessionlessTimeout
		sets[at] = append(sets[at], c)
	}
	fmt.Fprintf(out, "Connections dump:\nConnections Sets (%d)/(%d):\n", len(sets), len(all))
	for _, at := range slices.Sorted(maps.Keys(sets)) {
		s.adminExpiry(out, at, len(sets[at]))
		for _, c := range sets[at] {
			fmt.Fprintf(out, "\tip: /%s sessionId: %s\n", c.remote(), hexID(c.sessionID()))
		}
	}
}

// adminExpiry heads those that expire together.
func (s *Server) adminExpiry(out *bytes.Buffer, at time.Duration, n int) {
	fmt.Fprintf(out, "%d expire at %s:\n", n, s.created.Add(at).UTC().Format(time.UnixDate))
}

func (s *Server) adminResetStats(out *bytes.Buffer) {
	s.traffic = traffic{}
	out.WriteString("Server stats reset.\n")
}

func (s *Server) adminResetConns(out *bytes.Buffer) {
	for _, c := range s.connsOf(0) {
		c.traffic = newTraffic()
	}
	out.WriteString("Connection stats reset.\n")
}

func bySession(a, b watcher) int { return cmp.Compare(a.sessionID(), b.sessionID()) }
