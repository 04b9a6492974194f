// SPDX-License-Identifier: Apache-2.0

package barriers_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/barriers"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

func newBarrier(tb testing.TB, client *framework.Framework) *barriers.DistributedBarrier {
	tb.Helper()
	b := must.Get(barriers.NewDistributedBarrier(client, path))(tb)
	return b
}

func TestBarrierRemovingABarrierLetsAllGoOn(t *testing.T) {
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		owner := newBarrier(t, zktest.Client(t, server))
		require.NoError(t, owner.SetBarrier(zktest.Context(t)))
		require.NoError(t, owner.SetBarrier(zktest.Context(t)), "it is set already")
		before := server.Counts(t).Watches
		const waiters = 5
		results := make([]<-chan error, waiters)
		for i := range results {
			b := newBarrier(t, zktest.Client(t, server))
			results[i] = later(func() error { return b.WaitOnBarrier(zktest.Context(t)) })
		}
		require.Eventually(t, func() bool { return server.Counts(t).Watches == before+waiters }, limit, time.Millisecond)
		for _, result := range results {
			require.Empty(t, result)
		}

		require.NoError(t, owner.RemoveBarrier(zktest.Context(t)))

		for _, result := range results {
			require.NoError(t, zktest.Await(t, result, "a waiter"))
		}
		require.NoError(t, owner.RemoveBarrier(zktest.Context(t)), "it is removed already")
		require.NoError(t, owner.WaitOnBarrier(zktest.Context(t)), "there is none")
	})
}

func TestBarrierWaitSurvivesItsSession(t *testing.T) {
	server := zktest.NewServer(t)
	client, other := zktest.Client(t, server), zktest.Client(t, server)
	b := newBarrier(t, client)
	require.NoError(t, b.SetBarrier(zktest.Context(t)))
	result := later(func() error { return b.WaitOnBarrier(zktest.Context(t)) })
	zktest.AwaitEvent(t, server, func(e zkserver.Event) bool { return e.Kind == zkserver.Served && e.Request.Op == zkserver.OpGetData })

	zktest.KillSession(t, client)
	require.NoError(t, newBarrier(t, other).RemoveBarrier(zktest.Context(t)))

	require.NoError(t, zktest.Await(t, result, "the waiter"))
}

func TestBarrierWaitFailsWithoutAServer(t *testing.T) {
	t.Parallel()
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		client, proxy := zktest.ClientViaProxy(t, server,
			framework.WithRetryPolicy(retry.None()), framework.WithConnectionTimeout(retry.MinWait*10))
		b := newBarrier(t, client)
		require.NoError(t, b.SetBarrier(zktest.Context(t)))
		proxy.Refuse(true)
		proxy.Cut()
		zktest.AwaitState(t, client, framework.Suspended, framework.Lost)

		require.ErrorIs(t, b.WaitOnBarrier(zktest.Context(t)), framework.ErrNotConnected)
		proxy.Refuse(false)
	})
}

func TestBarrierBadInput(t *testing.T) {
	client := zktest.Client(t, zktest.NewServer(t))
	_, err := barriers.NewDistributedBarrier(nil, path)
	require.ErrorContains(t, err, "client nil")
	_, err = barriers.NewDistributedBarrier(client, "a")
	require.ErrorContains(t, err, `"a"`)
	_, err = barriers.NewDistributedDoubleBarrier(client, "/", 2)
	require.ErrorContains(t, err, "path /")
	view := must.Get(client.UsingNamespace("a"))(t)
	must.Get(barriers.NewDistributedDoubleBarrier(view, "/", 2))(t)
	_, err = barriers.NewDistributedDoubleBarrier(client, path, 0)
	require.ErrorContains(t, err, "0 members")
	double := newDouble(t, client, 1)
	require.ErrorIs(t, double.Leave(t.Context()), barriers.ErrNotEntered)
	var none context.Context
	require.ErrorIs(t, double.Enter(none), framework.ErrInvalidOption)
	reserved := must.Get(barriers.NewDistributedDoubleBarrier(client, "/zookeeper/a", 1))(t)
	err = reserved.Enter(t.Context())
	require.ErrorIs(t, err, framework.ErrInvalidPath)
	require.NotContains(t, err.Error(), "stays", "nothing was created")
}
