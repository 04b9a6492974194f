// SPDX-License-Identifier: Apache-2.0

package zkserver_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/testing/zkserver"
)

// superDigest is that of super:secret, as "openssl dgst -sha1 -binary | base64" has it.
const superDigest = "super:lK75jTNcA+U9vtVEw5vB51mj/w4="

func scriptSuper(s *stage) {
	s.connect("b")
	s.connect("c")
	none := body{}.acl(31, "digest", "nobody:Xq4kdA3rIrGAGmJ5qAz3oCCWRgo=")
	s.do("b", 100, body{}.int(0).str("digest").str("super:wrong"))
	s.do("c", 100, body{}.int(0).str("digest").str("super:secret"))
	s.do("c", 100, body{}.int(0).str("digest").str("super:secret"))
	for _, who := range []string{"a", "b", "c"} {
		p := s.root + "/of-" + who
		s.do(who, 107, body{}, identities)
		s.do(who, 1, body{}.str(p).str("x").join(none).int(0), path)
		s.do(who, 1, body{}.str(p+"/child").str("x").join(body{}.acl(31, "auth", "")).int(0), path)
		s.do(who, 4, body{}.str(p).flag(true), data, statOf)
		s.do(who, 5, body{}.str(p).str("y").int(-1), statOf)
		s.do(who, 6, body{}.str(p), acl, statOf)
		s.do(who, 6, body{}.str(p+"/child"), acl, statOf)
		s.do(who, 7, body{}.str(p).join(none).int(-1), statOf)
		s.do(who, 7, body{}.str(p+"/child").acl(31, "super", "").int(-1), statOf)
		s.do(who, 5, body{}.str("/zookeeper/config").str("x").int(-1), statOf)
		s.do(who, 2, body{}.str(p+"/child").int(-1))
	}
}

func TestSuperUser(t *testing.T) {
	srv := start(t, zkserver.WithSuperDigest(zkserver.SuperDigest("secret")))
	require.Equal(t, superDigest, zkserver.SuperDigest("secret"))
	admin, other := rawTo(t, srv, connection{}), rawTo(t, srv, connection{})
	locked := body{}.str("/locked").str("x").acl(31, "digest", "nobody:Xq4kdA3rIrGAGmJ5qAz3oCCWRgo=").int(0)
	other.must(t, 1, locked)
	require.EqualValues(t, -102, admin.code(t, 4, body{}.str("/locked").flag(false)))
	admin.must(t, 100, body{}.int(0).str("digest").str("super:secret"))
	other.must(t, 100, body{}.int(0).str("digest").str("super:guess"))
	admin.must(t, 4, body{}.str("/locked").flag(true))
	require.EqualValues(t, -102, other.code(t, 4, body{}.str("/locked").flag(false)))
	other.must(t, 2, body{}.str("/locked").int(-1))
	require.Equal(t, []rawEvent{{2, "/locked"}}, admin.events(t), "the super user hears of what others may not read")
}

func TestSuperNoSuperUserByDefault(t *testing.T) {
	srv := start(t)
	c := rawTo(t, srv, connection{})
	c.must(t, 100, body{}.int(0).str("digest").str("super:secret"))
	who := c.must(t, 107, body{})
	require.NotContains(t, identities(nil, &who.fields), "super:\"")
	require.EqualValues(t, -102, c.code(t, 5, body{}.str("/zookeeper/config").str("x").int(-1)))
}
