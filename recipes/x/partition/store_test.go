// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/testkit/must"
	"github.com/gocurator/curator/recipes/x/partition/internal/shares"
	"github.com/gocurator/curator/testing/zktest"
)

// TestAssignOneOfTwoPlansIsAccepted: two members plan from one state.
func TestAssignOneOfTwoPlansIsAccepted(t *testing.T) {
	ctx, client, at := t.Context(), zktest.Client(t, zktest.NewServer(t)), layout("/jobs")
	for _, id := range []string{"a", "b"} {
		must.Get(client.Create(ctx, at.member(id), registration{Capacity: 1}.encode(),
			framework.WithMode(framework.Ephemeral), framework.CreatingParentContainersIfNeeded()))(t)
	}
	write := func(names ...string) error {
		s := must.Get(readState(ctx, client, at))(t)
		first, changes, err := s.next(at, config{id: "a"}, decide(s, entriesOf(names), config{}, false))
		require.NoError(t, err)
		second, others, err := s.next(at, config{id: "b"}, decide(s, entriesOf(append(names, "of the second")), config{}, false))
		require.NoError(t, err)
		require.NoError(t, s.write(ctx, client, at, first, changes))
		return s.write(ctx, client, at, second, others)
	}
	require.True(t, isOvertaken(write("p")), "the first plan")
	require.True(t, isOvertaken(write("p", "q")), "the next one")
	require.Equal(t, []string{"p", "q"}, must.Get(readState(ctx, client, at))(t).planned())
}

// TestDriverReportsAllContendersAhead: one that waits may have the lock next, with an older plan.
func TestDriverReportsAllContendersAhead(t *testing.T) {
	var ahead [][]string
	d := newDriver(func(names []string) { ahead = append(ahead, names) })
	ours := "_c_3-lock-0000000003"
	d.ours.Store(&ours)

	result, err := d.GetsTheLock([]string{"_c_1-lock-0000000001", "_c_2-lock-0000000002", ours, "_c_4-lock-0000000004"}, ours, 1)

	require.NoError(t, err)
	require.False(t, result.GetsTheLock)
	require.Equal(t, [][]string{{"_c_1-lock-0000000001", "_c_2-lock-0000000002"}}, ahead)
}

func TestShareOfNamesThatNoZnodeCanHaveIsNoShare(t *testing.T) {
	for _, data := range []string{`{"capacity":1,"partitions":["a/b"]}`, `{"capacity":1,"standbys":["a/b"]}`} {
		require.Zero(t, decodeShare(framework.Node{Data: []byte(data)}))
		require.NotZero(t, decodeShare(framework.Node{Data: []byte(strings.ReplaceAll(data, "/", ""))}))
	}
}

// TestStandbysOfEachPartition: standbys are spread over the members by capacity, each in a zone of its own, and
// only those of a member that leaves change.
func TestStandbysOfEachPartition(t *testing.T) {
	n, names := 2, make([]string, 3000)
	for i := range names {
		names[i] = fmt.Sprintf("p%04d", i)
	}
	s := &state{members: make(map[string]registration)}
	for i := range 12 {
		s.members[fmt.Sprintf("m%02d", i)] = registration{Capacity: 1 + i%2, Zone: fmt.Sprintf("zone-%d", i%4), Standbys: &n}
	}
	of := func(owner string) map[string][]string {
		byName := make(map[string][]string)
		for id, list := range s.standbys(map[string][]string{owner: names}) {
			require.NotEqual(t, owner, id)
			for _, name := range list {
				byName[name] = append(byName[name], id)
			}
		}
		return byName
	}
	before, counts := of("m00"), make(map[string]int)
	for name, ids := range before {
		require.Len(t, ids, 2, name)
		zones := []string{"zone-0", s.members[ids[0]].Zone, s.members[ids[1]].Zone}
		slices.Sort(zones)
		require.Len(t, slices.Compact(zones), 3, name)
		counts[ids[0]]++
		counts[ids[1]]++
	}
	require.Len(t, counts, 9, "all of other zones")
	require.InEpsilon(t, counts["m01"], 2*counts["m02"], 0.3, "by capacity: %v", counts)

	delete(s.members, "m01")

	changed := 0
	for name, ids := range of("m00") {
		if !slices.Equal(slices.Sorted(slices.Values(ids)), slices.Sorted(slices.Values(before[name]))) {
			changed++
			require.Contains(t, before[name], "m01")
		}
	}
	require.Equal(t, counts["m01"], changed)
	s.members = map[string]registration{"m00": s.members["m00"], "m04": s.members["m04"]}
	require.Equal(t, []string{"m04"}, of("m00")["p0000"], "there is no other zone")
	s.members = map[string]registration{"m00": {Prepared: []string{"p0", "p1"}}, "m04": {Prepared: []string{"p1"}}}
	s.shares = map[string]share{"m00": {Standbys: []string{"p1"}}, "m04": {Standbys: []string{"p0", "p1"}}}
	require.Equal(t, map[string][]string{"p1": {"m00", "m04"}}, s.warm(), "m00 stands by for p0 no more, and will say so")
}

