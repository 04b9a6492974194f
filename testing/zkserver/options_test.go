// SPDX-License-Identifier: Apache-2.0

package zkserver_test

import (
	"crypto/tls"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/testing/zkserver"
)

func TestOptionsInvalidOptions(t *testing.T) {
	for name, tt := range map[string]struct {
		opts []zkserver.Option
		want string
	}{
		"tick":            {[]zkserver.Option{zkserver.WithTick(time.Microsecond)}, "zkserver: tick of 1µs: at least 1ms expected"},
		"negative bound":  {[]zkserver.Option{zkserver.WithSessionTimeouts(-1, 0)}, "session timeout bound of -1ns"},
		"bounds":          {[]zkserver.Option{zkserver.WithSessionTimeouts(time.Minute, time.Second)}, "1m0s is above the largest 1s"},
		"bound and tick":  {[]zkserver.Option{zkserver.WithSessionTimeouts(0, time.Millisecond)}, "1s is above the largest 1ms"},
		"container check": {[]zkserver.Option{zkserver.WithContainerCheckInterval(0)}, "container check interval of 0s"},
		"max frame":       {[]zkserver.Option{zkserver.WithMaxFrame(0)}, "largest frame of 0 bytes"},
		"logger":          {[]zkserver.Option{zkserver.WithLogger(nil)}, "nil logger"},
		"version":         {[]zkserver.Option{zkserver.WithVersion("3.8")}, `version "3.8"`},
		"version word":    {[]zkserver.Option{zkserver.WithVersion("3.x.0")}, `version "3.x.0"`},
		"nil":             {[]zkserver.Option{zkserver.WithTick(time.Second), nil}, "zkserver: option 2 of 2 is nil"},
		"TLS":             {[]zkserver.Option{zkserver.WithTLS(nil)}, "zkserver: nil TLS configuration"},
		"TLS certificate": {[]zkserver.Option{zkserver.WithTLS(&tls.Config{})}, "zkserver: TLS configuration without a certificate"},
		"super":           {[]zkserver.Option{zkserver.WithSuperDigest("super:secret")}, `zkserver: super digest "super:secret"`},
		"super's name":    {[]zkserver.Option{zkserver.WithSuperDigest(superDigest[len("super"):])}, "a name, a colon and"},
		"connections":     {[]zkserver.Option{zkserver.WithMaxClientConnections(-1)}, "zkserver: -1 connections from one address"},
		"address":         {[]zkserver.Option{zkserver.WithAddr("no port")}, "zkserver: listen tcp"},
	} {
		t.Run(name, func(t *testing.T) {
			srv, err := zkserver.Start(tt.opts...)
			require.ErrorContains(t, err, tt.want)
			require.Nil(t, srv)
		})
	}
}

func TestOptionsAddress(t *testing.T) {
	srv := start(t, zkserver.WithAddr("localhost:0"))
	host, port, err := net.SplitHostPort(srv.Addr())
	require.NoError(t, err)
	require.NotEmpty(t, host)
	number := must.Get(strconv.Atoi(port))(t)
	require.True(t, 0 < number && number < 32_768, "port %d: the system may give it to an outgoing connection while the server is stopped", number)

	_, err = zkserver.Start(zkserver.WithAddr(srv.Addr()))
	require.ErrorContains(t, err, "zkserver: listen tcp")

	require.Empty(t, start(t, zkserver.WithoutListener()).Addr())
}

func TestOptionsTimeoutIsMovedIntoBounds(t *testing.T) {
	for name, tt := range map[string]struct {
		opts       []zkserver.Option
		asked, got int32
	}{
		"default low":  {nil, 1, 1000},
		"default high": {nil, 60_000, 10_000},
		"inside":       {nil, 1234, 1234},
		"negative":     {nil, -5, 1000},
		"tick low":     {[]zkserver.Option{zkserver.WithTick(50 * time.Millisecond)}, 1, 100},
		"tick high":    {[]zkserver.Option{zkserver.WithTick(50 * time.Millisecond)}, 60_000, 1000},
		"bounds low":   {[]zkserver.Option{zkserver.WithSessionTimeouts(200*time.Millisecond, time.Minute)}, 1, 200},
		"bounds high":  {[]zkserver.Option{zkserver.WithSessionTimeouts(0, time.Minute)}, 70_000, 60_000},
	} {
		t.Run(name, func(t *testing.T) {
			srv := start(t, tt.opts...)
			require.Equal(t, tt.got, rawTo(t, srv, connection{timeoutMs: tt.asked}).timeout)
			require.Equal(t, time.Duration(tt.got)*time.Millisecond, srv.Sessions()[0].Timeout)
		})
	}
}

func TestOptionsMaxFrame(t *testing.T) {
	srv := start(t, zkserver.WithMaxFrame(200))
	c := rawTo(t, srv, connection{})
	c.must(t, 1, createBody("/a", "", 0))
	fits := 200 - 8 - 4 - len("/a") - 4 - 4
	c.must(t, 5, body{}.str("/a").str(string(make([]byte, fits))).int(-1))

	must.Get(c.send(5, body{}.str("/a").str(string(make([]byte, fits+1))).int(-1)))(t)
	c.hungUp(t)
}

func TestOptionsVersionDecidesWhatIsKnown(t *testing.T) {
	for version, unknown := range map[string][]int32{
		"3.4.14": {15, 19, 21, 17, 18, 16, 22, 103, 104, 105, 106, 107},
		"3.5.10": {22, 103, 104, 105, 106, 107},
		"3.6.4":  {107},
	} {
		srv := start(t, zkserver.WithVersion(version))
		require.Contains(t, must.Get(ask(srv.Addr(), "srvr"))(t), "Zookeeper version: "+version+"-")
		for _, op := range unknown {
			c := rawTo(t, srv, connection{})
			require.EqualValues(t, -6, c.code(t, op, body{}), "opcode %d on %s", op, version)
			c.hungUp(t)
		}
	}
	c := rawTo(t, start(t, zkserver.WithVersion("3.6.4")), connection{})
	c.must(t, 106, body{}.str("/x").int(0))
}
