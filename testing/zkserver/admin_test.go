// SPDX-License-Identifier: Apache-2.0

package zkserver_test

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/testing/zkserver"
)

// keysOf reads the answer to mntr.
func keysOf(tb testing.TB, addr string) map[string]string {
	tb.Helper()
	answer := must.Get(ask(addr, "mntr"))(tb)
	keys := make(map[string]string)
	for line := range strings.Lines(answer) {
		key, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		require.True(tb, ok, "line %q", line)
		keys[key] = value
	}
	return keys
}

func TestAdminCommands(t *testing.T) {
	srv := start(t, zkserver.WithTick(3*time.Second))
	c := rawTo(t, srv, connection{timeoutMs: 60_000})
	c.must(t, 1, createBody("/e", "", 1))
	c.must(t, 4, body{}.str("/e").flag(true))
	c.must(t, 8, body{}.str("/e").flag(true))
	id := "0x" + strconv.FormatInt(c.session, 16)
	local := regexp.QuoteMeta(c.nc.LocalAddr().String())
	_, port, _ := strings.Cut(srv.Addr(), ":")

	for command, want := range map[string]string{
		"ruok": `^imok$`,
		"isro": `^rw$`,
		"srvr": `^Zookeeper version: 3\.8\.0-.*, built on .*\nLatency min/avg/max: \d+/\d+\.\d{1,4}/\d+\n` +
			`Received: \d+\nSent: \d+\nConnections: 2\nOutstanding: 0\nZxid: 0x2\nMode: standalone\nNode count: 6\n$`,
		"stat": `(?s)^Zookeeper version: .*\nClients:\n.* /` + local + `\[1\]\(queued=0,recved=4,sent=4\)\n.*Latency.*Mode: standalone`,
		"cons": ` /` + local + `\[1\]\(queued=0,recved=4,sent=4,sid=` + id + `,lop=GETC,est=\d+,to=60000,lcxid=0x3,lzxid=0x2,`,
		"dump": `(?s)Session Sets \(1\)/\(1\):\n1 expire at .*:\n\t` + id + `\n.*Sessions with Ephemerals \(1\):\n` + id +
			`:\n\t/e\nConnections dump:\nConnections Sets \(2\)/\(2\):.*sessionId: ` + id,
		"conf": `(?s)^clientPort=` + port + `\n.*tickTime=3000\n.*minSessionTimeout=6000\nmaxSessionTimeout=60000\n.*serverId=0\n$`,
		"envi": `(?s)^Environment:\nzookeeper\.version=3\.8\.0-.*\nhost\.name=.*\nos\.name=`,
		"wchs": `^1 connections watching 1 paths\nTotal watches:1\n$`,
		"wchp": `^/e\n\t` + id + `\n\n$`,
		"wchc": `^` + id + `\n\t/e\n\n$`,
	} {
		require.Regexp(t, want, must.Get(ask(srv.Addr(), command))(t), command)
	}

	keys := keysOf(t, srv.Addr())
	for key, want := range map[string]string{
		"zk_server_state": "standalone", "zk_znode_count": "6", "zk_watch_count": "2", "zk_ephemerals_count": "1",
		"zk_num_alive_connections": "2", "zk_global_sessions": "1", "zk_local_sessions": "0", "zk_outstanding_requests": "0",
		"zk_approximate_data_size": "46",
	} {
		require.Equal(t, want, keys[key], key)
	}
	require.Contains(t, keys["zk_version"], "3.8.0")
	require.Contains(t, keys, "zk_packets_received")
	require.Contains(t, keys, "zk_packets_sent")
	require.Equal(t, zkserver.Stats{Znodes: 6, Watches: 2, Ephemerals: 1, Connections: 1, Sessions: 1}, srv.Stats())
}

// TestAdminCommandsBelongAtTheStart sends a word with a line feed, as a terminal does, and one after the handshake,
// where it is the length of an impossible frame.
func TestAdminCommandsBelongAtTheStart(t *testing.T) {
	srv := start(t)
	require.Equal(t, "imok", must.Get(ask(srv.Addr(), "ruok\n"))(t))
	c := rawTo(t, srv, connection{})
	must.Get(c.nc.Write([]byte("ruok")))(t)
	c.hungUp(t)
}

// compareKeys compares the keys of mntr with those of Apache ZooKeeper, and the counts that a new server starts with.
func compareKeys(t *testing.T, apacheAddr, ourAddr string) {
	t.Helper()
	apache, ours := keysOf(t, apacheAddr), keysOf(t, ourAddr)
	for key := range ours {
		require.Contains(t, apache, key)
	}
	for _, key := range []string{
		"zk_server_state", "zk_znode_count", "zk_watch_count", "zk_ephemerals_count", "zk_num_alive_connections",
		"zk_global_sessions", "zk_approximate_data_size", "zk_outstanding_requests", "zk_local_sessions",
	} {
		require.Equal(t, apache[key], ours[key], key)
	}
}
