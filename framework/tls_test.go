// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/testing/ensemble"
	"github.com/gocurator/curator/testing/zktest"
)

// secureServer starts ZooKeeper with a secure port, which asks for a certificate of
// the authority.
func secureServer(t *testing.T, ca *authority, opts ...ensemble.Option) (secure string, server *ensemble.Server) {
	t.Helper()
	dir := t.TempDir()
	keys, trust := filepath.Join(dir, "keys.pem"), filepath.Join(dir, "trust.pem")
	require.NoError(t, os.WriteFile(keys, pemOf(t, ca.issue(t, "server")), 0o600))
	require.NoError(t, os.WriteFile(trust, ca.pem(), 0o600))
	server = zktest.NewEnsemble(t, 1, append(opts, ensemble.WithTLS(keys, trust))...).Server(0)
	return server.SecureAddr(), server
}

// refused connects until an attempt has failed, which on a busy machine takes a server its time,
// and returns the error. Each wait ends with its context.
func refused(t *testing.T, addr string, opts ...framework.Option) error {
	t.Helper()
	client := must.Get(framework.New(addr, opts...))(t)
	require.NoError(t, client.Start())
	defer func() { require.NoError(t, client.Close()) }()
	for began := time.Now(); ; {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		err := client.BlockUntilConnected(ctx)
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded)
		if strings.Contains(err.Error(), "the newest attempt: ") {
			return err
		}
		require.Less(t, time.Since(began), patience, err)
	}
}

// TestTLS connects to ZooKeeper's secure port in all ways that must work, and in
// those that must not.
func TestTLS(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Log("ZooKeeper's secure port is left to the full run")
		return
	}
	ca, stranger := newAuthority(t), newAuthority(t)
	secure, server := secureServer(t, ca, ensemble.WithSASLUsers(saslUsers))
	client := ca.issue(t, "client")
	config := func(change func(*tls.Config)) framework.Option {
		cfg := &tls.Config{RootCAs: ca.pool(), Certificates: []tls.Certificate{client}}
		change(cfg)
		return framework.WithTLS(cfg)
	}

	for name, change := range map[string]func(*tls.Config){
		"by address":  func(*tls.Config) {},
		"by name":     func(cfg *tls.Config) { cfg.ServerName = "server" },
		"TLS 1.2":     func(cfg *tls.Config) { cfg.MaxVersion = tls.VersionTLS12 },
		"by callback": func(cfg *tls.Config) { cfg.Certificates, cfg.GetClientCertificate = nil, give(client) },
	} {
		t.Run(name, func(t *testing.T) {
			f := zktest.Client(t, secure, config(change))
			must.Get(f.Create(t.Context(), "/"+strings.ReplaceAll(name, " ", "-"), make([]byte, 500_000)))(t)
			require.NoError(t, f.Close())
		})
	}

	for name, test := range map[string]struct {
		change func(*tls.Config)
		says   string
	}{
		"wrong name":        {func(cfg *tls.Config) { cfg.ServerName = "other" }, "not other"},
		"unknown authority": {func(cfg *tls.Config) { cfg.RootCAs = stranger.pool() }, "unknown authority"},
		"expired server":    {func(cfg *tls.Config) { cfg.Time = inAHundredYears }, "expired"},
	} {
		t.Run(name, func(t *testing.T) {
			err := refused(t, secure, config(test.change))
			require.ErrorContains(t, err, test.says)
			var verification *tls.CertificateVerificationError
			require.ErrorAs(t, err, &verification)
		})
	}

	for name, certificates := range map[string][]tls.Certificate{
		"no client certificate": nil,
		"a stranger's":          {stranger.issue(t, "client")},
		"an expired one":        {ca.issue(t, "client", func(c *x509.Certificate) { c.NotAfter = c.NotBefore })},
	} {
		t.Run(name, func(t *testing.T) {
			err := refused(t, secure, config(func(cfg *tls.Config) { cfg.Certificates = certificates }))
			require.ErrorContains(t, err, "the newest attempt: ")
			require.ErrorContains(t, err, secure)
		})
	}

	t.Run("TLS to the plain port", func(t *testing.T) {
		require.ErrorContains(t, refused(t, server.Addr(), config(func(*tls.Config) {})), "TLS handshake")
	})
	t.Run("plain to the secure port", func(t *testing.T) {
		require.ErrorContains(t, refused(t, secure), "handshake with "+secure)
	})
	t.Run("x509 as an identity", func(t *testing.T) {
		f := zktest.Client(t, secure, config(func(*tls.Config) {}))
		must.Get(f.Create(t.Context(), "/x509", nil, framework.WithACL(creatorOnly()...)))(t)
		_, err := zktest.Client(t, server.Addr()).Get(t.Context(), "/x509")
		require.ErrorIs(t, err, framework.ErrNoAuth)
	})
	t.Run("SASL beside x509", func(t *testing.T) {
		f := zktest.Client(t, secure, config(func(*tls.Config) {}), framework.WithSASL(framework.DigestMD5("alice", "wonderland")))
		found := must.Get(f.WhoAmI(t.Context()))(t)
		require.Contains(t, found, framework.Identity{Scheme: "sasl", ID: "alice"})
		require.Contains(t, found, framework.Identity{Scheme: "x509", ID: "CN=client"})
		_, err := framework.Connect(t.Context(), secure, config(func(*tls.Config) {}), framework.WithSASL(framework.DigestMD5("alice", "x")))
		require.ErrorIs(t, err, framework.ErrAuthFailed)
	})
	t.Run("a certificate that is renewed", func(t *testing.T) { testRenewal(t, ca, secure) })
}

