// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	mathrand "math/rand/v2"
	"net"
	"os"
	"time"
)

// certify makes an authority and one certificate that serves servers, at the given
// addresses, and clients. The file gets the certificates of both and the key.
func certify(file string, addrs []net.IP) error {
	authorityKey, err1 := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	key, err2 := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err := errors.Join(err1, err2); err != nil {
		return fmt.Errorf("nemesis: certificates: %w", err)
	}
	authority := certificateOf("authority")
	authority.IsCA, authority.BasicConstraintsValid = true, true
	authority.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	own := certificateOf("nemesis")
	own.IPAddresses = addrs
	own.KeyUsage = x509.KeyUsageDigitalSignature
	own.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}

	authorityDER, err1 := x509.CreateCertificate(rand.Reader, authority, authority, &authorityKey.PublicKey, authorityKey)
	ownDER, err2 := x509.CreateCertificate(rand.Reader, own, authority, &key.PublicKey, authorityKey)
	keyDER, err3 := x509.MarshalPKCS8PrivateKey(key)
	if err := errors.Join(err1, err2, err3); err != nil {
		return fmt.Errorf("nemesis: certificates: %w", err)
	}
	var text []byte
	for _, block := range []*pem.Block{
		{Type: "CERTIFICATE", Bytes: ownDER}, {Type: "CERTIFICATE", Bytes: authorityDER}, {Type: "PRIVATE KEY", Bytes: keyDER},
	} {
		text = append(text, pem.EncodeToMemory(block)...)
	}
	return os.WriteFile(file, text, 0o600)
}

func certificateOf(name string) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: new(big.Int).SetUint64(mathrand.Uint64()),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(30 * 24 * time.Hour),
	}
}

// clientTLS is the configuration of a client with the certificate in the file. It
// trusts what is signed by any certificate of it.
func clientTLS(file string) (*tls.Config, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("nemesis: certificates: %w", err)
	}
	own, err := tls.X509KeyPair(text, text)
	if err != nil {
		return nil, fmt.Errorf("nemesis: certificates: %w", err)
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(text)
	return &tls.Config{Certificates: []tls.Certificate{own}, RootCAs: trusted, MinVersion: tls.VersionTLS12}, nil
}
