// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"time"
)

// closeNotifyLimit bounds how long closing a TLS connection waits for a server that does
// not read.
const closeNotifyLimit = 100 * time.Millisecond

// overTLS returns a dialer that makes TLS connections on top of another dialer's.
func overTLS(dial Dialer, cfg *tls.Config) Dialer {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		raw, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		conn := tls.Client(raw, configFor(cfg, address))
		if err := conn.HandshakeContext(ctx); err != nil {
			// The handshake's error is what matters.
			_ = raw.Close()
			return nil, fmt.Errorf("TLS handshake: %w", err)
		}
		return tlsConn{conn}, nil
	}
}

// configFor returns the configuration with the name of the server.
func configFor(cfg *tls.Config, address string) *tls.Config {
	host, _, err := net.SplitHostPort(address)
	if err != nil || cfg.ServerName != "" {
		return cfg // the program knows the name in the certificates better
	}
	cfg = cfg.Clone()
	cfg.ServerName = host
	return cfg
}

// tlsConn is a TLS connection whose Close does not wait for the other side.
type tlsConn struct{ *tls.Conn }

func (c tlsConn) Close() error {
	cut := time.AfterFunc(closeNotifyLimit, func() {
		// Close itself returns the error that this leads to.
		_ = c.NetConn().Close()
	})
	defer cut.Stop()
	return c.Conn.Close()
}
