package zktest

import (
	"context"
	"slices"
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

	// sessionTimeout is what [Client] asks for: long enough for a busy machine, and
	// within what servers grant that tick every 500 ms.
	sessionTimeout = 10 * time.Second
)

// NewServer starts an embedded server, which is closed when the test ends.
func NewServer(tb testing.TB, opts ...zkserver.Option) *zkserver.Server {
	tb.Helper()
	s, err := zkserver.Start(opts...)
	if err != nil {
		tb.Fatalf("zktest: start the embedded server: %v", err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Errorf("zktest: close the embedded server: %v", err)
		}
	})
	return s
}

// NewEnsemble starts n (1 or 3) real Apache ZooKeeper servers, which are killed
// when the test ends. It fails the test, and names the packages to install, when
// they are not on this machine.
func NewEnsemble(tb testing.TB, n int, opts ...ensemble.Option) *ensemble.Ensemble {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), startTimeout)
	defer cancel()
	e, err := ensemble.Start(ctx, append([]ensemble.Option{ensemble.WithSize(n)}, opts...)...)
	if err != nil {
		tb.Fatalf("zktest: start %d ZooKeeper servers: %v", n, err)
	}
	tb.Cleanup(func() {
		if err := e.Close(); err != nil {
			tb.Errorf("zktest: close the ensemble: %v", err)
		}
	})
	return e
}

// NewProxy starts a proxy in front of the server at target, which is closed when
// the test ends.
func NewProxy(tb testing.TB, target string) *zkproxy.Proxy {
	tb.Helper()
	p, err := zkproxy.Start(target)
	if err != nil {
		tb.Fatalf("zktest: start a proxy for %s: %v", target, err)
	}
	tb.Cleanup(func() {
		if err := p.Close(); err != nil {
			tb.Errorf("zktest: close the proxy: %v", err)
		}
	})
	return p
}

// Target is what a client can be given to connect to: a connect string, an embedded
// server, real ones, or a backend, of which it sees the chroot.
type Target interface {
	string | *zkserver.Server | *ensemble.Ensemble | Backend
}

// Client returns a client that is connected, and closed when the test ends. It
// asks for a session timeout of ten seconds unless an option says otherwise. To a
// server [zkserver.WithoutListener] it connects in memory.
func Client[T Target](tb testing.TB, server T, opts ...framework.Option) *framework.Framework {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), startTimeout)
	defer cancel()
	connectString, dialing := locate(server)
	opts = slices.Concat([]framework.Option{framework.WithSessionTimeout(sessionTimeout)}, dialing, opts)
	client, err := framework.Connect(ctx, connectString, opts...)
	if err != nil {
		tb.Fatalf("zktest: connect to %s: %v", connectString, err)
	}
	tb.Cleanup(func() {
		// A test may have made closing the session impossible; the client is closed
		// all the same, and that is all this is for.
		_ = client.Close()
	})
	return client
}

// locate returns where a client finds the server, and how if not over TCP.
func locate[T Target](server T) (connectString string, opts []framework.Option) {
	switch s := any(server).(type) {
	case *zkserver.Server:
		if s.Addr() == "" {
			return "memory:2181", []framework.Option{framework.WithDialer(s.Dial)}
		}
		return s.Addr(), nil
	case *ensemble.Ensemble:
		return s.ConnectString(), nil
	case Backend:
		return s.ConnectString(), nil
	case string:
		return s, nil
	default:
		panic("unreachable: Target has no other types")
	}
}
