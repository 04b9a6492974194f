// SPDX-License-Identifier: Apache-2.0

package zkserver_test

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/testing/zkserver"
)

// certificate returns the configurations of a server and of a client that trusts it as example.com.
func certificate(t *testing.T) (server, client *tls.Config) {
	t.Helper()
	holder := httptest.NewTLSServer(nil)
	defer holder.Close()
	roots := x509.NewCertPool()
	roots.AddCert(holder.Certificate())
	return &tls.Config{Certificates: holder.TLS.Certificates}, &tls.Config{RootCAs: roots, ServerName: "example.com"}
}

func TestTLS(t *testing.T) {
	server, client := certificate(t)
	srv := start(t, zkserver.WithTLS(server))
	dial := func() net.Conn {
		nc, err := tls.Dial("tcp", srv.Addr(), client)
		require.NoError(t, err)
		t.Cleanup(func() { nc.Close() })
		return nc
	}
	c, err := handshake(dial(), connection{timeoutMs: 5000})
	require.NoError(t, err)
	c.must(t, 1, createBody("/a", string(make([]byte, 100_000)), 0))
	read := c.must(t, 4, body{}.str("/a").flag(false))
	require.Len(t, read.fields.str(), 100_000)
	who := c.must(t, 107, body{})
	require.Equal(t, `["ip:127.0.0.1"]`, identities(nil, &who.fields))

	word := dial()
	_, err = io.WriteString(word, "ruok")
	require.NoError(t, err)
	answer, err := io.ReadAll(word)
	require.NoError(t, err, "the end of the stream is announced")
	require.Equal(t, "imok", string(answer))

	_, err = tryRaw(t, srv, connection{})
	require.Error(t, err, "a client without TLS")

	require.NoError(t, srv.Stop())
	c.hungUp(t)
	require.NoError(t, srv.Restart())
	c, err = handshake(dial(), connection{timeoutMs: 5000, session: c.session, password: c.password})
	require.NoError(t, err)
	c.must(t, -11, body{})
	c.hungUp(t)
}
