package framework

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"
)

// closeNotifyLimit bounds how long the end of a connection waits to say goodbye in
// TLS to a server that does not read.
const closeNotifyLimit = 100 * time.Millisecond

// WithTLS encrypts every connection, to the servers' secureClientPort. The handshake
// is part of the attempt to connect and bounded with it. When ServerName is empty, it is
// each server's host name or address as the connection string has it. The
// configuration is copied; what is to change while the client runs, such as a client
// certificate that is renewed, is for its callbacks (GetClientCertificate), which are
// asked at every connection.
//
// Why the newest attempt has failed is part of the error of a call that waits for a
// connection, and found there with [errors.As], a [*tls.CertificateVerificationError]
// for instance. Together with [WithDialer], TLS runs on the dialer's connections.
func WithTLS(cfg *tls.Config) Option {
	return optionFunc(func(c *config) error {
		if cfg == nil {
			return errors.New("TLS configuration nil, expected a *tls.Config")
		}
		c.tls = cfg.Clone()
		return nil
	})
}

// overTLS is a dialer that makes TLS connections over those of another.
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

// configFor is the configuration with the name of the server in it.
func configFor(cfg *tls.Config, address string) *tls.Config {
	host, _, err := net.SplitHostPort(address)
	if err != nil || cfg.ServerName != "" {
		return cfg
	}
	cfg = cfg.Clone()
	cfg.ServerName = host
	return cfg
}

// tlsConn is a TLS connection whose end does not wait for the other side.
type tlsConn struct{ *tls.Conn }

func (c tlsConn) Close() error {
	cut := time.AfterFunc(closeNotifyLimit, func() {
		// Close itself returns the error that this leads to.
		_ = c.NetConn().Close()
	})
	defer cut.Stop()
	return c.Conn.Close()
}

// attemptError is why the newest attempt to connect has failed, as a part of another
// error. It can be looked into, but does not make that error one of its kind: that
// an attempt had a deadline does not mean that the caller's has passed.
type attemptError struct{ reason error }

func (e attemptError) Error() string { return "the newest attempt: " + e.reason.Error() }

// As finds the errors of crypto/tls and net.
func (e attemptError) As(target any) bool { return errors.As(e.reason, target) }

// unreachable adds to an error why there is no connection, if that is known.
func (f *Framework) unreachable(err error) error {
	if reason := f.conduit.LastFailure(); reason != nil {
		return fmt.Errorf("%w (%w)", err, attemptError{reason})
	}
	if f.tracker.everHadSession() {
		return err
	}
	return fmt.Errorf("%w (no server has refused or answered yet: %v)", err, f.Servers())
}
