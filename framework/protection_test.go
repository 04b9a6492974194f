package framework_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/retry"
	"github.com/gocurator/curator/testing/zkproxy"
	"github.com/gocurator/curator/testing/zktest"
)

// loseReplyToCreate withholds the reply to the next creation of a client that is
// connected through the proxy, and cuts the connection. What is to be done in that
// moment is done before the request is passed on.
func loseReplyToCreate(proxy *zkproxy.Proxy, then func()) {
	lost := false
	proxy.Intercept(func(f zkproxy.Frame) zkproxy.Verdict {
		if lost || f.Direction != zkproxy.ToServer || f.Op != zkproxy.OpCreate2 {
			return zkproxy.Pass
		}
		lost = true
		then()
		return zkproxy.CutAfter
	})
}

// TestProtectionOverALostReply: on the network and on either kind of server, of the
// client itself and of a view of it.
func TestProtectionOverALostReply(t *testing.T) {
	for name, c := range map[string]struct {
		policy retry.Policy
		killed bool // the session ends while the client is cut off
		fails  bool
	}{
		"the node is found":            {policy: retry.NTimes(100, 20*time.Millisecond)},
		"the node went with a session": {policy: retry.NTimes(100, 20*time.Millisecond), killed: true},
		"the node is deleted":          {policy: retry.None(), fails: true},
	} {
		for _, namespace := range []string{"", "ns"} {
			t.Run(strings.TrimSuffix(name+"/"+namespace, "/"), func(t *testing.T) {
				zktest.EachBackend(t, func(t *testing.T, server zktest.Backend) {
					proxy := zktest.NewProxy(t, server.Addr())
					client := zktest.Client(t, server.ConnectStringVia(proxy.Addr()), framework.WithRetryPolicy(c.policy))
					f := client
					if namespace != "" {
						f = namespaced(t, client, namespace)
					}
					mustCreate(t, f, "/p", framework.CreatingParentsIfNeeded())
					loseReplyToCreate(proxy, func() { proxy.Refuse(c.killed) })
					var created string
					result := make(chan error, 1)
					go func() {
						var err error
						created, err = f.Create(t.Context(), "/p/n-", nil, framework.WithProtection(),
							framework.WithMode(framework.EphemeralSequential))
						result <- err
					}()
					_, err := proxy.Await(t.Context(), func(e zkproxy.Event) bool { return e.Action == zkproxy.Withheld })
					require.NoError(t, err)
					if c.killed {
						zktest.KillSession(t, client, server.Addr())
						proxy.Refuse(false)
					}
					err = <-result
					if c.fails {
						require.Empty(t, created)
						require.ErrorIs(t, err, framework.ErrCleanupPending)
						require.True(t, framework.OutcomeUnknown(err))
						awaitNoChildren(t, f, "/p")
						return
					}
					require.NoError(t, err)
					names, err := f.Children(t.Context(), "/p")
					require.NoError(t, err)
					require.Equal(t, []string{strings.TrimPrefix(created, "/p/")}, names, "one node, the one that was returned")
					stat, err := f.Exists(t.Context(), created)
					require.NoError(t, err)
					require.Equal(t, client.Session().ID(), stat.EphemeralOwner)
				})
			})
		}
	}
}

// awaitNoChildren waits until a znode has no children.
func awaitNoChildren(t *testing.T, f *framework.Framework, path string) {
	t.Helper()
	for {
		var change *framework.Watch
		names, err := f.Children(t.Context(), path, framework.Watched(&change))
		require.NoError(t, err)
		if len(names) == 0 {
			change.Cancel()
			return
		}
		fired(t, change)
	}
}
