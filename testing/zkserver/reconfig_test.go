// SPDX-License-Identifier: Apache-2.0

package zkserver_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/testing/ensemble"
	"github.com/gocurator/curator/testing/zkserver"
)

// TestReconfigAsApache asks for a reconfig where it is allowed. Where it is not, the random programs ask.
func TestReconfigAsApache(t *testing.T) {
	if testing.Short() {
		t.Skip("starts Apache ZooKeeper")
	}
	e, err := ensemble.Start(t.Context(), ensemble.WithConfig("reconfigEnabled", "true"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	ours := start(t, zkserver.WithReconfigEnabled()).Addr()
	s := script{"reconfig", scriptReconfig}
	require.Equal(t, perform(t, e.Server(0).Addr(), s), perform(t, ours, s))
}

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
