// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/recipes/x/partition"
)

// TestWorkloadPartitionJudgeOfPartitions: two holders, a group that does not come to order, and a partition that
// moves without need are found, and what a lost session explains is not.
func TestWorkloadPartitionJudgeOfPartitions(t *testing.T) {
	spec := lockSpec{Name: "partition-s", Workload: "partition"}
	order := func(at int64) event { return event{At: at, Kind: inOrder, Lock: spec.Name} }
	moved := func(at int64) event { return event{At: at, Kind: movedAway, Lock: spec.Name, Value: "p01"} }
	for name, c := range map[string]struct {
		a, b []event
		want string // "" is none
	}{
		"all in order":          {[]event{order(70)}, []event{order(80), moved(75)}, ""},
		"moved without need":    {[]event{order(70), moved(90)}, []event{order(80)}, "moved_too_much is 1, must be 0"},
		"moved after a loss":    {[]event{order(70), moved(90)}, []event{order(80), {At: 85, Kind: expired}}, ""},
		"never in order":        {[]event{{At: 90, Kind: outOfOrder, Lock: spec.Name, Error: "p01 has no holder"}}, []event{order(80)}, "unowned is 1, must be 0"},
		"two holders at a time": {take("a", "partition-s#p01", 40, 50, 60), take("b", "partition-s#p01", 41, 55, 65), "two_owners is 1, must be 0"},
	} {
		p := goodPlan()
		p.round().Locks = append(p.round().Locks, spec)
		p.add("a", take("a", "partition-s#p00", 40, 50, 60)...)
		p.add("a", c.a...)
		p.add("b", c.b...)
		var page strings.Builder
		err := judge(&page, p.save(t))
		if c.want != "" {
			require.ErrorContains(t, err, c.want, name)
			continue
		}
		require.Contains(t, lastLine(page.String()), "two_owners=0 unowned=0 moved_too_much=0", name)
	}
}

func TestWorkloadPartitionDisorder(t *testing.T) {
	var a partition.Assignment
	require.Error(t, disorder(a, "m"))
	for _, name := range partitionNames() {
		a.Partitions = append(a.Partitions, partition.State{Name: name, Owner: "m", Holder: "m"})
	}
	require.Error(t, disorder(a, "m"))
	a.Balanced, a.Members = true, []partition.Peer{{ID: "m", Alive: true}}
	require.NoError(t, disorder(a, "m"))
	require.Error(t, disorder(a, "another"))
	a.Partitions[0].Holder = ""
	require.ErrorContains(t, disorder(a, "m"), `p00 is m's, and "" has it`)
}
