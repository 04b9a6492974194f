// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"crypto/md5" //nolint:gosec // DIGEST-MD5 is defined with it
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"reflect"
	"regexp"
	"runtime"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/gocurator/curator/framework/internal/conduit"
	"github.com/gocurator/curator/internal/secrets"
	"github.com/gocurator/curator/internal/usercode"
)

// SASLMechanism authenticates the connections of a client by SASL (RFC 4422), see [WithSASL].
// [DigestMD5] is one. Other modules may implement more. It must be safe for concurrent use.
type SASLMechanism interface {
	// Name is the mechanism's name, such as "DIGEST-MD5". Errors name it.
	Name() string

	// Renews reports whether a later exchange may use other credentials than this one,
	// because a function or a file is asked for them each time. A refusal then does not end
	// the client. A mechanism that keeps credentials returns a [SASLKeptExchange].
	Renews() bool

	// Start begins the exchange of one connection. It may block until the context ends, for
	// instance to get a ticket; the session may end if it takes long. An error that matches
	// [ErrAuthFailed] is a refusal, as by a server. Other errors cost the connection only.
	Start(ctx context.Context, server SASLServer) (SASLExchange, error)
}

// SASLServer is the server of one connection.
type SASLServer struct {
	Host    string   // as in the connection string, without the port
	Address net.Addr // to which the client is connected
}

// SASLExchange is the exchange of a mechanism on one connection. Its methods are called one at a
// time.
type SASLExchange interface {
	// Next returns the answer to a challenge. The first challenge is nil, and its answer is
	// the first token, which may be empty. An empty answer to a later challenge is not sent if
	// the mechanism is done. Errors count as errors of [SASLMechanism].Start, and must contain
	// no secrets.
	Next(ctx context.Context, challenge []byte) (answer []byte, err error)

	// Done reports, after Next, whether the mechanism expects no further challenge.
	Done() bool
}

// SASLKeptExchange is an exchange with credentials that the mechanism keeps, such as a ticket of an earlier
// connection. They may be stale: the server may have another key now. So a refusal of such an exchange does not count
// as one, at most once for each server until the client is connected. The client tells the mechanism, and connects
// again at once.
type SASLKeptExchange interface {
	SASLExchange

	// Refused is called when the server has refused the exchange, and before the next Start. The
	// mechanism must use other credentials then.
	Refused()
}

// startSASL adapts a mechanism to the conduit.
func startSASL(mechanism SASLMechanism) func(context.Context, string, net.Addr) (conduit.SASLStep, func(), error) {
	return func(ctx context.Context, server string, address net.Addr) (conduit.SASLStep, func(), error) {
		host, _, err := net.SplitHostPort(server)
		if err != nil {
			return nil, nil, err
		}
		var exchange SASLExchange
		if err := guardSASL(func() (err error) {
			exchange, err = mechanism.Start(ctx, SASLServer{Host: host, Address: address})
			return err
		}); err != nil {
			return nil, nil, err
		}
		if exchange == nil {
			return nil, nil, conduit.Refuse(errors.New("the mechanism has returned neither an exchange nor an error"))
		}
		step := func(ctx context.Context, challenge []byte) (answer []byte, done bool, err error) {
			err = guardSASL(func() (err error) {
				answer, err = exchange.Next(ctx, challenge)
				done = exchange.Done()
				return err
			})
			return answer, done, err
		}
		if kept, ok := exchange.(SASLKeptExchange); ok {
			return step, func() { _ = usercode.Apart(kept.Refused) }, nil // the exchange has ended, and a panic costs nothing more
		}
		return step, nil, nil
	}
}

// guardSASL calls the mechanism. A panic would end the process.
func guardSASL(call func() error) (err error) {
	p := usercode.Apart(func() { err = call() })
	switch {
	case p != nil:
		// Other values than the runtime's may have secrets in them.
		said := reflect.TypeOf(p.Value).String()
		if _, ok := p.Value.(runtime.Error); ok || p.Value == usercode.ErrExited { //nolint:errorlint // the value itself
			said = fmt.Sprint(p.Value)
		}
		return conduit.Refuse(errors.New("the mechanism panicked: " + said))
	case errors.Is(err, ErrAuthFailed):
		return conduit.Refuse(err)
	default:
		return err
	}
}

// What ZooKeeper's servers are called in DIGEST-MD5, whatever their host.
const digestURI = "zookeeper/zk-sasl-md5"

// maxDigestChallenge is the limit of RFC 2831, in bytes.
const maxDigestChallenge = 2048

