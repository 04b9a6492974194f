// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testkit/must"
)

// authority issues certificates for tests.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := certificate("authority")
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign
	der := must.Get(x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key))(t)
	cert := must.Get(x509.ParseCertificate(der))(t)
	return &authority{cert, key}
}

var serial atomic.Int64

// certificate is valid for a day, around now.
func certificate(name string) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(serial.Add(1)),
		Subject:      pkix.Name{CommonName: name},
		DNSNames:     []string{name},
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore:    time.Now().Add(-12 * time.Hour),
		NotAfter:     time.Now().Add(12 * time.Hour),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
}

// issue makes a certificate for 127.0.0.1 and the name, as changed.
func (a *authority) issue(t *testing.T, name string, changes ...func(*x509.Certificate)) tls.Certificate {
	t.Helper()
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := certificate(name)
	for _, change := range changes {
		change(template)
	}
	der := must.Get(x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key))(t)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// now is a time at which the certificates are valid, for tests with a clock of their
// own.
func (a *authority) now() time.Time { return a.cert.NotBefore.Add(12 * time.Hour) }

func (a *authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

// pemOf is a certificate and its key as ZooKeeper reads them.
func pemOf(t *testing.T, c tls.Certificate) []byte {
	t.Helper()
	key := must.Get(x509.MarshalPKCS8PrivateKey(c.PrivateKey))(t)
	var b bytes.Buffer
	require.NoError(t, pem.Encode(&b, &pem.Block{Type: "PRIVATE KEY", Bytes: key}))
	require.NoError(t, pem.Encode(&b, &pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate[0]}))
	return b.Bytes()
}

// give is a GetClientCertificate that always gives this one.
func give(c tls.Certificate) func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	return func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &c, nil }
}

func inAHundredYears() time.Time { return time.Now().AddDate(100, 0, 0) }
