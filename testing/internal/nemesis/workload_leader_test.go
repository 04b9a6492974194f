// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var leaderSpec = lockSpec{Name: "leader-s", Workload: "leader"}

// breaches are the violations of one promise that all checks find in a plan.
func breaches(t *testing.T, p *plan, of promise) string {
	t.Helper()
	var page strings.Builder
	if judge(&page, p.save(t)) != nil {
		require.Contains(t, lastLine(page.String()), string(of)+"=")
	}
	return page.String()
}

func TestWorkloadLeaderTwoLeaders(t *testing.T) {
	t.Parallel()
	one, next := take("a", "leader-s", 1, 5, 10), take("b", "leader-s", 2, 10, 15)
	require.Contains(t, breaches(t, only(leaderSpec, nil, one, next), oneLeader), "two_leaders=0")

	page := breaches(t, only(leaderSpec, nil, one, take("b", "leader-s", 2, 9, 15)), oneLeader)

	require.Contains(t, page, "two_leaders=1")
	require.Contains(t, page, "leader-s is held twice for 1ms")
	require.Contains(t, page, "overlaps=0", "it is counted once, under its own name")

	// By the servers' log the node of the one before was still there.
	p := only(leaderSpec, nil, one, next)
	p.commit(txnCreate2, 'a', 1, 1, one[1].Node)
	p.commit(txnCreate2, 'b', 2, 2, next[1].Node)
	p.commit(txnDelete, 'a', 3, 20, one[1].Node)
	require.Contains(t, breaches(t, p, oneLeader), "two_leaders=1")
}

func TestWorkloadLeaderTermsRise(t *testing.T) {
	t.Parallel()
	broken(t, tokens, risingTokens, only(leaderSpec, nil, take("a", "leader-s", 2, 5, 10), take("b", "leader-s", 1, 11, 15)))
}

// A campaign in which a recipe was hardly used proves nothing.
func TestWorkloadLeaderFloorsOfARecipe(t *testing.T) {
	t.Parallel()
	happened := newTotals()
	happened.add(only(leaderSpec, nil, take("a", "leader-s", 1, 5, 10)).load(t))
	require.Contains(t, happened.work(90*time.Second), floor{"uses of leader", 60, 1})
	require.NotContains(t, happened.work(90*time.Second), floor{"uses of once", 60, 0}, "it was not played")
}
