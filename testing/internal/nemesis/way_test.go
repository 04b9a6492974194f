// SPDX-License-Identifier: Apache-2.0

package main

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/testing/zkserver"
)

// What a server says to have deleted is recorded, with the transaction, if it is a node of a lock.
func TestWayDeletionsAreRecorded(t *testing.T) {
	t.Parallel()
	server := must.Get(zkserver.Start())(t)
	defer func() { require.NoError(t, server.Close()) }()
	file := filepath.Join(t.TempDir(), "history")
	h := must.Get(createHistory(file, "c1"))(t)
	w := must.Get(newWay(clientConfig{Servers: []string{server.Addr()}, Proxied: true}, h))(t)
	client := must.Get(framework.Connect(t.Context(), w.connectString(), framework.WithSessionTimeout(20*time.Second)))(t)
	const node = locksFolder + "mutex-s/lock-1"
	for _, path := range []string{node, "/elsewhere"} {
		must.Get(client.Create(t.Context(), path, nil, framework.CreatingParentsIfNeeded()))(t)
		require.NoError(t, client.Delete(t.Context(), path))
		require.ErrorIs(t, client.Delete(t.Context(), path), framework.ErrNoNode)
	}
	_ = client.Close() // fails on a busy machine: the server has only a second to confirm it
	require.NoError(t, w.close())
	require.NoError(t, h.close())

	events := must.Get(readEvents(file))(t)
	require.Len(t, events, 1)
	require.Equal(t, deleted, events[0].Kind)
	require.Equal(t, node, events[0].Node)
	require.Positive(t, events[0].Zxid)
}