// DigestMD5 is the SASL mechanism DIGEST-MD5 (RFC 2831) with quality of protection auth, for
// [WithSASL]. The server knows the password. The password does not cross the network, but an
// observer of the exchange can test guesses. Nothing protects the requests that follow. So use
// [WithTLS]. The server must prove that it knows the password as well.
//
// The user is a line user_name="password" of the section Server in the servers' JAAS file.
func DigestMD5(user, password string) SASLMechanism {
	return &digestMD5{fixed: true, ask: func(context.Context) (string, string, error) { return user, password, nil }}
}

// DigestMD5Func is [DigestMD5] with a function that is asked for user and password on each
// connection, so that they can change while the client runs. It may block until the context ends.
// Its errors must contain no secrets. An error that matches [ErrAuthFailed] is a refusal.
func DigestMD5Func(ask func(ctx context.Context) (user, password string, err error)) SASLMechanism {
	return &digestMD5{ask: ask}
}

// digestMD5 has the password in a function, because fmt cannot look into one.
type digestMD5 struct {
	fixed bool
	ask   func(context.Context) (user, password string, err error)
}

func (m *digestMD5) Name() string { return "DIGEST-MD5" }
func (m *digestMD5) Renews() bool { return !m.fixed }

func (m *digestMD5) validate() error {
	switch {
	case m.ask == nil:
		return errors.New("DIGEST-MD5 with a nil function, expected one that returns user and password")
	case m.fixed:
		return validateDigest(m.ask(context.Background()))
	default:
		return nil
	}
}

func validateDigest(user, password string, err error) error {
	switch {
	case err != nil:
		return err
	case user == "":
		return errors.New("DIGEST-MD5 with an empty user, expected a name")
	case !utf8.ValidString(user) || !utf8.ValidString(password):
		return errors.New("DIGEST-MD5 with a user or a password that is not UTF-8")
	default:
		return nil
	}
}

func (m *digestMD5) Start(ctx context.Context, _ SASLServer) (SASLExchange, error) {
	user, password, err := m.ask(ctx)
	if err != nil {
		return nil, fmt.Errorf("the function that knows user and password: %w", err)
	}
	if err := validateDigest(user, password, nil); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrAuthFailed, err)
	}
	var nonce [16]byte
	rand.Read(nonce[:]) // never returns an error
	return &digestExchange{user: user, password: secrets.Hide(password), cnonce: hex.EncodeToString(nonce[:])}, nil
}

// digestExchange is the exchange of one connection.
type digestExchange struct {
	user     string
	password secrets.Secret
	cnonce   string
	step     int
	rspauth  string // with which the server must prove that it knows the password
}

func (e *digestExchange) Done() bool { return e.step > 2 }

func (e *digestExchange) Next(_ context.Context, challenge []byte) ([]byte, error) {
	e.step++
	switch e.step {
	case 1:
		return []byte{}, nil // the server begins
	case 2:
		return e.respond(challenge)
	default:
		return nil, e.verify(challenge)
	}
}

// respond returns the digest-response of RFC 2831, section 2.1.2.
func (e *digestExchange) respond(challenge []byte) ([]byte, error) {
	d, err := parseDirectives(challenge)
	if err != nil {
		return nil, err
	}
	c, err := d.challenge()
	if err != nil {
		return nil, err
	}
	user, password := e.user, string(e.password())
	if !c.utf8 {
		if !isLatin1(e.user) || !isLatin1(password) {
			return nil, fmt.Errorf("%w: the server does not take UTF-8, and user or password are not in ISO 8859-1", ErrAuthFailed)
		}
		user = latin1(user)
	}
	key := digestKey(e.user, c.realm, password, c.nonce, e.cnonce)
	e.rspauth = digestValue(key, c.nonce, e.cnonce, "")
	var b strings.Builder
	if c.utf8 {
		b.WriteString("charset=utf-8,")
	}
	fmt.Fprintf(&b, `username="%s",realm="%s",nonce="%s",nc=00000001,cnonce="%s",digest-uri="%s",response=%s,qop=auth`,
		quoted(user), quoted(c.realm), quoted(c.nonce), e.cnonce, digestURI, digestValue(key, c.nonce, e.cnonce, "AUTHENTICATE"))
	return []byte(b.String()), nil
}

// verify checks the server's proof, which is section 2.1.3.
func (e *digestExchange) verify(challenge []byte) error {
	d, err := parseDirectives(challenge)
	if err != nil {
		return err
	}
	proof, err := d.one("rspauth")
	if err != nil {
		return err
	}
	if subtle.ConstantTimeCompare([]byte(proof), []byte(e.rspauth)) != 1 {
		return fmt.Errorf("%w: the server has not proved that it knows the password", ErrAuthFailed)
	}
	return nil
}

