// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/testing/zkproxy"
	"github.com/gocurator/curator/testing/zkserver"
)

// onASlowLink runs a test on a fake clock, with a server of its own behind a proxy
// that can be slowed down.
func onASlowLink(t *testing.T, test func(t *testing.T, link *zkproxy.Proxy)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := must.Get(zkserver.Start(zkserver.WithoutListener()))(t)
		link := must.Get(zkproxy.Start("a:1", zkproxy.WithoutListener(), zkproxy.WithDialer(server.Dial)))(t)
		t.Cleanup(func() {
			require.NoError(t, link.Close())
			require.NoError(t, server.Close())
		})
		test(t, link)
	})
}

// linked returns a client that is connected over the link, and its states from then on.
func linked(t *testing.T, link *zkproxy.Proxy, timeout time.Duration) (*framework.Framework, *stateLog) {
	t.Helper()
	f := must.Get(framework.New("a:1", framework.WithDialer(link.Dial), framework.WithSessionTimeout(timeout),
		framework.WithRetryPolicy(retry.None())))(t)
	t.Cleanup(func() { _ = f.Close() }) // over a link that is slow or cut
	states := recordStates(f)
	require.NoError(t, f.Start())
	states.expect(t, framework.Connected)
	require.Equal(t, timeout, f.Session().Timeout())
	return f, states
}

// TestBulkDoesNotCostTheSession: more than the link carries in a session timeout is
// asked for at once.
func TestBulkDoesNotCostTheSession(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		timeout time.Duration
		rate    int // bytes a second
		nodes   int
		size    int
		repeat  int
		pauses  time.Duration
	}{
		"10,000 small reads":            {3 * time.Second, 800e3, 1, 400, 10_000, 0},
		"eight big reads":               {6 * time.Second, 1e6, 8, 900e3, 1, 0},
		"eight big reads after a pause": {6 * time.Second, 1e6, 8, 900e3, 3, 5 * time.Second},
		"reads as slow as can be":       {3 * time.Second, 100e3, 1, 40e3, 100, 0},
	} {
		t.Run(name, func(t *testing.T) {
			onASlowLink(t, func(t *testing.T, link *zkproxy.Proxy) {
				f, states := linked(t, link, test.timeout)
				for i := range test.nodes {
					must.Get(f.Create(t.Context(), fmt.Sprintf("/n%d", i), make([]byte, test.size)))(t)
				}
				session := f.Session()
				link.Rate(test.rate)
				var readers sync.WaitGroup
				for range test.repeat {
					for i := range test.nodes {
						readers.Go(func() {
							data, err := f.Get(t.Context(), fmt.Sprintf("/n%d", i))
							if err != nil || len(data) != test.size {
								t.Errorf("%d bytes and %v, expected %d and no error", len(data), err, test.size)
							}
						})
					}
					if test.pauses > 0 {
						readers.Wait()
						time.Sleep(test.pauses)
					}
				}
				readers.Wait()
				states.none(t)
				require.Same(t, session, f.Session())
				require.NoError(t, session.Err())
			})
		})
	}
}
