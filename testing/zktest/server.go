// SPDX-License-Identifier: Apache-2.0

package zktest

import (
	"context"
	"io"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/testing/ensemble"
	"github.com/gocurator/curator/testing/zkproxy"
	"github.com/gocurator/curator/testing/zkserver"
)

const (
	// startTimeout bounds how long servers may take to start and clients to
	// connect, on a machine that is busy with other tests.
	startTimeout = 60 * time.Second

	// sessionTimeout is what [Client] asks for: a client must not lose its session because
	// the machine is busy with other tests.
	sessionTimeout = 30 * time.Second

	// maxSessionTimeout is the longest that servers grant: a client that is given no option
	// asks for it.
	maxSessionTimeout = 60 * time.Second
)

// NewServer starts an embedded server, which is closed when the test ends. It
// grants session timeouts of up to one minute, whatever its tick, unless
// [zkserver.WithSessionTimeouts] says otherwise.
func NewServer(tb testing.TB, opts ...zkserver.Option) *zkserver.Server {
	tb.Helper()
	s, err := zkserver.Start(append([]zkserver.Option{zkserver.WithSessionTimeouts(0, maxSessionTimeout)}, opts...)...)
	if err != nil {
		tb.Fatalf("zktest: start the embedded server: %v", err)
	}
	closeAtEnd(tb, "the embedded server", s)
	return s
}

// NewEmbeddedEnsemble starts n (3 or 5) embedded servers that replicate, which are closed when the test ends. Their
// session timeouts are those of [NewServer].
func NewEmbeddedEnsemble(tb testing.TB, n int, opts ...zkserver.Option) *zkserver.Ensemble {
	tb.Helper()
	e, err := zkserver.NewEnsemble(n, append([]zkserver.Option{zkserver.WithSessionTimeouts(0, maxSessionTimeout)}, opts...)...)
	if err != nil {
		tb.Fatalf("zktest: start %d embedded servers: %v", n, err)
	}
	closeAtEnd(tb, "the embedded ensemble", e)
	return e
}

// NewEnsemble starts n (1, 3, 5 or 7) real Apache ZooKeeper servers, which are killed
// when the test ends. They grant session timeouts of up to one minute, whatever their
// tick, unless [ensemble.WithConfig] sets another maxSessionTimeout. It fails the
// test, and names the packages to install, when they are not on this machine.
func NewEnsemble(tb testing.TB, n int, opts ...ensemble.Option) *ensemble.Ensemble {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), startTimeout)
	defer cancel()
	e, err := ensemble.Start(ctx, append([]ensemble.Option{ensemble.WithSize(n), withMaxSessionTimeout()}, opts...)...)
	if err != nil {
		tb.Fatalf("zktest: start %d ZooKeeper servers: %v", n, err)
	}
	closeAtEnd(tb, "the ensemble", e)
	return e
}

// closeAtEnd closes what a test has started when the test ends.
func closeAtEnd(tb testing.TB, what string, started io.Closer) {
	tb.Cleanup(func() {
		if err := started.Close(); err != nil {
			tb.Errorf("zktest: close %s: %v", what, err)
		}
	})
}

func withMaxSessionTimeout() ensemble.Option {
	return ensemble.WithConfig("maxSessionTimeout", strconv.FormatInt(maxSessionTimeout.Milliseconds(), 10))
}

// NewProxy starts a proxy in front of a server, or of the first one of an ensemble,
// which is closed when the test ends. In front of a server [zkserver.WithoutListener]
// the proxy does not listen either: [Client] connects through it in memory. The same
// holds in front of an ensemble [ensemble.WithNetwork].
func NewProxy[T Target](tb testing.TB, server T, opts ...zkproxy.Option) *zkproxy.Proxy {
	tb.Helper()
	target, dial := locate(server)
	if dial != nil {
		opts = slices.Concat([]zkproxy.Option{zkproxy.WithoutListener(), zkproxy.WithDialer(dial)}, opts)
	}
	p, err := zkproxy.Start(first(target), opts...)
	if err != nil {
		tb.Fatalf("zktest: start a proxy for %s: %v", target, err)
	}
	closeAtEnd(tb, "the proxy", p)
	return p
}

