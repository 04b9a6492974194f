// SPDX-License-Identifier: Apache-2.0

package inspect_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/inspect"
	"github.com/gocurator/curator/recipes/leader"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// TestExplainLatchWhoseLeaderHasLostItsQuorum: its server is cut off from the others, and hangs up. The others keep its node until
// the session expires, and then the next candidate leads.
func TestExplainLatchWhoseLeaderHasLostItsQuorum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, err := zkserver.NewEnsemble(3, zkserver.WithoutListener(), zkserver.WithSessionTimeouts(0, time.Minute))
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, e.Close()) })
		side := e.Followers()[0]
		cut := zktest.Client(t, fmt.Sprintf("zk%d:2181", 1+slices.Index(e.Servers(), side)),
			framework.WithDialer(e.Dial), framework.WithSessionTimeout(40*time.Second))
		client := zktest.Client(t, e)
		for _, of := range []*framework.Framework{cut, client} {
			latch, err := leader.NewLeaderLatch(of, "/latch")
			require.NoError(t, err)
			require.NoError(t, latch.Start())
			t.Cleanup(func() { _ = latch.Close() }) // its servers may be out of reach
			time.Sleep(time.Second)
		}
		heal := e.Isolate(side)
		defer heal()
		time.Sleep(10 * time.Second)
		found, err := inspect.Explain(t.Context(), client, "/latch")
		require.NoError(t, err)
		f := found.Findings[0]
		require.Equal(t, inspect.ReasonLost, f.Reason, "%v", found)
		require.True(t, f.Trouble)
		require.Contains(t, f.Text, "has no connection to any server. Its node goes by itself when its session expires, in ")
		require.Contains(t, f.Advice[0].Command, "curatorctl lock break -yes -token ")
		time.Sleep(time.Minute)
		found, err = inspect.Explain(t.Context(), client, "/latch")
		require.NoError(t, err)
		require.Equal(t, inspect.ReasonHeld, found.Findings[0].Reason, "%v", found)
	})
}
