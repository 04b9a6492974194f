// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// secureFront is a secure port before a server, until the end of the test.
func secureFront(t *testing.T, ca *authority, server string) (address string) {
	t.Helper()
	certificate := ca.issue(t, "server")
	front := must.Get(tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}))(t)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			near, err := front.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", server)
			if err != nil {
				_ = near.Close()
				continue
			}
			go func() { _, _ = io.Copy(far, near); _ = far.Close() }()
			go func() { _, _ = io.Copy(near, far); _ = near.Close() }()
		}
	}()
	t.Cleanup(func() {
		require.NoError(t, front.Close())
		<-ended
	})
	return front.Addr().String()
}

// TestTrackedAddressKeepsTLS: a tracker follows the configuration to the secure ports that the
// function names, and leaves out what it leaves out. A panic changes nothing.
func TestTrackedAddressKeepsTLS(t *testing.T) {
	server := zktest.NewServer(t, zkserver.WithSuperDigest(zkserver.SuperDigest("secret")))
	ca := newAuthority(t)
	first, second := secureFront(t, ca, server.Addr()), secureFront(t, ca, server.Addr())
	operator, _, err := zk.Connect([]string{server.Addr()}, 10*time.Second, zk.WithLogInfo(false))
	require.NoError(t, err)
	defer operator.Close()
	require.NoError(t, operator.AddAuth("digest", []byte("super:secret")))
	configure := func(lines ...string) {
		t.Helper()
		must.Get(operator.Set("/zookeeper/config", []byte(strings.Join(lines, "\n")), -1))(t)
	}
	line := func(id int) string { return fmt.Sprintf("server.%d=zk%d:2888:3888:participant;127.0.0.1:1", id, id) }
	panicked := make(chan struct{}, 10)
	secure := map[string]string{"zk1": first, "zk2": second, "zk3": "", "zk4": "no:port:at:all"}
	f := zktest.Client(t, first, framework.WithTLS(&tls.Config{RootCAs: ca.pool(), MinVersion: tls.VersionTLS12}),
		framework.WithEnsembleTracker(), framework.WithTrackedAddress(func(line string) string {
			host, _, _ := strings.Cut(line, ":")
			address, known := secure[host]
			if !known {
				panicked <- struct{}{}
				panic("the user's own fault")
			}
			return address
		}))
	configure(line(1), line(2), line(3), line(4), "version=1")
	await(t, f, sorted(first, second))
	configure(line(1), line(5), "version=2")
	zktest.Await(t, panicked, "the panic")
	configure(line(2), line(3), "version=3") // the function leaves all but one out
	await(t, f, []string{second})
	must.Get(f.Exists(t.Context(), "/"))(t)
}

func sorted(a, b string) []string {
	if a < b {
		return []string{a, b}
	}
	return []string{b, a}
}

// TestTrackedAddressWhoseFunctionBlocks does not hold up Close.
func TestTrackedAddressWhoseFunctionBlocks(t *testing.T) {
	server := zktest.NewServer(t, zkserver.WithSuperDigest(zkserver.SuperDigest("secret")))
	operator, _, err := zk.Connect([]string{server.Addr()}, 10*time.Second, zk.WithLogInfo(false))
	require.NoError(t, err)
	defer operator.Close()
	require.NoError(t, operator.AddAuth("digest", []byte("super:secret")))
	must.Get(operator.Set("/zookeeper/config", []byte("server.1=zk1:2888:3888:participant;0.0.0.0:2181"), -1))(t)
	entered, release := make(chan struct{}, 1), make(chan struct{})
	defer close(release)
	f := must.Get(framework.Connect(t.Context(), server.Addr(), framework.WithEnsembleTracker(), framework.WithTrackedAddress(func(string) string {
		entered <- struct{}{}
		<-release
		return ""
	})))(t)
	zktest.Await(t, entered, "the call of the function")
	closed := make(chan error, 1)
	go func() { closed <- f.Close() }()
	require.NoError(t, zktest.Await(t, closed, "the end of Close"))
}
