// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"context"
	"encoding/binary"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// resolvesAll is the address of the DNS server that resolveAll has started, nil for those of the machine.
var resolvesAll = serveNames()

// serveNames changes the resolver once, before any client: a goroutine of a closed client may still read it.
func serveNames() *atomic.Pointer[string] {
	var server atomic.Pointer[string]
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		if ours := server.Load(); ours != nil {
			network, address = "udp", *ours
		}
		return new(net.Dialer).DialContext(ctx, network, address)
	}}
	return &server
}

// resolveAll makes every name resolve to these IPv4 addresses until the test ends. Such a test must not be parallel.
func resolveAll(t *testing.T, ips ...string) {
	t.Helper()
	const header, typeAndClass, typeA = 12, 4, 1
	conn := must.Get(net.ListenPacket("udp", "127.0.0.1:0"))(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		question := make([]byte, 512)
		for {
			n, from, err := conn.ReadFrom(question)
			if err != nil {
				return
			}
			end := header
			for end < n && question[end] != 0 {
				end += int(question[end]) + 1
			}
			end += 1 + typeAndClass
			answer := append([]byte{}, question[:end]...)
			copy(answer[2:header], []byte{0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0}) // a reply to one question
			if binary.BigEndian.Uint16(question[end-typeAndClass:]) == typeA {
				answer[7] = byte(len(ips))
				for _, ip := range ips {
					answer = append(answer, 0xc0, header, 0, typeA, 0, 1, 0, 0, 0, 1, 0, 4) // the name, for a second
					answer = append(answer, net.ParseIP(ip).To4()...)
				}
			}
			_, _ = conn.WriteTo(answer, from) // the resolver asks again
		}
	}()
	address := conn.LocalAddr().String()
	resolvesAll.Store(&address)
	t.Cleanup(func() {
		resolvesAll.Store(nil)
		require.NoError(t, conn.Close())
		<-done
	})
}

// byListAndByName runs a test with two addresses of a port, by a list and by one name.
func byListAndByName(t *testing.T, test func(t *testing.T, servers func(port string) string)) {
	t.Helper()
	t.Run("a list", func(t *testing.T) {
		test(t, func(port string) string { return "127.0.0.1:" + port + ",127.0.0.2:" + port })
	})
	t.Run("one name", func(t *testing.T) {
		resolveAll(t, "127.0.0.1", "127.0.0.2")
		test(t, func(port string) string { return "zk.test:" + port })
	})
}

// TestConnectToServersThatDiffer finds the one that takes the client, whether the servers are a list or have one name. Both addresses are of
// one server, so that they share sessions.
func TestConnectToServersThatDiffer(t *testing.T) {
	mine := []zkserver.Option{zkserver.WithSASLUsers(saslUsers), zkserver.WithRequireClientAuthScheme("sasl")}
	for name, refusal := range map[string]zkserver.Fault{"another password": zkserver.FailWith(-115), "no SASL": zkserver.FailWith(-6)} {
		t.Run(name, func(t *testing.T) {
			byListAndByName(t, func(t *testing.T, servers func(port string) string) {
				server := zktest.NewServer(t, append([]zkserver.Option{zkserver.WithAddr("0.0.0.0:0")}, mine...)...)
				_, port, err := net.SplitHostPort(server.Addr())
				require.NoError(t, err)
				server.Intercept(zkserver.Nth(1, zkserver.OpSASL, refusal))
				f := must.Get(framework.Connect(t.Context(), servers(port), framework.WithSASL(framework.DigestMD5("alice", "wonderland"))))(t)
				require.NoError(t, f.Close())
			})
		})
	}
	t.Run("none takes it", func(t *testing.T) {
		byListAndByName(t, func(t *testing.T, servers func(port string) string) {
			server := zktest.NewServer(t, append([]zkserver.Option{zkserver.WithAddr("0.0.0.0:0")}, mine...)...)
			_, port, err := net.SplitHostPort(server.Addr())
			require.NoError(t, err)
			log, said := warnings()
			var exchanges atomic.Int32
			server.Intercept(func(r zkserver.Request) zkserver.Fault {
				if r.Op == zkserver.OpSASL {
					exchanges.Add(1)
				}
				return zkserver.Pass
			})
			_, err = framework.Connect(t.Context(), servers(port), framework.WithLogger(log),
				framework.WithSASL(framework.DigestMD5("alice", "looking-glass")))
			require.ErrorIs(t, err, framework.ErrAuthFailed)
			require.EqualValues(t, 4, exchanges.Load(), "two requests for each address")
			for _, line := range said() {
				require.True(t, strings.HasPrefix(line, "zookeeper authentication failed"), line)
			}
		})
	})
}

// TestOneRefusalOfAClientThatRuns costs it neither its session nor an end, and one line of the log.
func TestOneRefusalOfAClientThatRuns(t *testing.T) {
	for name, option := range map[string]struct {
		op     zkserver.OpCode
		client framework.Option
	}{
		"SASL":       {zkserver.OpSASL, framework.WithSASL(framework.DigestMD5("alice", "wonderland"))},
		"credential": {zkserver.OpAuth, framework.WithAuth("digest", []byte("alice:wonderland"))},
	} {
		t.Run(name, func(t *testing.T) {
			byListAndByName(t, func(t *testing.T, servers func(port string) string) {
				server := zktest.NewServer(t, zkserver.WithAddr("0.0.0.0:0"), zkserver.WithSASLUsers(saslUsers))
				_, port, err := net.SplitHostPort(server.Addr())
				require.NoError(t, err)
				said := &safeBuffer{}
				f := zktest.Client(t, servers(port), option.client, framework.WithLogger(slog.New(slog.NewTextHandler(said, nil))))
				must.Get(f.Exists(t.Context(), "/"))(t)
				session := f.Session()
				for range 2 {
					server.Intercept(zkserver.Nth(1, option.op, zkserver.FailWith(-115)))
					server.Cut(session.ID(), 1)
					require.Eventually(t, func() bool {
						return strings.Contains(said.String(), "zookeeper authentication failed")
					}, patience, time.Millisecond)
					must.Get(f.Exists(t.Context(), "/"))(t)
					require.Same(t, session, f.Session())
				}
			})
		})
	}
}
