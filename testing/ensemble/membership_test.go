// SPDX-License-Identifier: Apache-2.0

//go:build linux

package ensemble_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/testing/ensemble"
)

func TestFiveServersLoseTwoAndAnObserverDoesNotCount(t *testing.T) {
	e := start(t, ensemble.WithSize(5), ensemble.WithObservers(1))
	require.Len(t, e.Servers(), 6)
	mode, err := e.Server(5).Mode(t.Context())
	require.NoError(t, err)
	require.Equal(t, ensemble.ModeObserver, mode)
	followers, err := e.Followers(t.Context())
	require.NoError(t, err)
	require.Len(t, followers, 4)
	require.NoError(t, e.AwaitSync(t.Context()))
	_, err = connect(t, e.Server(5).Addr()).Create("/a", nil, 0, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)

	for _, s := range followers[:2] {
		require.NoError(t, s.Kill())
	}
	_, err = e.Leader(t.Context())
	require.NoError(t, err)
	_, err = connect(t, e.Server(5).Addr()).Create("/b", nil, 0, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
}

func TestServerJoinsAndLeaves(t *testing.T) {
	e := start(t, ensemble.WithSize(3), ensemble.WithConfig("reconfigEnabled", "true"), ensemble.WithSuperDigest("super", "secret"), ensemble.WithSyncLimit(20))
	conn := connect(t, strings.Split(e.ConnectString(), ",")...)
	require.NoError(t, conn.AddAuth("digest", []byte("super:secret")))
	added, err := e.Add(t.Context())
	require.NoError(t, err)
	require.Equal(t, 4, added.ID())
	_, err = conn.IncrementalReconfig([]string{added.Line()}, nil, -1)
	require.NoError(t, err)
	_, err = connect(t, added.Addr()).Create("/a", nil, 0, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)

	// With its vote three of four are a majority, and with the departure of the first two of three.
	first := e.Server(0)
	_, err = conn.IncrementalReconfig(nil, []string{strconv.Itoa(first.ID())}, -1)
	require.NoError(t, err)
	require.NoError(t, e.Remove(first))
	require.ErrorIs(t, first.Restart(t.Context()), ensemble.ErrClosed)
	require.Len(t, e.Servers(), 3)
	leader, err := e.Leader(t.Context())
	require.NoError(t, err)
	require.NoError(t, e.AwaitSync(t.Context()))
	idle := slices.DeleteFunc(e.Servers(), func(s *ensemble.Server) bool { return s == leader || s == added })
	require.NoError(t, idle[0].Kill())
	_, err = connect(t, added.Addr()).Create("/b", nil, 0, zk.WorldACL(zk.PermAll))
	require.NoError(t, err, "two of three are a majority, the added one among them")
}

func TestAddNeedsAQuorum(t *testing.T) {
	e := start(t)
	_, err := e.Add(t.Context())
	require.ErrorContains(t, err, "expected WithSize(3) or more")
}
