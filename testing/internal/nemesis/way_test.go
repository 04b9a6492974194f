// SPDX-License-Identifier: Apache-2.0

package main

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/testing/zkserver"
)

// What a server says to have deleted is recorded, with the transaction, if it is a node of a lock.
func TestWayDeletionsAreRecorded(t *testing.T) {
	t.Parallel()
	server, err := zkserver.Start()
	require.NoError(t, err)
	defer func() { require.NoError(t, server.Close()) }()
	file := filepath.Join(t.TempDir(), "history")
	h, err := createHistory(file, "c1")
	require.NoError(t, err)
	w, err := newWay(clientConfig{Servers: []string{server.Addr()}, Proxied: true}, h)
	require.NoError(t, err)
	client, err := framework.Connect(t.Context(), w.connectString(), framework.WithSessionTimeout(20*time.Second))
	require.NoError(t, err)
	const node = locksFolder + "mutex-s/lock-1"
	for _, path := range []string{node, "/elsewhere"} {
		_, err = client.Create(t.Context(), path, nil, framework.CreatingParentsIfNeeded())
		require.NoError(t, err)
		require.NoError(t, client.Delete(t.Context(), path))
		require.ErrorIs(t, client.Delete(t.Context(), path), framework.ErrNoNode)
	}
	_ = client.Close() // fails on a busy machine: the server has only a second to confirm it
	require.NoError(t, w.close())
	require.NoError(t, h.close())

	events, err := readEvents(file)
	require.NoError(t, err)
	require.Len(t, events, 1)
	require.Equal(t, deleted, events[0].Kind)
	require.Equal(t, node, events[0].Node)
	require.Positive(t, events[0].Zxid)
}
