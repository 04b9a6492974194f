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

	mutex, err := locks.NewInterProcessMutex(orders, "/lock")
	require.NoError(t, err)
	lease, err := mutex.Acquire(t.Context())
	require.NoError(t, err)
	ctx := lease.Context(t.Context())

	same, err := locks.NewInterProcessMutex(client, "/orders/lock")
	require.NoError(t, err)
	sameView, err := locks.NewInterProcessMutex(again, "/lock")
	require.NoError(t, err)
	other, err := locks.NewInterProcessMutex(invoices, "/lock")
	require.NoError(t, err)
	_, err = client.Create(ctx, "/report", nil)
	require.NoError(t, err)
	for _, m := range []*locks.InterProcessMutex{same, sameView} {
		inner, err := m.TryAcquire(ctx)
		require.NoError(t, err)
		require.Equal(t, lease.Token(), inner.Token(), "re-entered")
		require.Equal(t, m == same, inner.Path() == "/orders"+lease.Path(), "a path of its own client")
		_, err = inner.Transact(ctx, framework.SetDataOp("/report", nil))
		require.Equal(t, m == same, err == nil, "in the namespace of its own client: %v", err)
		require.NoError(t, inner.Release(t.Context()))
	}
	inner, err := other.TryAcquire(ctx)
	require.NoError(t, err)
	require.Greater(t, inner.Token(), lease.Token(), "another lock")
	require.NoError(t, inner.Release(t.Context()))
	require.NoError(t, lease.Release(t.Context()))
}
