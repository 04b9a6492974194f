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
	return option(hasCertificate, func(c *config) {
		cfg := cfg.Clone()
		c.secure = func(nc net.Conn) net.Conn { return tls.Server(nc, cfg) } // nothing is exchanged before the first read
	}, "TLS configuration without a certificate: a server needs one")
}
