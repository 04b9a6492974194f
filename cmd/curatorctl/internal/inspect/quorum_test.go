// SPDX-License-Identifier: Apache-2.0

package inspect_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/cmd/curatorctl/internal/inspect"
	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/leader"
	"github.com/gocurator/curator/testing/ensemble"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// TestExplainLatchWhoseLeaderHasLostItsQuorum: its server is cut off from the others, and hangs up. The others keep its node until
// the session expires, and then the next candidate leads.
func TestExplainLatchWhoseLeaderHasLostItsQuorum(t *testing.T) {
	t.Run("zkserver", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			e := must.Get(zkserver.NewEnsemble(3, zkserver.WithoutListener(), zkserver.WithSessionTimeouts(0, time.Minute)))(t)
			t.Cleanup(func() { require.NoError(t, e.Close()) })
			side := e.Followers()[0]
			cut := zktest.Client(t, strings.Split(e.ConnectString(), ",")[slices.Index(e.Servers(), side)],
				framework.WithDialer(e.Dial), framework.WithSessionTimeout(40*time.Second))
			explainLostQuorum(t, cut, zktest.Client(t, e), func() (heal func()) { return e.Isolate(side) })
		})
	})
	t.Run("zookeeper", func(t *testing.T) {
		if testing.Short() {
			t.Log("three real servers are left to the full run")
			return
		}
		e := zktest.NewEnsemble(t, 3, ensemble.WithNetwork(), ensemble.WithTick(time.Second))
		followers := must.Get(e.Followers(t.Context()))(t)
		side := followers[0]
		host := must.Get(e.Network().Join("leader"))(t)
		cut := zktest.Client(t, side.Addr(), framework.WithDialer(host.DialContext), framework.WithSessionTimeout(15*time.Second))
		explainLostQuorum(t, cut, zktest.Client(t, e), func() (heal func()) {
			for _, other := range e.Servers() {
				if other != side {
					e.Network().Cut(side.Host(), other.Host())
				}
			}
			return e.Network().HealAll
		})
	})
}

// TestExplainLooksTwice: whether a client of a server that does not answer is alive is not known at first. A second look at the leader says it.
func TestExplainLooksTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := must.Get(zkserver.NewEnsemble(3, zkserver.WithoutListener(), zkserver.WithSessionTimeouts(0, time.Minute)))(t)
		t.Cleanup(func() { require.NoError(t, e.Close()) })
		mute := strings.Split(e.ConnectString(), ",")[slices.Index(e.Servers(), e.Followers()[0])]
		var gone atomic.Bool
		var held net.Conn
		holder := zktest.Client(t, mute, framework.WithSessionTimeout(40*time.Second), framework.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
			if gone.Load() {
				return nil, errors.New("the process is gone")
			}
			conn, err := e.Dial(ctx, network, address)
			held = conn
			return conn, err
		}))
		client := zktest.Client(t, e.ConnectString(), framework.WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
			if address == mute {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return e.Dial(ctx, network, address)
		}))
		s := scene{t, zktest.Backend{}, client}
		lease := must.Get(s.mutex(holder, "first").Acquire(t.Context()))(t)
		defer func() { _ = lease.Release(context.Background()) }()
		contend(t, s.mutex(client, "second"))
		s.until(at, 2)
		explain := func(opts ...inspect.Option) inspect.Explanation {
			e := must.Get(inspect.Explain(t.Context(), client, at, opts...))(t)
			return e
		}
		require.Equal(t, inspect.Unknown, explain().Answer)
		alive := explain(inspect.LookingTwice())
		require.Equal(t, inspect.No, alive.Answer, "%v", alive)
		require.Contains(t, alive.String(), " is renewed at a server that was not asked")
		gone.Store(true)
		require.NoError(t, held.Close())
		time.Sleep(time.Second)
		require.Equal(t, inspect.Unknown, explain().Answer)
		dead := explain(inspect.LookingTwice())
		require.Equal(t, inspect.Yes, dead.Answer, "%v", dead)
		require.Equal(t, inspect.ReasonSilent, dead.Findings[0].Reason)
	})
}

// explainLostQuorum has one client lead and another one wait, when the server of the first is cut off.
func explainLostQuorum(t *testing.T, cut, client *framework.Framework, isolate func() (heal func())) {
	t.Helper()
	for n, of := range []*framework.Framework{cut, client} {
		latch := must.Get(leader.NewLeaderLatch(of, "/latch"))(t)
		require.NoError(t, latch.Start())
		t.Cleanup(func() { _ = latch.Close() }) // its servers may be out of reach
		awaitChildren(t, client, "/latch", n+1)
	}
	heal := isolate()
	defer heal()
	f := awaitLatch(t, client, inspect.ReasonLost)
	require.True(t, f.Trouble)
	require.Contains(t, f.Text, "has no connection to any server. Its node goes by itself when its session expires, in ")
	require.Contains(t, f.Advice[0].Command, "curatorctl lock break -yes -token ")
	require.False(t, awaitLatch(t, client, inspect.ReasonHeld).Trouble)
}

// awaitLatch explains the latch until the first finding has the reason.
func awaitLatch(t *testing.T, client *framework.Framework, reason inspect.Reason) inspect.Finding {
	t.Helper()
	var found inspect.Explanation
	for range 600 {
		found = must.Get(inspect.Explain(t.Context(), client, "/latch"))(t)
		if found.Findings[0].Reason == reason {
			return found.Findings[0]
		}
		<-time.After(100 * time.Millisecond)
	}
	require.Fail(t, "no such reason", "%s: %v", reason, found)
	return inspect.Finding{}
}
