// SPDX-License-Identifier: Apache-2.0

package zktest_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/testing/zkproxy"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

func TestAwait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ch := make(chan int)
		time.AfterFunc(time.Second, func() { ch <- 7 })
		require.Equal(t, 7, zktest.Await(t, ch, "the number"))
		time.AfterFunc(59*time.Second, func() { close(ch) })
		require.Zero(t, zktest.Await(t, ch, "the end"))
		never := make(chan int)
		require.Equal(t, "zktest: the number has not come within 1m0s",
			fails(t, func(tb testing.TB) { zktest.Await(tb, never, "the number") }))
	})
}

func TestAwaitState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		client := zktest.Client(t, server)
		require.Equal(t, framework.Connected, zktest.AwaitState(t, client, framework.Connected), "the state that it has")
		heal := server.Blackhole(0, zkserver.Both)
		require.Equal(t, framework.Suspended, zktest.AwaitState(t, client, framework.Lost, framework.Suspended))
		zktest.AwaitState(t, client, framework.Lost)
		heal()
		zktest.AwaitState(t, client, framework.Reconnected)
		failure := fails(t, func(tb testing.TB) { zktest.AwaitState(tb, client, framework.Lost, framework.Suspended) })
		require.Equal(t, "zktest: the client is RECONNECTED after 1m0s, want [LOST SUSPENDED]", failure)
	})
}

func TestAwaitEvent(t *testing.T) {
	server := zktest.NewServer(t)
	proxy := zktest.NewProxy(t, server.Addr())
	client := zktest.Client(t, proxy.Addr())
	require.NoError(t, client.Sync(t.Context(), "/"))
	served := zktest.AwaitEvent(t, server, func(e zkserver.Event) bool { return e.Request.Op == zkserver.OpSync })
	require.Equal(t, client.Session().ID(), served.SessionID)
	zktest.AwaitEvent(t, proxy, func(e zkproxy.Event) bool { return e.Frame.Op == zkproxy.OpSync })

	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		failure := fails(t, func(tb testing.TB) {
			zktest.AwaitEvent(tb, server, func(zkserver.Event) bool { return false })
		})
		require.Contains(t, failure, "zktest: zkserver: no such event among the first 0")
	})
}

func TestClientOfEveryTarget(t *testing.T) {
	server := zktest.NewServer(t)
	for _, client := range []*framework.Framework{
		zktest.Client(t, server.Addr()),
		zktest.Client(t, server),
		zktest.Client(t, zktest.NewServer(t, zkserver.WithoutListener())),
	} {
		require.NoError(t, client.Sync(t.Context(), "/"))
	}
	backend := zktest.Embedded(server)
	below := zktest.Client(t, backend)
	must.Get(below.Create(t.Context(), "/a", nil, framework.CreatingParentsIfNeeded()))(t)
	must.Get(zktest.Client(t, server).Get(t.Context(), backend.Root()+"/a"))(t)
}

// TestClientViaProxy: the proxy is the client's only way, and its chroot is the backend's.
func TestClientViaProxy(t *testing.T) {
	server := zktest.NewServer(t)
	backend := zktest.Embedded(server)
	client, proxy := zktest.ClientViaProxy(t, backend)
	must.Get(client.Create(t.Context(), "/a", nil, framework.CreatingParentsIfNeeded()))(t)
	must.Get(zktest.Client(t, server).Get(t.Context(), backend.Root()+"/a"))(t)
	require.Positive(t, proxy.Requests())

	client, proxy = zktest.ClientViaProxy(t, zktest.NewServer(t, zkserver.WithoutListener()))
	require.NoError(t, client.Sync(t.Context(), "/"))
	require.Positive(t, proxy.Requests())
}
