// SPDX-License-Identifier: Apache-2.0

package locks_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zktest"
)

// TestOwnershipGoesByTheNodeAtTheServer: views of one client that name the same node
// name the same lock; the same name in two namespaces is two locks.
func TestOwnershipGoesByTheNodeAtTheServer(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t).Addr())
	orders, err := client.UsingNamespace("orders")
	require.NoError(t, err)
	again, err := orders.UsingNamespace("orders")
	require.NoError(t, err)
	invoices, err := client.UsingNamespace("invoices")
	require.NoError(t, err)

	lease := acquire(t, newMutex(t, orders, "/lock"))
	ctx := lease.Context(t.Context())
	same := newMutex(t, client, "/orders/lock")
	_, err = client.Create(ctx, "/report", nil)
	require.NoError(t, err)
	for _, m := range []*locks.InterProcessMutex{same, newMutex(t, again, "/lock")} {
		inner, err := m.TryAcquire(ctx)
		require.NoError(t, err)
		require.Equal(t, lease.Token(), inner.Token(), "re-entered")
		require.Equal(t, m == same, inner.Path() == "/orders"+lease.Path(), "a path of its own client")
		_, err = inner.Transact(ctx, framework.SetDataOp("/report", nil))
		require.Equal(t, m == same, err == nil, "in the namespace of its own client: %v", err)
		release(t, inner)
	}
	inner, err := newMutex(t, invoices, "/lock").TryAcquire(ctx)
	require.NoError(t, err)
	require.Greater(t, inner.Token(), lease.Token(), "another lock")
	release(t, inner)
	release(t, lease)
}
