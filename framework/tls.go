package framework

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"
)

// closeNotifyLimit bounds how long closing a TLS connection waits for a server that does
// not read.
const closeNotifyLimit = 100 * time.Millisecond

// WithTLS encrypts every connection; the connection string must name the servers'
// secureClientPort. The handshake is part of the attempt to connect, and bounded with it. An
// empty ServerName means each server's host as in the connection string. The configuration
// is copied. For settings that change while the client runs, such as a renewed client
// certificate, use its callbacks (GetClientCertificate), which every connection calls.
//
// A call that waits for a connection includes the failure of the newest attempt in its
// error. [errors.As] finds it there, for instance a [*tls.CertificateVerificationError].
// With [WithDialer], TLS runs on the dialer's connections.
func WithTLS(cfg *tls.Config) Option {
	return optionFunc(func(c *config) error {
		if cfg == nil {
			return errors.New("TLS configuration nil, expected a *tls.Config")
		}
		c.tls = cfg.Clone()
		return nil
	})
}

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
			if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) {
				return nil, fmt.Errorf("TLS handshake: %w (is it a port without TLS?)", err)
			}
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
