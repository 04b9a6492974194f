// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"context"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/testing/zktest"
)

// TestSRVAndServerOrderOnEachBackend: the servers that DNS names are dialed in the client's order, on real servers too.
func TestSRVAndServerOrderOnEachBackend(t *testing.T) {
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		n := new(nameServer)
		n.set("far.example.com", "near.example.com")
		provider := must.Get(framework.NewSRVEnsembleProvider(t.Context(), n.resolver(), srvName, server.Root()))(t)
		var mu sync.Mutex
		var dialed []string
		f := must.Get(framework.Connect(t.Context(), "", framework.WithEnsembleProvider(provider),
			framework.WithServerOrder(func(server string) int { return strings.Index("nf", server[:1]) }),
			framework.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
				mu.Lock()
				dialed = append(dialed, address)
				mu.Unlock()
				return new(net.Dialer).DialContext(ctx, network, server.Addr())
			})))(t)
		defer func() { require.NoError(t, f.Close()) }()
		must.Get(f.Create(t.Context(), "/a", nil, framework.CreatingParentsIfNeeded()))(t)
		mu.Lock()
		defer mu.Unlock()
		require.Equal(t, "near.example.com:2181", dialed[0])
	})
}

// TestIPv6 connects to [::1], whose port leads to the server.
func TestIPv6(t *testing.T) {
	zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
		listener := must.Get(net.Listen("tcp6", "[::1]:0"))(t)
		var links sync.WaitGroup
		links.Go(func() {
			for {
				near, err := listener.Accept()
				if err != nil {
					return
				}
				far, err := net.Dial("tcp", server.Addr())
				if err != nil {
					t.Error(err)
					near.Close()
					return
				}
				copyTo := func(to, from net.Conn) { _, _ = io.Copy(to, from); to.Close(); from.Close() }
				links.Go(func() { copyTo(near, far) })
				links.Go(func() { copyTo(far, near) })
			}
		})
		t.Cleanup(func() { listener.Close(); links.Wait() })
		f := zktest.Client(t, listener.Addr().String()+server.Root())
		require.Equal(t, []string{listener.Addr().String()}, f.Servers())
		require.True(t, strings.HasPrefix(f.Servers()[0], "[::1]:"))
		must.Get(f.Create(t.Context(), "/a", nil, framework.CreatingParentsIfNeeded()))(t)
	})
}
