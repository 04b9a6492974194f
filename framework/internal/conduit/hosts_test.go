// SPDX-License-Identifier: Apache-2.0

package conduit

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func newHosts(t *testing.T, servers ...string) *hosts {
	t.Helper()
	var h hosts
	require.NoError(t, h.Init(servers))
	return &h
}

// attempt is one turn of go-zookeeper's connect loop; it returns the pause.
func attempt(t *testing.T, h *hosts) time.Duration {
	t.Helper()
	h.Next()
	began := time.Now()
	require.NoError(t, h.pause(t.Context()))
	return time.Since(began)
}

func TestHostsAreNamedInTurn(t *testing.T) {
	h := newHosts(t, "a", "b", "c")
	require.Equal(t, 3, h.Len())
	var names strings.Builder
	for range 7 {
		server, over := h.Next()
		require.False(t, over, "a round that is over makes go-zookeeper wait a second")
		names.WriteString(server)
	}
	require.Equal(t, "abcabca", names.String())
}

// TestHostsServerOfTheLastConnectionTakesNoTimeFromOthers, whose attempts share what is left
// of a session. When its own turn comes there is no other.
func TestHostsServerOfTheLastConnectionTakesNoTimeFromOthers(t *testing.T) {
	h := newHosts(t, "a", "b", "c")
	shares := func(attempts int) (untried []int) {
		for range attempts {
			h.Next()
			untried = append(untried, h.untried())
		}
		return untried
	}
	require.Equal(t, []int{3}, shares(1), "there was no connection yet")
	h.Connected()
	require.Equal(t, []int{2, 1, 1, 2, 1}, shares(5))
	h.Connected() // to c
	require.Equal(t, []int{2, 1, 1}, shares(3))
	h.replace([]string{"a", "b"})
	require.Equal(t, []int{2, 1}, shares(2), "the server is not one of them any more")
}

func TestHostsPausesGrowAndAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHosts(t, "a", "b")
		for i := range 20 {
			ceiling := min(maxPause, minPause<<(i/2))
			pause := attempt(t, h)
			if i < 2 {
				require.Zero(t, pause, "attempt %d is in the first round", i)
				continue
			}
			require.LessOrEqual(t, pause, ceiling, "attempt %d", i)
			require.GreaterOrEqual(t, pause, ceiling/2, "attempt %d", i)
		}
	})
}

// TestHostsClientsOfAServerThatEndsSpreadTheirAttempts, each within the spread, and not at the same moment.
func TestHostsClientsOfAServerThatEndsSpreadTheirAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const spread = time.Second
		pauses := map[time.Duration]bool{}
		for range 20 {
			h := newHosts(t, "a", "b")
			require.Zero(t, attempt(t, h), "the first connection is not waited for")
			h.spreadOver(spread)
			h.Connected()
			time.Sleep(stableAfter)
			pause := attempt(t, h)
			require.Less(t, pause, spread)
			pauses[pause] = true
		}
		require.Greater(t, len(pauses), 15)
	})
}

func TestHostsPauseEndsWithItsContext(t *testing.T) {
	h := newHosts(t, "a")
	attempt(t, h)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, h.pause(ctx), context.Canceled)
	h.stop()
	_, over := h.Next()
	require.True(t, over, "go-zookeeper must look at its stop signal")
}

func TestHostsServersAreAskedForBeforeEachRound(t *testing.T) {
	asked, now := 0, []string{"b", "a"}
	h := newHosts(t, "a", "b")
	h.ask = func() []string { asked++; return now }
	next := func() string { server, _ := h.Next(); return server }
	require.Equal(t, "ab", next()+next(), "the same servers in another order are no news")
	require.Equal(t, 1, asked)
	now = []string{"c"}
	require.Equal(t, "cc", next()+next())
	require.Equal(t, 3, asked)
	now = []string{"x", "y", "z"}
	require.ElementsMatch(t, now, []string{next(), next(), next()})
	require.Equal(t, 4, asked)
	require.Contains(t, now, next())
	h.Connected()
	next()
	require.Equal(t, 6, asked, "a connection ends a round")
	require.Equal(t, 3, h.Len())
}

// TestHostsProviderThatBlocksDelaysARoundByASecond: connecting goes on with the servers that
// are known, and its answer counts when it comes.
func TestHostsProviderThatBlocksDelaysARoundByASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int32
		answer := make(chan []string)
		h := newHosts(t, "a")
		h.ask = func() []string { asked.Add(1); return <-answer }
		began := time.Now()
		for range 3 {
			server, _ := h.Next()
			require.Equal(t, "a", server)
		}
		require.Equal(t, 3*askLimit, time.Since(began))
		require.EqualValues(t, 1, asked.Load())
		answer <- []string{"b"}
		server, _ := h.Next()
		require.Equal(t, "b", server)
	})
}