// testRenewal: a reconnect presents the certificate of that moment, not of the
// start.
func testRenewal(t *testing.T, ca *authority, secure string) {
	var mu sync.Mutex
	var newest net.Conn
	certificate := ca.issue(t, "client")
	f := zktest.Client(t, secure,
		framework.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, address)
			mu.Lock()
			defer mu.Unlock()
			newest = conn
			return conn, err
		}),
		framework.WithTLS(&tls.Config{
			RootCAs: ca.pool(),
			GetClientCertificate: func(r *tls.CertificateRequestInfo) (*tls.Certificate, error) {
				mu.Lock()
				defer mu.Unlock()
				return give(certificate)(r)
			},
		}))
	must.Get(f.Create(t.Context(), "/renewed", nil, framework.WithACL(creatorOnly()...)))(t)
	states := recordStates(f) // the first connection has been told of before the reply
	mu.Lock()
	certificate = ca.issue(t, "somebody else")
	require.NoError(t, newest.Close())
	mu.Unlock()
	states.expect(t, framework.Suspended, framework.Reconnected)
	_, err := f.Get(t.Context(), "/renewed")
	require.ErrorIs(t, err, framework.ErrNoAuth, "with another certificate one is another")
}

// TestTLSPlainClientIsTold: where the server answers at all.
func TestTLSPlainClientIsTold(t *testing.T) {
	addr, _ := babbler(t, []byte{21, 3, 1, 0, 2, 2, 70})
	require.ErrorContains(t, refused(t, addr), "the server speaks TLS on this port")
}

// TestTLSEndOfAConnectionIsBounded: although the server does not read any more,
// so that it cannot be told.
func TestTLSEndOfAConnectionIsBounded(t *testing.T) {
	ca := newAuthority(t)
	certificate := ca.issue(t, "server")
	synctest.Test(t, func(t *testing.T) {
		ends := make(chan net.Conn, 1)
		f := must.Get(framework.New("server:1",
			framework.WithDialer(func(ctx context.Context, _, _ string) (net.Conn, error) {
				near, far := net.Pipe()
				select {
				case ends <- far:
					return near, nil
				case <-ctx.Done():
					return nil, context.Cause(ctx)
				}
			}),
			framework.WithTLS(&tls.Config{RootCAs: ca.pool(), Time: ca.now})))(t)
		require.NoError(t, f.Start())
		defer func() { require.Error(t, f.Close(), "nobody can be told") }()
		raw := <-ends
		server := tls.Server(raw, &tls.Config{Certificates: []tls.Certificate{certificate}})
		request := make([]byte, 49)
		must.Get(server.Read(request))(t)
		must.Get(server.Write(connectReply(10_000)))(t)
		require.NoError(t, f.BlockUntilConnected(t.Context()))
		_, err := server.Write([]byte{255, 255, 255, 255}) // not a frame
		require.NoError(t, err)
		began := time.Now()
		next := <-ends
		took := time.Since(began)
		require.NoError(t, raw.Close())
		require.NoError(t, next.Close())
		require.Less(t, took, 2*time.Second)
	})
}
