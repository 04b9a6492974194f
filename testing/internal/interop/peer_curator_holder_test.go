// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/testing/zkserver"
	"github.com/gocurator/curator/testing/zktest"
)

// The holder's network falls silent, or one way of it. Who waits for LOST works beside
// the rival, since Curator counts the session timeout from SUSPENDED on. SUSPENDED
// comes at two thirds of it, and leaves time to stop.
func TestPeerCuratorHolderIsCutOff(t *testing.T) {
	var (
		outcomes tally
		mu       sync.Mutex
		late     []time.Duration // LOST, after the rival's entry
	)
	cases := make(map[string]zkserver.Direction)
	for i := range curatorTrials {
		cases[fmt.Sprintf("silent %d", i)] = zkserver.Both
		cases[fmt.Sprintf("requests are lost %d", i)] = zkserver.ToServer
	}
	atOnce(t, cases, func(t *testing.T, server *zkserver.Server, lost zkserver.Direction) {
		holder := newCuratorPeer(t, server, shortSession)
		holder.acquire(t, "m")
		entered := enterLater(t, rivalOf(t, server))
		suspendedAt, lostAt := holder.heard(t, framework.Suspended), holder.heard(t, framework.Lost)
		defer server.Blackhole(holder.session, lost)()

		at := zktest.Await(t, entered, "the rival's entry").at
		suspended, told := zktest.Await(t, suspendedAt, "SUSPENDED"), zktest.Await(t, lostAt, "LOST")
		if suspended.Before(at) {
			outcomes.note("SUSPENDED before the rival's entry")
		}
		if told.After(at) {
			outcomes.note("LOST only after it")
		}
		mu.Lock()
		defer mu.Unlock()
		late = append(late, told.Sub(at))
	})
	outcomes.log(t, len(cases))
	t.Logf("LOST comes %v to %v after the entry", slices.Min(late), slices.Max(late))
	require.NotZero(t, outcomes.of("LOST only after it"))
	require.NotZero(t, outcomes.of("SUSPENDED before the rival's entry"))
}

// The holder's server has lost its leader and answers pings, or the holder's node is
// deleted: it hears nothing, and the rival enters.
func TestPeerCuratorHolderHearsNothing(t *testing.T) {
	type trouble func(t *testing.T, server *zkserver.Server, holder curatorPeer, node string)
	var outcomes tally
	cases := make(map[string]trouble)
	for i := range curatorTrials {
		cases[fmt.Sprintf("its server has lost the leader %d", i)] = func(t *testing.T, server *zkserver.Server, holder curatorPeer, _ string) {
			t.Helper()
			t.Cleanup(server.CutOff(holder.session))
		}
		cases[fmt.Sprintf("its node is deleted %d", i)] = func(t *testing.T, server *zkserver.Server, _ curatorPeer, node string) {
			t.Helper()
			require.NoError(t, zktest.Client(t, server).Delete(zktest.Context(t), node))
		}
	}
	atOnce(t, cases, func(t *testing.T, server *zkserver.Server, begin trouble) {
		holder := newCuratorPeer(t, server, longSession) // a short one may end before a busy machine has run its client
		node, _ := holder.acquire(t, "m")
		entered := enterLater(t, rivalOf(t, server))
		begin(t, server, holder, node)
		zktest.Await(t, entered, "the rival's entry")
		if slices.Equal(holder.do(t, "states"), []string{framework.Connected.String()}) {
			outcomes.note("the client has heard nothing when the rival is in")
		}
	})
	outcomes.log(t, len(cases))
	require.Equal(t, len(cases), outcomes.of("the client has heard nothing when the rival is in"))
}
