// SPDX-License-Identifier: Apache-2.0

package zkserver

import (
	"crypto/md5" // DIGEST-MD5 is defined with it
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"strings"
)

// WithSASLUsers makes the server know SASL by the mechanism DIGEST-MD5, with the scheme sasl in ACLs, for these users
// and their passwords. They are the lines user_name="password" of the section Server in a JAAS file of ZooKeeper. A
// name has no '/' and no '@', which ZooKeeper takes for a name of Kerberos. A connection has the identity sasl:name
// after the exchange. A connection whose exchange fails is closed with -115 (authentication failed). The user super may
// do what an ACL of the scheme sasl allows to any user. Without the option, requests of the type sasl are answered
// without a token.
func WithSASLUsers(passwords map[string]string) Option {
	for user := range passwords {
		if user == "" || strings.ContainsAny(user, "/@") {
			return option(false, nil, "SASL user %q: a name without '/' and '@' expected", user)
		}
	}
	users := maps.Clone(passwords)
	if users == nil {
		users = map[string]string{}
	}
	return plain(func(c *config) { c.saslUsers = users })
}

// WithRequireClientAuthScheme serves only clients that have authenticated by the scheme, which must be "sasl", as
// ZooKeeper does with enforce.auth.enabled=true and enforce.auth.schemes=sasl. On all other connections the server
// answers every request but auth and sasl, even a ping, with -124 (session closed, SASL required), and closes the
// connection. The session goes on.
func WithRequireClientAuthScheme(scheme string) Option {
	return option(scheme == "sasl", func(c *config) { c.saslRequired = true }, "required scheme %q: sasl expected", scheme)
}

