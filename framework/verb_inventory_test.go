// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// TestInventoryOldServersAreNotAskedForDescendants: a request that a server does not know costs
// the connection, and whatever is held with it.
func TestInventoryOldServersAreNotAskedForDescendants(t *testing.T) {
	server := zktest.NewServer(t, zkserver.WithVersion("3.5.9"))
	f := zktest.Client(t, server.Addr())
	held := f.Session().Context(framework.StandardErrorPolicy)
	_, err := f.Ephemerals(t.Context(), "/")
	require.ErrorIs(t, err, framework.ErrUnsupported)
	require.ErrorContains(t, err, "ephemerals /: ")
	require.ErrorContains(t, err, "the version of "+server.Addr()+" is 3.5.9")
	require.NoError(t, f.Sync(t.Context(), "/"))
	require.NoError(t, held.Err())
}
