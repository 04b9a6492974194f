// SPDX-License-Identifier: Apache-2.0

package zkserver

import (
	"crypto/tls"
	"net"
)

// WithTLS makes the server speak TLS on every connection, as a ZooKeeper server does on its secureClientPort: from
// the listener, from [Server.Dial] and from [Server.ServeConn]. Four-letter words go through TLS too. The
// configuration needs a certificate. If it asks clients for certificates, they are checked but give no identity of
// the scheme x509. WithTLS clones the configuration. By default there is no TLS.
func WithTLS(cfg *tls.Config) Option {
	if cfg == nil {
		return option(false, nil, "nil TLS configuration: leave the option out for none")
	}
	hasCertificate := len(cfg.Certificates) > 0 || cfg.GetCertificate != nil || cfg.GetConfigForClient != nil
	return option(hasCertificate, func(c *config) { c.tls = cfg.Clone() }, "TLS configuration without a certificate: a server needs one")
}

// secure wraps a connection in TLS if the server is configured for it. Nothing is exchanged before the first read.
func (s *Server) secure(nc net.Conn) net.Conn {
	if s.cfg.tls == nil {
		return nc
	}
	return tls.Server(nc, s.cfg.tls)
}

// closeNow closes a connection without a farewell, which with TLS might wait for a client that does not read.
func closeNow(nc net.Conn) error {
	if t, ok := nc.(*tls.Conn); ok {
		nc = t.NetConn()
	}
	return nc.Close()
}
