// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var guardSpec = lockSpec{Name: "guard-s", Workload: "guard"}

// killed is a plan in which c-1 is killed at 40, while it has a node and its guard is at work.
func killed() *plan {
	p := goodPlan()
	p.round().Locks, p.round().Faults = append(p.round().Locks, guardSpec), nil
	p.add("c", event{At: at(2), Kind: guardUp, Lock: guardSpec.Name})
	p.add("c-1", event{At: at(5), Kind: connected, Session: 'x'})
	p.add("c", event{At: at(40), Kind: wardKilled, Lock: guardSpec.Name, Value: "c-1"})
	p.commit(txnCreate2, 'x', 20, 6, node(guardSpec.Name, "lock-", 20))
	return p
}

// TestWorkloadGuardJudgeOfKills: what a killed program had must be gone in time. A kill
// proves nothing while something disturbs the guard.
func TestWorkloadGuardJudgeOfKills(t *testing.T) {
	end := func(ms int64) func(*plan) {
		return func(p *plan) { p.commit(txnCloseSession, 'x', 30, ms, "") }
	}
	fault := func(id string) func(*plan) {
		return func(p *plan) { p.round().Faults = []faultRecord{{Fault: id, Start: at(41), End: at(42)}} }
	}
	for name, c := range map[string]struct {
		happens func(*plan)
		cases   int
		late    bool
	}{
		"ended at once":        {end(45), 1, false},
		"ended by itself":      {end(7000), 1, true},
		"never ended":          {func(*plan) {}, 1, true},
		"nodes gone before":    {end(30), 0, false},
		"servers hurt":         {fault("N1"), 0, false},
		"clients cut off":      {fault("N15 N6"), 0, false},
		"connections reset":    {fault("N15 N7"), 1, true},
		"guard killed":         {func(p *plan) { p.add("c", event{At: at(41), Kind: guardDown, Lock: guardSpec.Name}) }, 0, false},
		"guard killed later":   {func(p *plan) { p.add("c", event{At: at(5041), Kind: guardDown, Lock: guardSpec.Name}) }, 1, true},
		"session lost before":  {func(p *plan) { p.add("c-1", event{At: at(39), Kind: expired}) }, 0, false},
		"another guard's kill": {func(p *plan) { p.events["c"][1].Lock = "guard-t" }, 0, false},
	} {
		p := killed()
		c.happens(p)
		r := p.load(t)
		require.Len(t, r.wardKills(guardSpec), c.cases, name)
		require.Equal(t, c.late, len(late(r, guardSpec)) == 1, name)
		require.True(t, r.killed()["c-1"], name)
	}

	p := killed() // the guard has just come back, and may not know the program yet
	p.events["c"][0].At = at(30)
	require.Empty(t, p.load(t).wardKills(guardSpec))
	p.events["c"][1].At += int64(knownAgain)
	require.Len(t, p.load(t).wardKills(guardSpec), 1)
}

// TestWorkloadGuardJudgeOfHolds: two holds of a lock at a time are found, and two in turn are right.
func TestWorkloadGuardJudgeOfHolds(t *testing.T) {
	again := func(from int64) string {
		p := killed()
		p.commit(txnCloseSession, 'x', 21, 7, "")
		p.commit(txnCreate2, 'a', 29, 9, node(guardSpec.Name, "lock-", 29))
		p.commit(txnCreate2, 'b', 31, 9, node(guardSpec.Name, "lock-", 31))
		p.commit(txnDelete, 'a', 32, 45, node(guardSpec.Name, "lock-", 29))
		p.add("a", take("a", guardSpec.Name, 29, 10, 39)...)
		p.add("b", take("b", guardSpec.Name, 31, from, 60)...)
		var page strings.Builder
		_ = judge(&page, p.save(t)) // the plan has more faults
		return lastLine(page.String())
	}
	require.Contains(t, again(50), "two_holders=0 ")
	require.NotContains(t, again(30), "two_holders=0 ")
}
