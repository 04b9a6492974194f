// SPDX-License-Identifier: Apache-2.0

package zkserver

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
)

// adminCommands are the four-letter words: sent alone as the first bytes of a connection, each is answered with text and
// the end of the connection. All are allowed, unlike on a ZooKeeper server that was not told to.
var adminCommands = map[string]func(*Server, *bytes.Buffer){
	"ruok": (*Server).adminOK,
	"srvr": (*Server).adminServer,
	"stat": (*Server).adminStat,
	"mntr": (*Server).adminMonitor,
	"cons": (*Server).adminConns,
	"dump": (*Server).adminDump,
	"conf": (*Server).adminConf,
	"envi": (*Server).adminEnv,
	"isro": (*Server).adminReadOnly,
	"wchs": (*Server).adminWatches,
	"wchp": (*Server).adminWatchesByPath,
	"wchc": (*Server).adminWatchesBySession,
	"srst": (*Server).adminResetStats,
	"crst": (*Server).adminResetConns,
}

func (s *Server) adminOK(out *bytes.Buffer) { out.WriteString("imok") }

func (s *Server) adminReadOnly(out *bytes.Buffer) {
	if s.readOnly {
		out.WriteString("ro")
		return
	}
	out.WriteString("rw")
}

// mode is the server's mode, as srvr and mntr report it.
func (s *Server) mode() string {
	switch {
	case s.readOnly:
		return "read-only"
	case s.member != nil && s.member.isLeading():
		return "leader"
	case s.member != nil && !s.member.votes():
		return "observer"
	case s.member != nil:
		return "follower"
	}
	return "standalone"
}

// fullVersion has the form that clients parse: version, build, date. The date was written in another way before 3.7.
func (s *Server) fullVersion() string {
	if s.cfg.keeper {
		return keeperVersion
	}
	built := "2022-02-25 08:49 UTC"
	if !s.cfg.version.atLeast(serverVersion{3, 7, 0}) {
		built = "02/25/2022 08:49 GMT"
	}
	return s.cfg.version.String() + "-zkserver, built on " + built
}

func (s *Server) product() string {
	if s.cfg.keeper {
		return "ClickHouse Keeper"
	}
	return "Zookeeper"
}

func (s *Server) adminServer(out *bytes.Buffer) {
	fmt.Fprintf(out, "%s version: %s\n", s.product(), s.fullVersion())
	s.adminSummary(out)
}

func (s *Server) adminStat(out *bytes.Buffer) {
	fmt.Fprintf(out, "%s version: %s\nClients:\n", s.product(), s.fullVersion())
	for _, c := range s.connsOf(0) {
		fmt.Fprintf(out, " %s)\n", c.brief())
	}
	out.WriteByte('\n')
	s.adminSummary(out)
}

func (s *Server) adminSummary(out *bytes.Buffer) {
	l := s.traffic.latency
	fmt.Fprintf(out, "Latency min/avg/max: %d/%s/%d\n", l.least, l.average(), l.most)
	fmt.Fprintf(out, "Received: %d\nSent: %d\n", s.traffic.received, s.traffic.sent)
	fmt.Fprintf(out, "Connections: %d\nOutstanding: 0\n", len(s.conns()))
	fmt.Fprintf(out, "Zxid: %s\nMode: %s\nNode count: %d\n", hexID(s.tree.zxid), s.mode(), s.tree.znodeCount())
}

// adminMonitor lists the metrics of a standalone server that make sense for one in memory, one a line, after a tab.
func (s *Server) adminMonitor(out *bytes.Buffer) {
	l := s.traffic.latency
	for _, m := range []struct {
		key   string
		value any
	}{
		{"version", s.fullVersion()},
		{"server_state", s.mode()},
		{"ephemerals_count", s.tree.ephemeralCount()},
		{"num_alive_connections", len(s.conns())},
		{"avg_latency", l.average()},
		{"outstanding_requests", 0},
		{"znode_count", s.tree.znodeCount()},
		{"global_sessions", len(s.sessions)},
		{"packets_sent", s.traffic.sent},
		{"packets_received", s.traffic.received},
		{"watch_count", s.watches.count()},
		{"min_latency", l.least},
		{"max_latency", l.most},
		{"approximate_data_size", s.tree.dataSize},
		{"local_sessions", 0},
		{"uptime", s.clock().Milliseconds()},
	} {
		fmt.Fprintf(out, "zk_%s\t%v\n", m.key, m.value)
	}
}

func (s *Server) adminConf(out *bytes.Buffer) {
	port := s.addr[strings.LastIndexByte(s.addr, ':')+1:]
	fmt.Fprintf(out, "clientPort=%s\nsecureClientPort=-1\n", port)
	out.WriteString("dataDir=\ndataDirSize=0\ndataLogDir=\ndataLogSize=0\n")
	fmt.Fprintf(out, "tickTime=%d\nmaxClientCnxns=%d\n", s.cfg.tick.Milliseconds(), s.cfg.maxClients)
	fmt.Fprintf(out, "minSessionTimeout=%d\nmaxSessionTimeout=%d\nclientPortListenBacklog=-1\nserverId=0\n",
		s.cfg.minTimeout.Milliseconds(), s.cfg.maxTimeout.Milliseconds())
}

func (s *Server) adminEnv(out *bytes.Buffer) {
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	fmt.Fprintf(out, "Environment:\nzookeeper.version=%s\nhost.name=%s\nos.name=%s\nos.arch=%s\n",
		s.fullVersion(), host, runtime.GOOS, runtime.GOARCH)
}

// The three commands about watches show the data watches alone, as ZooKeeper's do.

func (s *Server) adminWatches(out *bytes.Buffer) {
	t := s.watches.data
	fmt.Fprintf(out, "%d connections watching %d paths\nTotal watches:%d\n", len(t.byConn), len(t.byPath), t.count())
}

func (s *Server) adminWatchesByPath(out *bytes.Buffer) {
	t := s.watches.data
	for _, path := range slices.Sorted(maps.Keys(t.byPath)) {
		fmt.Fprintf(out, "%s\n", path)
		for _, c := range slices.SortedFunc(maps.Keys(t.byPath[path]), bySession) {
			fmt.Fprintf(out, "\t%s\n", hexID(c.sessionID()))
		}
	}
	out.WriteByte('\n')
}

func (s *Server) adminWatchesBySession(out *bytes.Buffer) {
	t := s.watches.data
	for _, c := range slices.SortedFunc(maps.Keys(t.byConn), bySession) {
		fmt.Fprintf(out, "%s\n", hexID(c.sessionID()))
		for _, path := range slices.Sorted(maps.Keys(t.byConn[c])) {
			fmt.Fprintf(out, "\t%s\n", path)
		}
	}
	out.WriteByte('\n')
}
