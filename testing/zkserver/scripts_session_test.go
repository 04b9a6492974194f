// SPDX-License-Identifier: Apache-2.0

package zkserver_test

import (
	"fmt"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testkit/must"
)

func scriptACL(s *stage) {
	s.connect("b")
	secret := body{}.acl(31, "digest", "bob:Xq4kdA3rIrGAGmJ5qAz3oCCWRgo=")
	create := func(p string, acl body) body { return body{}.str(s.root + p).str("x").join(acl).int(0) }
	s.do("a", 100, body{}.int(0).str("digest").str("bob:secret"))
	s.do("a", 1, create("/auth", body{}.acl(31, "auth", "")), path)
	s.do("a", 6, body{}.str(s.root+"/auth"), acl, statOf)
	s.do("b", 6, body{}.str(s.root+"/auth"), acl, statOf)
	s.do("b", 4, body{}.str(s.root+"/auth").flag(true), data, statOf)
	s.do("b", 5, body{}.str(s.root+"/auth").str("").int(9), statOf)
	s.do("b", 1, create("/auth/child", body{}.open()), path)
	s.do("b", 8, body{}.str(s.root+"/auth").flag(false), names)
	s.do("b", 12, body{}.str(s.root+"/auth").flag(false), names, statOf)
	s.do("b", 104, body{}.str(s.root+"/auth"), number)
	s.do("b", 7, body{}.str(s.root+"/auth").open().int(-1), statOf)
	s.do("b", 2, body{}.str(s.root+"/auth/child").int(-1))
	s.do("b", 22, multiOf(4, body{}.str(s.root+"/auth").flag(false)), results)
	s.do("b", 14, multiOf(13, body{}.str(s.root+"/auth").int(0)), results)
	s.do("b", 2, body{}.str(s.root+"/auth").int(-1)) // the parent allows it
	s.do("b", 1, create("/auth2", body{}.acl(31, "auth", "")), path)
	s.do("b", 1, create("/secret", secret), path)
	s.do("a", 6, body{}.str(s.root+"/secret"), acl, statOf)

	s.do("a", 1, create("/read", body{}.int(2).int(1).str("world").str("anyone").int(16).str("digest").str("x:y")), path)
	s.do("a", 6, body{}.str(s.root+"/read"), acl, statOf)
	s.do("a", 7, body{}.str(s.root+"/read").open().int(0), statOf)
	s.do("a", 1, create("/mine", body{}.int(2).int(1).str("world").str("anyone").int(16).str("auth").str("")), path)
	s.do("b", 6, body{}.str(s.root+"/mine"), acl, statOf)
	s.do("a", 6, body{}.str(s.root+"/mine"), acl, statOf)
	s.do("a", 7, body{}.str(s.root+"/mine").open().int(3), statOf)
	s.do("a", 7, body{}.str(s.root+"/mine").open().int(0), statOf)
	s.do("b", 7, body{}.str(s.root+"/mine").acl(31, "ip", "127.0.0.1").int(-1), statOf)
	s.do("b", 4, body{}.str(s.root+"/mine").flag(false), data, statOf)
	s.do("b", 7, body{}.str(s.root+"/mine").acl(31, "ip", "127.0.0.0/8").int(-1), statOf)
	s.do("b", 4, body{}.str(s.root+"/mine").flag(false), data, statOf)
	s.do("b", 7, body{}.str(s.root+"/mine").acl(31, "ip", "10.0.0.0/8").int(-1), statOf)
	s.do("b", 4, body{}.str(s.root+"/mine").flag(false), data, statOf)
	for _, one := range []body{
		body{}.acl(31, "ip", "300.0.0.1"), body{}.acl(31, "ip", "127.0.0.1/33"), body{}.acl(31, "ip", "127.0.0.1/x"),
		body{}.acl(31, "digest", "nohash"), body{}.acl(31, "digest", "a:b:c"), body{}.acl(31, "world", "nobody"),
		body{}.acl(31, "scheme", "x"), body{}.acl(31, "", ""), body{}.acl(0, "world", "anyone"),
		body{}.int(1).int(31).str("digest").null(), body{}.int(1).int(31).str("auth").null(), body{}.int(1).int(31).null().str("x"),
	} {
		s.do("b", 7, body{}.str(s.root).join(one).int(99), statOf)
	}
	double := body{}.int(2).int(31).str("world").str("anyone").int(31).str("world").str("anyone")
	s.do("b", 1, create("/double", double), path)
	s.do("b", 6, body{}.str(s.root+"/double"), acl, statOf)
	s.do("b", 6, body{}.str(s.root+"/none"), acl, statOf)
	s.do("b", 7, body{}.str(s.root+"/none").open().int(-1), statOf)
}

func scriptSessions(s *stage) {
	s.connect("b")
	s.do("b", 1, createBody(s.root+"/e", "", 1), path)
	s.do("b", 4, body{}.str(s.root+"/e").flag(true), data, statOf)
	same := func(*connection) {}
	s.reconnect("c", "b", same)
	s.do("b", 11, body{})
	s.do("c", 5, body{}.str(s.root+"/e").str("").int(-1), statOf)
	s.reconnect("d", "c", func(c *connection) { c.timeoutMs = 1 })
	s.reconnect("e", "d", func(c *connection) { c.timeoutMs = 100_000 })
	s.reconnect("f", "e", func(c *connection) { c.noReadOnly = true })
	s.reconnect("x1", "f", func(c *connection) { c.password = make([]byte, 16) })
	s.do("f", 11, body{}) // closed, although the password was wrong
	s.do("x1", 11, body{})
	s.reconnect("x2", "f", func(c *connection) { c.password = []byte{} })
	s.reconnect("x3", "f", func(c *connection) { c.session++ })
	s.reconnect("x4", "f", func(c *connection) { c.lastZxid = 1 << 60 })
	s.reconnect("x5", "f", func(c *connection) { c.lastZxid, c.session = 1<<60, 0 })
	s.reconnect("g", "f", same)
	s.do("g", -11, body{})
	s.reconnect("x6", "g", same)
	s.do("a", 3, body{}.str(s.root+"/e").flag(false), statOf)
}

func scriptExpiry(s *stage) {
	s.connect("b")
	s.reconnect("c", "b", func(c *connection) { c.session, c.timeoutMs = 0, 1000 })
	s.do("c", 1, createBody(s.root+"/e", "", 1), path)
	s.do("b", 4, body{}.str(s.root+"/e").flag(true), data, statOf)
	s.do("b", 8, body{}.str(s.root).flag(true), names)
	require.NoError(s.tb, s.client("c").nc.Close())
	for range 2 {
		frame := must.Get(s.client("b").read())(s.tb)
		s.lines = append(s.lines, fmt.Sprintf("%x", frame))
	}
	s.do("b", 3, body{}.str(s.root).flag(false), statOf)
	s.reconnect("d", "c", func(*connection) {})
}
