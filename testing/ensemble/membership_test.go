// SPDX-License-Identifier: Apache-2.0

//go:build linux

package ensemble_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/testing/ensemble"
)

// TestServersJoinAndLeave while an observer, which has no vote, serves clients.
func TestServersJoinAndLeave(t *testing.T) {
	t.Parallel()
	e := start(t, ensemble.WithSize(3), ensemble.WithObservers(1), ensemble.WithConfig("reconfigEnabled", "true"),
		ensemble.WithSuperDigest("super", "secret"), ensemble.WithSyncLimit(20))
	observer := e.Server(3)
	require.Equal(t, ensemble.ModeObserver, must.Get(observer.Mode(t.Context()))(t))
	followers := must.Get(e.Followers(t.Context()))(t)
	require.Len(t, followers, 2)
	conn := connect(t, strings.Split(e.ConnectString(), ",")...)
	require.NoError(t, conn.AddAuth("digest", []byte("super:secret")))
	added := must.Get(e.Add(t.Context()))(t)
	require.Equal(t, 5, added.ID())
	must.Get(conn.IncrementalReconfig([]string{added.Line()}, nil, -1))(t)
	must.Get(connect(t, added.Addr()).Create("/a", nil, 0, zk.WorldACL(zk.PermAll)))(t)

	// With its vote three of four are a majority, and with the departure of the first two of three.
	first := e.Server(0)
	must.Get(conn.IncrementalReconfig(nil, []string{strconv.Itoa(first.ID())}, -1))(t)
	require.NoError(t, e.Remove(first))
	require.ErrorIs(t, first.Restart(t.Context()), ensemble.ErrClosed)
	require.Len(t, e.Servers(), 4)
	require.NoError(t, e.AwaitSync(t.Context()))
	followers = must.Get(e.Followers(t.Context()))(t)
	idle := followers[0]
	if idle == added {
		idle = followers[1]
	}
	require.NoError(t, idle.Kill())
	must.Get(e.Leader(t.Context()))(t)
	_, err := connect(t, observer.Addr()).Create("/b", nil, 0, zk.WorldACL(zk.PermAll))
	require.NoError(t, err, "two of three are a majority, the added one among them")
}
