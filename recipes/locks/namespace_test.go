// SPDX-License-Identifier: Apache-2.0

package locks_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/zktest"
)

// TestOwnershipGoesByTheNodeAtTheServer: views of one client that name the same node
// name the same lock; the same name in two namespaces is two locks.
func TestOwnershipGoesByTheNodeAtTheServer(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t).Addr())
	orders := must.Get(client.UsingNamespace("orders"))(t)
	again := must.Get(orders.UsingNamespace("orders"))(t)
	invoices := must.Get(client.UsingNamespace("invoices"))(t)

	lease := acquire(t, newMutex(t, orders, "/lock"))
	ctx := lease.Context(t.Context())
	same := newMutex(t, client, "/orders/lock")
	must.Get(client.Create(ctx, "/report", nil))(t)
	for _, m := range []*locks.InterProcessMutex{same, newMutex(t, again, "/lock")} {
		inner := must.Get(m.TryAcquire(ctx))(t)
		require.Equal(t, lease.Token(), inner.Token(), "re-entered")
		require.Equal(t, m == same, inner.Path() == "/orders"+lease.Path(), "a path of its own client")
		_, err := inner.Transact(ctx, framework.SetDataOp("/report", nil))
		require.Equal(t, m == same, err == nil, "in the namespace of its own client: %v", err)
		release(t, inner)
	}
	inner := must.Get(newMutex(t, invoices, "/lock").TryAcquire(ctx))(t)
	require.Greater(t, inner.Token(), lease.Token(), "another lock")
	release(t, inner)
	release(t, lease)
}