// SetSASLUsers replaces the users of [WithSASLUsers], as a restart with another JAAS file does. Connections keep the
// identities that they have proved.
func (s *Server) SetSASLUsers(passwords map[string]string) error {
	var c config
	if err := WithSASLUsers(passwords).apply(&c); err != nil {
		return fmt.Errorf("zkserver: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cfg.saslUsers = c.saslUsers
	return nil
}

const (
	saslRealm = "zk-sasl-md5" // instead of the host's name
	digestURI = "zookeeper/" + saslRealm

	maxDigestResponse = 4096 // bytes, of RFC 2831
)

// sasl takes a token of a client and answers by the next. A server that is not configured for it answers with success, and no
// token. A request that cannot be read costs the connection, without an answer.
func (x *call) sasl() code {
	x.outside = true
	token := x.in.buffer()
	if token == nil || x.in.bad {
		x.s.cut(x.c)
		return codeMarshalling
	}
	if x.s.cfg.saslUsers == nil {
		x.out.buffer(nil)
		return codeOK
	}
	answer, err := x.saslStep(token)
	switch {
	case errors.Is(err, errNoUser):
		x.s.cut(x.c) // ZooKeeper fails on it
		return codeMarshalling
	case err != nil:
		x.s.log.Warn("SASL refused", "client", x.c.remote(), "error", err)
		x.end, x.nullBody = true, true
		if x.s.cfg.saslRequired {
			return codeSASLRequired
		}
		return codeAuthFailed
	}
	x.out.buffer(answer)
	return codeOK
}

// saslStep returns the challenge first, and the server's proof for the right response to it.
func (x *call) saslStep(token []byte) ([]byte, error) {
	d := &x.c.digest
	if d.done {
		return nil, errors.New("a token after the exchange")
	}
	if d.nonce == "" { // whatever the token says: DIGEST-MD5 has no initial response
		var nonce [24]byte
		rand.Read(nonce[:]) // never returns an error
		d.nonce = hex.EncodeToString(nonce[:])
		return fmt.Appendf(nil, `realm="%s",nonce="%s",charset=utf-8,algorithm=md5-sess`, saslRealm, d.nonce), nil
	}
	r, err := parseDigestResponse(token)
	if err != nil {
		return nil, err
	}
	if r.nonce != d.nonce {
		return nil, errors.New("another nonce")
	}
	password, known := x.s.cfg.saslUsers[r.user]
	key := r.key(password)
	if subtle.ConstantTimeCompare([]byte(r.response), []byte(r.value(key, "AUTHENTICATE:"+digestURI))) != 1 || !known {
		return nil, fmt.Errorf("%q is unknown, or has another password", r.user)
	}
	if !x.c.identify(authID{scheme: "sasl", id: r.user}) {
		return nil, errors.New("too many identities")
	}
	d.done = true
	return []byte("rspauth=" + r.value(key, ":"+digestURI)), nil
}

// digestResponse is what a client sends (RFC 2831, section 2.1.2).
type digestResponse struct {
	user, realm, nonce, cnonce, response string

	authzid string // another identity that the client asks for, which ZooKeeper does not give it
}

var errNoUser = errors.New("a response without username")

func parseDigestResponse(token []byte) (r digestResponse, err error) {
	if len(token) > maxDigestResponse {
		return r, fmt.Errorf("a response of %d bytes, at most %d are accepted", len(token), maxDigestResponse)
	}
	d, err := parseDirectives(string(token))
	if err != nil {
		return r, err
	}
	charset, utf8 := d["charset"]
	if utf8 && !strings.EqualFold(charset, "utf-8") {
		return r, errors.New("another charset than utf-8")
	}
	r = digestResponse{user: d["username"], realm: d["realm"], nonce: d["nonce"], cnonce: d["cnonce"], response: d["response"], authzid: d["authzid"]}
	if !utf8 {
		r.user = fromLatin1(r.user)
	}
	qop, given := d["qop"]
	switch {
	case given && qop != "auth":
		return r, errors.New("another qop than auth")
	case r.user == "":
		return r, errNoUser
	case r.cnonce == "", r.response == "":
		return r, errors.New("a response without cnonce or response")
	case r.realm != saslRealm:
		return r, errors.New("another realm")
	case d["nc"] != "00000001":
		return r, errors.New("another nonce count than 1")
	case !strings.EqualFold(d["digest-uri"], digestURI):
		return r, errors.New("another digest-uri")
	}
	return r, nil
}

// key is the hash of A1.
func (r digestResponse) key(password string) string {
	secret := md5.Sum([]byte(toLatin1(r.user) + ":" + r.realm + ":" + toLatin1(password)))
	a1 := string(secret[:]) + ":" + r.nonce + ":" + r.cnonce
	if r.authzid != "" {
		a1 += ":" + r.authzid
	}
	return hexMD5(a1)
}

// value is the response-value for an A2.
func (r digestResponse) value(key, a2 string) string {
	return hexMD5(key + ":" + r.nonce + ":00000001:" + r.cnonce + ":auth:" + hexMD5(a2))
}

func hexMD5(s string) string {
	sum := md5.Sum([]byte(s))
	return hex.EncodeToString(sum[:])
}

// toLatin1 returns a text in ISO 8859-1 if that has all its characters, as it is hashed.
func toLatin1(s string) string {
	b := make([]byte, 0, len(s))
	for _, r := range s {
		if r > 0xff {
			return s
		}
		b = append(b, byte(r))
	}
	return string(b)
}

func fromLatin1(s string) string {
	r := make([]rune, 0, len(s))
	for i := range len(s) {
		r = append(r, rune(s[i]))
	}
	return string(r)
}

// directive matches the next name=value or name="value" of a comma-separated list.
var directive = regexp.MustCompile(`(?s)^([^=]*)=\s*(?:"((?:[^"\\]|\\.)*)"|([^",\s][^,]*)?(?:,|$))`)

var escaped = regexp.MustCompile(`(?s)\\(.)`)

// parseDirectives reads a list of directives. None may appear twice.
func parseDirectives(s string) (map[string]string, error) {
	all := make(map[string]string)
	for s = strings.TrimLeft(s, " \t\r\n,"); s != ""; s = strings.TrimLeft(s, " \t\r\n,") {
		parts := directive.FindStringSubmatch(s)
		if parts == nil {
			return nil, errors.New("a directive without a value, or a quoted value without an end")
		}
		name := strings.ToLower(strings.TrimSpace(parts[1]))
		if _, twice := all[name]; name == "" || twice {
			return nil, errors.New("a directive that stands twice, or without a name")
		}
		all[name] = escaped.ReplaceAllString(parts[2], "$1") + strings.TrimSpace(parts[3])
		s = s[len(parts[0]):]
	}
	return all, nil
}
