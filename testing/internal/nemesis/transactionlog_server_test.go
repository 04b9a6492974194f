// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/ensemble"
)

// What a real server logs of locks is read back: who created a node, when it was deleted, and
// that the end of a session deletes the rest.
func TestTransactionlogServerLogOfARealServer(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: this test starts Java processes")
	}
	t.Parallel()
	e := must.Get(ensemble.Start(t.Context()))(t)
	defer func() { require.NoError(t, e.Close()) }()
	client := must.Get(framework.Connect(t.Context(), e.ConnectString()))(t)
	defer client.Close()
	mutex := must.Get(locks.NewInterProcessMutex(client, "/nemesis/locks/mutex"))(t)
	released := must.Get(mutex.Acquire(t.Context()))(t)
	_, err := released.Transact(t.Context(), framework.CreateOp("/value", nil)) // a transaction of several operations
	require.NoError(t, err)
	require.NoError(t, released.Release(t.Context()))
	open := must.Get(mutex.Acquire(t.Context()))(t)

	nodeOf := func(lease *locks.Lease) *lockNode {
		folder := t.TempDir()
		require.NoError(t, os.Symlink(filepath.Join(e.Server(0).DataDir(), "version-2"), filepath.Join(folder, "1")))
		l := must.Get(readTransactionLog(folder))(t)
		n := l.nodes[lease.Path()]
		require.NotNil(t, n)
		require.Equal(t, lease.Token(), n.czxid)
		require.Equal(t, client.Session().ID(), n.session)
		return n
	}
	require.Greater(t, nodeOf(released).deleted, released.Token())
	require.Less(t, nodeOf(released).deleted, open.Token())
	require.Zero(t, nodeOf(open).deleted)
	require.NoError(t, client.Close())
	require.Greater(t, nodeOf(open).deleted, open.Token())
	require.GreaterOrEqual(t, nodeOf(open).ended, nodeOf(released).ended)
}
