// SPDX-License-Identifier: Apache-2.0

package zkserver_test

import (
	"crypto/md5"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/testing/ensemble"
	"github.com/gocurator/curator/testing/zkserver"
)

var saslUsers = map[string]string{"alice": "wonderland", "super": "x", "jürgen": "pässwörd"}

const (
	opCreate = 1
	opGetACL = 6
	opSASL   = 102
	opWhoAmI = 107
)

func saslServer(tb testing.TB, opts ...zkserver.Option) *zkserver.Server {
	tb.Helper()
	return start(tb, append([]zkserver.Option{zkserver.WithSASLUsers(saslUsers)}, opts...)...)
}

// digest is what a client of DIGEST-MD5 sends.
type digest struct {
	user, realm, nonce, nc, uri, qop, charset, password, extra string
}

func saslDigest(nonce string) digest {
	return digest{
		user: "alice", realm: "zk-sasl-md5", nonce: nonce, nc: "00000001", uri: "zookeeper/zk-sasl-md5",
		qop: "auth", charset: "utf-8", password: "wonderland",
	}
}

func (d digest) value(method string) string {
	hex := func(s string) string { return fmt.Sprintf("%x", md5.Sum([]byte(s))) }
	secret := md5.Sum([]byte(d.user + ":" + d.realm + ":" + d.password))
	a1 := string(secret[:]) + ":" + d.nonce + ":cnonce"
	return hex(hex(a1) + ":" + d.nonce + ":" + d.nc + ":cnonce:auth:" + hex(method+":"+d.uri))
}

func (d digest) String() string {
	return `charset=` + d.charset + `,username="` + d.user + `",realm="` + d.realm + `",nonce="` + d.nonce + `",nc=` + d.nc +
		`,cnonce="cnonce",digest-uri="` + d.uri + `",qop=` + d.qop + `,response=` + d.value("AUTHENTICATE") + d.extra
}

var nonceOf = regexp.MustCompile(`nonce="([^"]*)"`)

// challenged begins an exchange and returns the challenge and its nonce.
func challenged(tb testing.TB, c *rawClient) (challenge, nonce string) {
	tb.Helper()
	reply := c.must(tb, opSASL, body{}.str(""))
	challenge = reply.fields.str()
	found := nonceOf.FindStringSubmatch(challenge)
	require.Len(tb, found, 2, challenge)
	return challenge, found[1]
}

func dialSASL(tb testing.TB, addr string) *rawClient {
	tb.Helper()
	nc := must.Get(dialTCP(addr))(tb)
	tb.Cleanup(func() { _ = nc.Close() }) // the server may have closed it
	c := must.Get(handshake(nc, connection{timeoutMs: 10_000}))(tb)
	return c
}

// saslSteps are exchanges of which each records what the server says.
var saslSteps = map[string]func(tb testing.TB, c *rawClient) string{
	"accepted": func(tb testing.TB, c *rawClient) string {
		challenge, nonce := challenged(tb, c)
		proof := c.must(tb, opSASL, body{}.str(saslDigest(nonce).String()))
		require.Equal(tb, "rspauth="+saslDigest(nonce).value(""), proof.fields.str())
		created := c.must(tb, opCreate, body{}.str("/sasl").str("").acl(31, "auth", "").int(0))
		acl := c.must(tb, opGetACL, body{}.str("/sasl"))
		c.must(tb, 2, body{}.str("/sasl").int(-1))
		who := c.must(tb, opWhoAmI, body{})
		require.Contains(tb, string(who.fields.b), string(body{}.str("sasl").str("alice").b))
		return fmt.Sprintf("%s %q %x %d %d %d", strings.Replace(challenge, nonce, "N", 1), created.fields.b, acl.fields.b[:30],
			len(who.fields.b), proof.zxid, proof.err)
	},
	"a second exchange": func(tb testing.TB, c *rawClient) string {
		_, nonce := challenged(tb, c)
		c.must(tb, opSASL, body{}.str(saslDigest(nonce).String()))
		reply, err := c.call(opSASL, body{}.str(""))
		return fmt.Sprintf("%d %x %t", reply.err, reply.fields.b, ended(err))
	},
	"an initial response": func(tb testing.TB, c *rawClient) string {
		reply := c.must(tb, opSASL, body{}.str(saslDigest("abc").String()))
		return nonceOf.ReplaceAllString(reply.fields.str(), "")
	},
	"a null token": func(_ testing.TB, c *rawClient) string {
		_, err := c.call(opSASL, body{}.null())
		return fmt.Sprint(ended(err))
	},
	"ids": func(tb testing.TB, c *rawClient) string {
		_, nonce := challenged(tb, c)
		c.must(tb, opSASL, body{}.str(saslDigest(nonce).String()))
		var said strings.Builder
		for _, id := range []string{"a", "", "a/b", "a/b@C", "a@C", "a@", "a@b@c", "a/b/c", "a/b/c@d", "a b", "ü"} {
			fmt.Fprintf(&said, "%s:%d ", id, c.code(tb, opCreate, body{}.str("/ids-").str("").acl(31, "sasl", id).int(3)))
		}
		return said.String()
	},
}

