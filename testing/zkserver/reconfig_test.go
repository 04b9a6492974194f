// SPDX-License-Identifier: Apache-2.0

package zkserver_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/testing/zkserver"
)

func scriptReconfig(s *stage) {
	s.do("a", 4, body{}.str("/zookeeper/config").flag(true), data, statOf)
	s.do("a", 16, body{}.str("").str("").str("").long(-1), data)
	s.do("a", 16, body{}.str("server.2=127.0.0.1:1:2;3").null().null().long(-1), data)
	s.do("a", 16, body{}.null().str("1").null().long(7), data)
	s.do("a", 16, body{}.null().null().str("server.1=127.0.0.1:1:2;3").long(0), data)
	s.do("a", 16, body{}, data)
	s.do("a", 16, body{}.int(-2).null().null().long(0), data)
	s.do("a", 16, body{}.int(9).null().null().long(0), data)
	s.do("a", 5, body{}.str("/zookeeper/config").str("x").int(-1), statOf)
	s.do("a", 6, body{}.str("/zookeeper/config"), acl, statOf)
	s.do("a", 3, body{}.str(s.root).flag(false), statOf)
}

func TestReconfigIsRefused(t *testing.T) {
	reconfig := body{}.str("").str("").str("").long(-1)
	require.EqualValues(t, -123, rawTo(t, start(t), connection{}).code(t, 16, reconfig))
	require.EqualValues(t, -6, rawTo(t, start(t, zkserver.WithReconfigEnabled()), connection{}).code(t, 16, reconfig))
}
