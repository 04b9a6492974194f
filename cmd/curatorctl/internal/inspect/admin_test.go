// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
)

// wordless is a connection to a server with ZooKeeper's default settings: it allows srvr only.
type wordless struct {
	net.Conn

	answer *strings.Reader
}

func (c *wordless) Write(p []byte) (int, error) {
	c.answer = strings.NewReader(string(p) + " is not executed because it is not in the whitelist.\n")
	return len(p), nil
}

func (c *wordless) Read(p []byte) (int, error) { return c.answer.Read(p) }

func (c *wordless) Close() error { return nil }

// TestSessionsOfAdminServers: where the words are refused the admin server says the same. Its answers have the fields of ZooKeeper 3.8.
func TestSessionsOfAdminServers(t *testing.T) {
	const now = 1_795_900_000_000 // milliseconds
	said := map[string]string{
		"connections": `{"connections":[{"remote_socket_address":"10.0.0.7:4711","interest_ops":1,"outstanding_requests":0,"packets_received":8,"packets_sent":9,
			"session_id":72057594037927937,"last_operation":"PING","established":"2026-11-25T22:19:51.000+00:00","session_timeout":30000,"last_cxid":"0x1",
			"last_zxid":"0x2","last_response_time":20000,"last_latency":0,"min_latency":0,"avg_latency":0,"max_latency":4},
			{"remote_socket_address":"10.0.0.8:4712","packets_received":3,"session_id":72057594037927938,"session_timeout":6000,"last_response_time":16000}],
			"secure_connections":[],"command":"connections","error":null}`,
		"dump": fmt.Sprintf(`{"expiry_time_to_session_ids":{"%d":[72057594037927937,72057594037927938],"%d":[72057594037927939]},
			"session_id_to_ephemeral_paths":{"72057594037927939":["/locks/a"]},"command":"dump","error":null}`, now+30000, now+5000),
		"configuration": `{"client_port":2181,"data_dir":"/var/lib/zookeeper","tick_time":2000,"max_client_cnxns":60,"min_session_timeout":4000,
			"max_session_timeout":40000,"server_id":0,"command":"configuration","error":null}`,
	}
	admin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte(said[strings.TrimPrefix(r.URL.Path, "/commands/")]))
	}))
	defer admin.Close()
	host, port, err := net.SplitHostPort(admin.Listener.Addr().String())
	require.NoError(t, err)
	defer func(before string) { adminPort = before }(adminPort)
	adminPort = port
	client := must.Get(framework.New(net.JoinHostPort(host, "1"), framework.WithDialer(func(context.Context, string, string) (net.Conn, error) {
		return new(wordless), nil
	})))(t)
	defer client.Close()
	ask := func() told { return askSessions(t.Context(), client, net.JoinHostPort(host, "1"), false) }

	found := ask()
	require.NoError(t, found.missing)
	n := Census{Sessions: make(map[int64]*Session)}
	n.readAdmin("zk1:2181", found.admin)
	first, second, third := n.Sessions[72057594037927937], n.Sessions[72057594037927938], n.Sessions[72057594037927939]
	require.Equal(t, []any{"10.0.0.7:4711", "zk1:2181", 30000, 8, 0}, []any{first.Client, first.Server, first.Timeout, first.Renewals, first.Silence})
	require.Equal(t, 4000, second.Silence)
	require.Equal(t, "/locks/a", third.Ephemerals[0])
	require.True(t, time.UnixMilli(now+5000).Equal(third.expires))
	require.Equal(t, []string{"0", "2000"}, []string{found.admin.ServerID.String(), found.admin.TickTime.String()})
	require.Nil(t, askSessions(t.Context(), client, net.JoinHostPort(host, "1"), true).admin, "of servers on one host it is not known which has it")

	for _, other := range []string{"", "<html>a proxy</html>", `{"command":"dump","error":"no such command"}`, `{"command":"other","error":null}`} {
		said["dump"] = other
		found := ask()
		require.Nil(t, found.admin, other)
		require.ErrorIs(t, found.missing, errNotAllowed)
	}
	admin.Close()
	require.ErrorIs(t, ask().missing, errNotAllowed)
}