// badDigests are responses that a server must refuse.
var badDigests = map[string]func(d *digest){
	"wrong password":     func(d *digest) { d.password = "x" },
	"unknown user":       func(d *digest) { d.user, d.password = "mallory", "x" }, // 3.8.0 takes the password of the last known one
	"no user":            func(d *digest) { d.user = "" },
	"another nonce":      func(d *digest) { d.nonce = "abc" },
	"no nonce":           func(d *digest) { d.nonce = "" },
	"another realm":      func(d *digest) { d.realm = "other" },
	"no realm":           func(d *digest) { d.realm = "" },
	"another count":      func(d *digest) { d.nc = "00000002" },
	"another digest-uri": func(d *digest) { d.uri = "zookeeper/other" },
	"another qop":        func(d *digest) { d.qop = "auth-int" },
	"another charset":    func(d *digest) { d.charset = "latin1" },
	"twice a user":       func(d *digest) { d.extra = `,username="alice"` },
	"without an end":     func(d *digest) { d.extra = `,x="` },
	"too long":           func(d *digest) { d.extra = ",x=" + strings.Repeat("x", 4096) },
}

// refusal sends a token that the server must refuse, and returns how it does.
func (c *rawClient) refusal(tb testing.TB, token string) string {
	tb.Helper()
	reply, err := c.call(opSASL, body{}.str(token))
	if err != nil {
		return "hung up"
	}
	if reply.err == 0 {
		return "accepted"
	}
	c.hungUp(tb)
	return fmt.Sprintf("%d %d %x", reply.err, reply.zxid, reply.fields.b)
}

// saslTranscript plays all exchanges on a server.
func saslTranscript(tb testing.TB, addr string) map[string]string {
	tb.Helper()
	said := make(map[string]string)
	for name, step := range saslSteps {
		said[name] = step(tb, dialSASL(tb, addr))
	}
	for name, spoil := range badDigests {
		c := dialSASL(tb, addr)
		_, nonce := challenged(tb, c)
		d := saslDigest(nonce)
		spoil(&d)
		said[name] = c.refusal(tb, d.String())
	}
	return said
}

// demandTranscript is what a server that demands SASL says to clients without it.
func demandTranscript(tb testing.TB, addr string) map[string]string {
	tb.Helper()
	said := make(map[string]string)
	for name, op := range map[string]int32{"exists": 3, "ping": opPing, "close": opClose, "unknown": 99} {
		c := dialSASL(tb, addr)
		reply, err := c.call(op, body{}.str("/").flag(false))
		require.NoError(tb, err, name)
		c.hungUp(tb)
		said[name] = fmt.Sprintf("%d %d %x", reply.err, reply.zxid, reply.fields.b)
	}
	c := dialSASL(tb, addr)
	c.must(tb, 100, body{}.int(0).str("digest").str("bob:x"))
	challenged(tb, c)
	said["refused"] = c.refusal(tb, saslDigest("abc").String())
	return said
}

// TestSASLAsApache plays the same exchanges on both servers.
func TestSASLAsApache(t *testing.T) {
	ours := saslTranscript(t, saslServer(t).Addr())
	for name := range badDigests {
		require.Contains(t, []string{"-115 0 ffffffff", "hung up"}, ours[name], name)
	}
	demand := demandTranscript(t, saslServer(t, zkserver.WithRequireClientAuthScheme("sasl")).Addr())
	for name, said := range demand {
		require.Contains(t, said, "-124 0", name)
	}
	if testing.Short() {
		return
	}
	require.Equal(t, saslTranscript(t, startApache(t, ensemble.WithSASLUsers(saslUsers))), ours)
	require.Equal(t, demandTranscript(t, startApache(t, ensemble.WithSASLUsers(saslUsers), ensemble.WithRequiredSASL())), demand)
}

// TestSASLUsersThatChange: those of an exchange count, and what was proved stays.
func TestSASLUsersThatChange(t *testing.T) {
	srv := saslServer(t)
	c := dialSASL(t, srv.Addr())
	_, nonce := challenged(t, c)
	c.must(t, opSASL, body{}.str(saslDigest(nonce).String()))
	require.NoError(t, srv.SetSASLUsers(nil))
	c.must(t, opCreate, body{}.str("/a").str("").acl(31, "sasl", "alice").int(0))
	other := dialSASL(t, srv.Addr())
	_, nonce = challenged(t, other)
	require.Equal(t, "-115 0 ffffffff", other.refusal(t, saslDigest(nonce).String()))
	require.Error(t, srv.SetSASLUsers(map[string]string{"a/b": ""}))
}

// TestSASLOptions: what cannot be is refused.
func TestSASLOptions(t *testing.T) {
	for _, option := range []zkserver.Option{
		zkserver.WithSASLUsers(map[string]string{"": "x"}), zkserver.WithSASLUsers(map[string]string{"a@B": "x"}),
		zkserver.WithRequireClientAuthScheme("digest"),
	} {
		_, err := zkserver.Start(option)
		require.ErrorContains(t, err, "expected")
	}
}
