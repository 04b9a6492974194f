// SPDX-License-Identifier: Apache-2.0

package zkserver

import (
	"crypto/sha1" // the scheme is defined with it
	"encoding/base64"
	"strings"
)

// WithSuperDigest names the super user, for whom no ACL counts: a client that presents credentials of the scheme
// digest with this digest. The form is ZooKeeper's, from its property
// zookeeper.DigestAuthenticationProvider.superDigest: "super:" and the base64 of the SHA-1 of "super:password".
// [SuperDigest] computes it. By default there is no super user.
func WithSuperDigest(digest string) Option {
	user, hash, _ := strings.Cut(digest, ":")
	sum, err := base64.StdEncoding.DecodeString(hash)
	return option(user != "" && err == nil && len(sum) == sha1.Size, func(c *config) { c.superDigest = digest },
		"super digest %q: a name, a colon and the base64 of a SHA-1 expected", digest)
}

// SuperDigest is the digest, for [WithSuperDigest], of the credentials "super:" and the password.
func SuperDigest(password string) string {
	return digestID("super:" + password).id
}

// proved adds an identity to the connection c. The super user comes in addition to the digest's own identity, and
// before it (DigestAuthenticationProvider.handleAuthentication). It reports whether there was room for them.
func (s *Server) proved(c *conn, id authID) bool {
	if s.cfg.superDigest != "" && id.id == s.cfg.superDigest && !c.identify(superUser) {
		return false
	}
	return c.identify(id)
}