func TestLoadThatIsNotKnownIsTheMeanOfTheOthers(t *testing.T) {
	parts := weigh([]entry{{"a", 100}, {"b", 0}, {"c", 0}, {"d", 0}}, map[string]int{"c": 300})
	var weights []int64
	for _, p := range parts {
		weights = append(weights, p.Weight/shares.Unit)
	}
	require.Equal(t, []int64{100, 200, 300, 200}, weights)
}

// TestLoadAfterAMoveIsTheOneBefore while the partition warms up, so that the move causes no other one.
func TestLoadAfterAMoveIsTheOneBefore(t *testing.T) {
	for age, moves := range map[time.Duration]int{warmUp / 2: 0, 2 * warmUp: 1} {
		s := &state{
			members: map[string]registration{"a": {Capacity: 1, Loads: map[string]int{"p": 900}}, "b": {Capacity: 1}},
			shares: map[string]share{
				"a": {Partitions: []string{"p", "q"}, Loads: []int{100, 100}, Moved: map[string]time.Time{"p": time.Now().Add(-age)}},
				"b": {Partitions: []string{"r", "s"}, Loads: []int{100, 100}},
			},
		}
		require.Len(t, decide(s, entriesOf([]string{"p", "q", "r", "s"}), config{}, true).Moved, moves, "%v after the move", age)
	}
}

// TestPartitionUnderWayDoesNotMoveAgain before its owner has it. Others move within the budget.
func TestPartitionUnderWayDoesNotMoveAgain(t *testing.T) {
	names := []string{"p", "q", "r", "s"}
	for _, name := range names {
		s := &state{
			members: map[string]registration{"a": {Capacity: 1}, "b": {Capacity: 1}},
			shares:  map[string]share{"a": {Partitions: names, Moving: []string{name}}},
			moving:  map[string]bool{name: true},
		}
		out := decide(s, entriesOf(names), config{moves: 2}, true)
		require.Len(t, out.Moved, 1)
		require.NotContains(t, out.Moved, name)
	}
}

// TestAwaitedReturns: the partitions of a drained member wait for nothing, and no clock that is ahead makes a wait longer.
func TestAwaitedReturns(t *testing.T) {
	now := time.Now()
	for name, c := range map[string]struct {
		gone    time.Time
		drained bool
		wait    time.Duration
	}{
		"just noticed":      {time.Time{}, false, time.Minute},
		"noticed":           {now.Add(-20 * time.Second), false, 40 * time.Second},
		"too long ago":      {now.Add(-time.Hour), false, 0},
		"a clock was ahead": {now.Add(time.Hour), false, time.Minute},
		"drained":           {now, true, 0},
	} {
		s := &state{shares: map[string]share{"a": {Return: 60_000, Gone: c.gone}}}
		if c.drained {
			s.orders.Drained = []string{"a"}
		}
		s.awaitReturns(now)
		require.Equal(t, c.wait, s.wait, name)
		require.Equal(t, c.wait > 0, len(s.away) > 0, name)
	}
}

// TestCoolDownOfAClockThatIsAhead holds no partition back, as one that is over.
func TestCoolDownOfAClockThatIsAhead(t *testing.T) {
	s := share{Moved: map[string]time.Time{"now": time.Now(), "ahead": time.Now().Add(time.Hour), "over": time.Now().Add(-time.Hour)}}
	for name, within := range map[string]bool{"now": true, "ahead": false, "over": false, "other": false} {
		require.Equal(t, within, s.hasMovedWithin(name, time.Minute), name)
	}
}
