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

// TestProxyInABubble has client, proxy and server share a fake clock.
func TestProxyInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := zktest.NewServer(t, zkserver.WithoutListener())
		t.Cleanup(func() { zktest.AssertClean(t, server) })
		proxy := zktest.NewProxy(t, server)
		client := zktest.Client(t, proxy)
		must.Get(client.Create(t.Context(), "/mine", nil, framework.WithMode(framework.Ephemeral)))(t)

		session := client.Session()
		proxy.Cut()
		_, err := client.Get(t.Context(), "/mine")
		require.NoError(t, err, "it comes back with its session")
		require.Same(t, session, client.Session())

		began := time.Now()
		proxy.CutOff()
		zktest.AwaitEvent(t, server, func(e zkserver.Event) bool { return e.Kind == zkserver.SessionExpired })
		require.Less(t, time.Since(began), 31*time.Second)
		zktest.AwaitEvent(t, proxy, func(e zkproxy.Event) bool { return e.Action == zkproxy.Answered })
		proxy.Heal()
		zktest.Await(t, session.Done(), "the end of the session")
		require.Nil(t, must.Get(client.Exists(t.Context(), "/mine"))(t))
	})
}

// TestProxyOfEveryTarget is over TCP in front of what listens.
func TestProxyOfEveryTarget(t *testing.T) {
	server := zktest.NewServer(t)
	backend := zktest.Embedded(server)
	for name, proxy := range map[string]*zkproxy.Proxy{
		"server":         zktest.NewProxy(t, server),
		"address":        zktest.NewProxy(t, server.Addr()),
		"connect string": zktest.NewProxy(t, server.Addr()+",127.0.0.1:1/chroot"),
		"backend":        zktest.NewProxy(t, backend),
		"proxy":          zktest.NewProxy(t, zktest.NewProxy(t, server)),
	} {
		require.NotEmpty(t, proxy.Addr(), name)
		_, err := zktest.Client(t, proxy).Get(t.Context(), "/")
		require.NoError(t, err, name)
	}
	require.Contains(t, fails(t, func(tb testing.TB) { zktest.NewProxy(tb, server, zkproxy.WithMaxFrame(1)) }), "zktest: start a proxy")
}
