// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// identity writes a certificate that signs itself, and its key, into files.
func identity(t *testing.T, name string) (certFile, keyFile string) {
	t.Helper()
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{name}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der := must.Get(x509.CreateCertificate(rand.Reader, template, template, key.Public(), key))(t)
	keyDER := must.Get(x509.MarshalPKCS8PrivateKey(key))(t)
	certFile, keyFile = filepath.Join(t.TempDir(), "cert.pem"), filepath.Join(t.TempDir(), "key.pem")
	require.NoError(t, os.WriteFile(certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	require.NoError(t, os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}), 0o600))
	return certFile, keyFile
}

// TestTLS: a server that speaks TLS and asks for a certificate is reached by flags, and by the
// environment. What does not fit is refused.
func TestTLS(t *testing.T) {
	serverCert, serverKey := identity(t, "zookeeper.example")
	clientCert, clientKey := identity(t, "operator.example")
	pair := must.Get(tls.LoadX509KeyPair(serverCert, serverKey))(t)
	clients := x509.NewCertPool()
	require.True(t, clients.AppendCertsFromPEM(must.Get(os.ReadFile(clientCert))(t)))
	server := zktest.NewServer(t, zkserver.WithTLS(&tls.Config{
		Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients, MinVersion: tls.VersionTLS12,
	}))
	run := func(env map[string]string, args ...string) outcome {
		return program{}.in(t, env, append([]string{"-servers", server.Addr()}, args...)...)
	}
	flags := []string{"-ca", serverCert, "-cert", clientCert, "-key", clientKey, "-server-name", "zookeeper.example"}
	env := map[string]string{
		"CURATOR_TLS": "1", "CURATOR_CA": serverCert, "CURATOR_CERT": clientCert, "CURATOR_KEY": clientKey, "CURATOR_SERVER_NAME": "zookeeper.example",
	}

	got := run(nil, append([]string{"create", "/secret", "by flags", "-tls"}, flags...)...)
	require.Zero(t, got.status, got.stderr)
	got = run(env, "get", "/secret")
	require.Equal(t, outcome{stdout: "by flags"}, got)
	got = run(env, "ensemble") // asks with four-letter words, on connections of its own
	require.Zero(t, got.status, got.stderr)
	require.Contains(t, got.stdout, "standalone")

	env["CURATOR_TLS"] = "yes"
	got = run(env, "get", "/secret")
	require.Equal(t, outcome{stderr: "curatorctl: CURATOR_TLS=yes: expected 1 or 0, or true or false\n", status: exitUsage}, got)
	require.Equal(t, outcome{stdout: "by flags"}, run(env, "get", "-tls", "/secret"), "flags win")
	require.Zero(t, run(env, "help").status)
	env["CURATOR_TLS"] = "false"
	got = run(env, "get", "/secret")
	require.Equal(t, exitUsage, got.status)
	require.Contains(t, got.stderr, "CURATOR_TLS=false together with a certificate")
	delete(env, "CURATOR_TLS")
	require.Equal(t, outcome{stdout: "by flags"}, run(env, "get", "/secret"))
	require.Equal(t, exitUnavailable, run(env, "get", "-timeout", "1s", "-tls=false", "/secret").status)

	for name, test := range map[string]struct {
		args   []string
		status int
		said   string
	}{
		"without TLS":                 {nil, exitUnavailable, "curatorctl: "},
		"an unknown signer":           {[]string{"-tls", "-cert", clientCert, "-key", clientKey, "-server-name", "zookeeper.example"}, exitUnavailable, "x509: certificate signed by unknown authority"},
		"another name":                {[]string{"-ca", serverCert, "-cert", clientCert, "-key", clientKey, "-server-name", "other.example"}, exitUnavailable, "not other.example"},
		"no certificate":              {[]string{"-ca", serverCert, "-server-name", "zookeeper.example"}, exitUnavailable, "curatorctl: "},
		"a file without certificates": {[]string{"-ca", clientKey}, exitUsage, "-ca " + clientKey + ": no certificate in it"},
		"a file that is missing":      {[]string{"-ca", "/no/such/file"}, exitUsage, "-ca: open /no/such/file: no such file"},
		"a certificate without a key": {[]string{"-cert", clientCert}, exitUsage, "-cert and -key: one of them, expected both or neither"},
		"a key without a certificate": {[]string{"-key", clientKey}, exitUsage, "-cert and -key: one of them, expected both or neither"},
		"only a name":                 {[]string{"-server-name", "zookeeper.example"}, exitUnavailable, "x509: certificate signed by unknown authority"},
	} {
		t.Run(name, func(t *testing.T) {
			var got outcome
			for timeout := time.Second; timeout < limit; timeout *= 2 { // on a busy machine the reason comes late
				got = run(nil, append([]string{"get", "/secret", "-timeout", timeout.String()}, test.args...)...)
				require.Equal(t, test.status, got.status, got.stderr)
				if strings.Contains(got.stderr, test.said) {
					break
				}
			}
			require.Contains(t, got.stderr, test.said)
		})
	}
}
