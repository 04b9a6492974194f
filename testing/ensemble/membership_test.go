// SPDX-License-Identifier: Apache-2.0

//go:build linux

package ensemble_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/testing/ensemble"
)

// TestServersJoinAndLeave while an observer, which has no vote, serves clients.
func TestServersJoinAndLeave(t *testing.T) {
	t.Parallel()
	e := start(t, ensemble.WithSize(3), ensemble.WithObservers(1), ensemble.WithConfig("reconfigEnabled", "true"),
		ensemble.WithSuperDigest("super", "secret"), ensemble.WithSyncLimit(20))
	observer := e.Server(3)
	mode, err := observer.Mode(t.Context())
	require.NoError(t, err)
	require.Equal(t, ensemble.ModeObserver, mode)
	followers, err := e.Followers(t.Context())
	require.NoError(t, err)
	require.Len(t, followers, 2)
	conn := connect(t, strings.Split(e.ConnectString(), ",")...)
	require.NoError(t, conn.AddAuth("digest", []byte("super:secret")))
	added, err := e.Add(t.Context())
	require.NoError(t, err)
	require.Equal(t, 5, added.ID())
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
	require.Len(t, e.Servers(), 4)
	require.NoError(t, e.AwaitSync(t.Context()))
	followers, err = e.Followers(t.Context())
	require.NoError(t, err)
	idle := followers[0]
	if idle == added {
		idle = followers[1]
	}
	require.NoError(t, idle.Kill())
	_, err = e.Leader(t.Context())
	require.NoError(t, err)
	_, err = connect(t, observer.Addr()).Create("/b", nil, 0, zk.WorldACL(zk.PermAll))
	require.NoError(t, err, "two of three are a majority, the added one among them")
}