// first is the first server of a connect string, without the chroot.
func first(connectString string) string {
	servers, _, _ := strings.Cut(connectString, "/")
	server, _, _ := strings.Cut(servers, ",")
	return server
}

// Target is what a client can connect to: a connect string, an embedded server, real
// servers, a proxy, or a backend, in whose chroot the client then works.
type Target interface {
	string | *zkserver.Server | *zkserver.Ensemble | *ensemble.Ensemble | Backend | *zkproxy.Proxy
}

// Client returns a client that is connected, and closed when the test ends. It
// asks for a session timeout of 30 seconds, and logs nothing, unless an option says
// otherwise. To a server [zkserver.WithoutListener], or a proxy in front of one, it
// connects in memory. To an ensemble [ensemble.WithNetwork] it connects from a host of its own.
func Client[T Target](tb testing.TB, server T, opts ...framework.Option) *framework.Framework {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), startTimeout)
	defer cancel()
	connectString, dial := locate(server)
	defaults := []framework.Option{
		framework.WithSessionTimeout(sessionTimeout),
		framework.WithLogger(slog.New(slog.DiscardHandler)), // its sessions are shorter than the client likes
	}
	if dial != nil {
		defaults = append(defaults, framework.WithDialer(dial))
	}
	opts = slices.Concat(defaults, opts)
	client, err := framework.Connect(ctx, connectString, opts...)
	if err != nil {
		tb.Fatalf("zktest: connect to %s: %v", connectString, err)
	}
	tb.Cleanup(func() {
		session := client.Session()
		if err := client.Close(); err != nil {
			// A test may have made closing the session impossible. The client is closed all the
			// same, and the session ends when it times out.
			tb.Logf("zktest: %v", err)
			lingering.add(tb, session.Timeout())
		}
	})
	return client
}

// ClientViaProxy returns a client as [Client] does, and the proxy of its own through which it
// connects. Of an ensemble the client knows the first server only.
func ClientViaProxy[T Target](tb testing.TB, server T, opts ...framework.Option) (*framework.Framework, *zkproxy.Proxy) {
	tb.Helper()
	proxy := NewProxy(tb, server)
	via, dial := locate(proxy)
	if dial != nil {
		opts = slices.Concat([]framework.Option{framework.WithDialer(dial)}, opts)
	}
	target, _ := locate(server)
	if _, root, found := strings.Cut(target, "/"); found {
		via += "/" + root
	}
	return Client(tb, via, opts...), proxy
}

// inMemory is the address of what has none. It is only for show.
const inMemory = "memory:2181"

// locate returns where a client finds the server, and how if not over TCP.
func locate[T Target](server T) (connectString string, dial framework.Dialer) {
	switch s := any(server).(type) {
	case *zkserver.Server:
		if s.Addr() == "" {
			return inMemory, s.Dial
		}
		return s.Addr(), nil
	case *zkserver.Ensemble:
		return s.ConnectString(), s.Dial
	case *zkproxy.Proxy:
		if s.Addr() == "" {
			return inMemory, s.Dial
		}
		return s.Addr(), nil
	case *ensemble.Ensemble:
		if network := s.Network(); network != nil {
			return s.ConnectString(), dialerOf(network)
		}
		return s.ConnectString(), nil
	case Backend:
		return s.ConnectString(), s.dial
	case string:
		return s, nil
	default:
		panic("unreachable: Target has no other types")
	}
}

// dialerOf returns a dialer that joins the network when it is used, as a host of its own.
func dialerOf(network *ensemble.Network) framework.Dialer {
	join := sync.OnceValues(func() (*ensemble.Host, error) { return network.Join("client") })
	return func(ctx context.Context, protocol, addr string) (net.Conn, error) {
		host, err := join()
		if err != nil {
			return nil, err
		}
		return host.DialContext(ctx, protocol, addr)
	}
}