// digestKey is the hash of A1, in which the password is.
func digestKey(user, realm, password, nonce, cnonce string) string {
	secret := md5.Sum([]byte(hashed(user) + ":" + hashed(realm) + ":" + hashed(password))) //nolint:gosec // as above
	return hexMD5(string(secret[:]) + ":" + nonce + ":" + cnonce)
}

// digestValue is the response-value of the client, by the method AUTHENTICATE, and of the server, without one.
func digestValue(key, nonce, cnonce, method string) string {
	return hexMD5(key + ":" + nonce + ":00000001:" + cnonce + ":auth:" + hexMD5(method+":"+digestURI))
}

func hexMD5(s string) string {
	sum := md5.Sum([]byte(s)) //nolint:gosec // as above
	return hex.EncodeToString(sum[:])
}

// hashed returns a text as it is hashed: in ISO 8859-1 if that has all its characters.
func hashed(s string) string {
	if !isLatin1(s) {
		return s
	}
	return latin1(s)
}

func isLatin1(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r > unicode.MaxLatin1 })
}

func latin1(s string) string {
	b := make([]byte, 0, len(s))
	for _, r := range s {
		b = append(b, byte(r))
	}
	return string(b)
}

var quoter = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

func quoted(s string) string { return quoter.Replace(s) }

// digestChallenge is what a client needs of a challenge.
type digestChallenge struct {
	realm, nonce string
	utf8         bool
}

// directives are the values in a challenge, by their names in lower case.
type directives map[string][]string

// challenge checks the digest-challenge by section 2.1.1.
func (d directives) challenge() (c digestChallenge, err error) {
	if c.nonce, err = d.one("nonce"); err != nil {
		return c, err
	}
	if c.nonce == "" {
		return c, malformedChallenge("an empty nonce")
	}
	algorithm, err := d.one("algorithm")
	if err != nil {
		return c, err
	}
	if algorithm != "md5-sess" {
		return c, malformedChallenge("another algorithm than md5-sess")
	}
	if qops := d["qop"]; len(qops) > 1 || len(qops) == 1 && !hasToken(qops[0], "auth") {
		return c, fmt.Errorf("%w: the server does not offer qop=auth", ErrAuthFailed)
	}
	charsets := d["charset"]
	if len(charsets) > 1 || len(charsets) == 1 && !strings.EqualFold(charsets[0], "utf-8") {
		return c, malformedChallenge("another charset than utf-8")
	}
	c.utf8 = len(charsets) == 1
	if realms := d["realm"]; len(realms) > 0 {
		c.realm = realms[0] // ZooKeeper has one
	}
	return c, nil
}

func hasToken(list, token string) bool {
	for item := range strings.SplitSeq(list, ",") {
		if strings.EqualFold(strings.TrimSpace(item), token) {
			return true
		}
	}
	return false
}

func (d directives) one(name string) (string, error) {
	values := d[name]
	if len(values) != 1 {
		return "", malformedChallenge(fmt.Sprintf("%d times %s, expected once", len(values), name))
	}
	return values[0], nil
}

// malformedChallenge does not show the challenge, which may be of any kind.
func malformedChallenge(what string) error {
	return fmt.Errorf("malformed DIGEST-MD5 challenge: %s", what)
}

// directive matches the next name=value or name="value" of a comma-separated list, up to the comma.
var directive = regexp.MustCompile(`(?s)^([^=",\s]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"\s*(?:,|$)|([^",\s][^,]*)?(?:,|$))`)

var escaped = regexp.MustCompile(`(?s)\\(.)`)

// parseDirectives reads a challenge.
func parseDirectives(challenge []byte) (directives, error) {
	if len(challenge) > maxDigestChallenge {
		return nil, malformedChallenge(fmt.Sprintf("%d bytes, at most %d are accepted", len(challenge), maxDigestChallenge))
	}
	found := make(directives)
	for rest := string(challenge); ; {
		if rest = strings.TrimLeft(rest, " \t\r\n,"); rest == "" {
			return found, nil
		}
		parts := directive.FindStringSubmatch(rest)
		if parts == nil {
			return nil, malformedChallenge("a directive without a name or a value, a quoted value without an end, or something behind one")
		}
		name := strings.ToLower(parts[1])
		found[name] = append(found[name], escaped.ReplaceAllString(parts[2], "$1")+strings.TrimSpace(parts[3]))
		rest = rest[len(parts[0]):]
	}
}
