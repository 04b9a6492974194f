// SPDX-License-Identifier: Apache-2.0

package shares

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// group is members and what they have, as the assignments before left it.
type group struct {
	names   []string
	loads   map[string]int
	members map[string]Candidate
	next    int
}

func drawGroup(t *rapid.T, maxCapacity int) *group {
	g := &group{members: make(map[string]Candidate)}
	g.draw(t)
	for range rapid.IntRange(1, 12).Draw(t, "members") {
		g.join(rapid.IntRange(1, maxCapacity).Draw(t, "capacity"))
	}
	g.assign(true)
	return g
}

func (g *group) draw(t *rapid.T) {
	g.names = nil
	for n := range rapid.IntRange(0, 60).Draw(t, "partitions") {
		g.names = append(g.names, fmt.Sprintf("p%02d", n))
	}
}

func (g *group) join(capacity int) string {
	id := fmt.Sprintf("m%02d", (g.next*37)%100) // in an order that is not the order of the ids
	g.next++
	g.members[id] = Candidate{ID: id, Capacity: capacity}
	return id
}

func (g *group) list() []Candidate {
	var list []Candidate
	for _, m := range g.members { // in any order
		list = append(list, m)
	}
	return list
}

func (g *group) capacity() (sum int) {
	for _, m := range g.members {
		sum += m.Capacity
	}
	return sum
}

// set returns the names with their weights, all equal without loads.
func (g *group) set() []Part {
	set := make([]Part, len(g.names))
	for i, name := range g.names {
		set[i] = Part{Name: name, Weight: int64(max(1, g.loads[name])) * Unit}
	}
	return set
}

// assign makes the next assignment, and returns what each partition's member was and is.
func (g *group) assign(rebalance bool) (out Outcome, before, after map[string]string) {
	before, after = g.owners(), make(map[string]string)
	out = Assign(g.set(), g.list(), AtWill(rebalance))
	for id, held := range out.Shares {
		m := g.members[id]
		m.Held = held
		g.members[id] = m
		for _, name := range held {
			after[name] = id
		}
	}
	return out, before, after
}

func (g *group) owners() map[string]string {
	owners := make(map[string]string)
	for id, m := range g.members {
		for _, name := range m.Held {
			owners[name] = id
		}
	}
	return owners
}

// requireWhole checks that each partition has one owner, and returns how many have moved from a
// member that stays: to the newcomer, and between the others.
func (g *group) requireWhole(t *rapid.T, before, after map[string]string, newcomer string) (toNewcomer, between int) {
	held := 0
	for _, m := range g.members {
		held += len(m.Held)
	}
	require.Equal(t, len(g.names), held)
	for _, name := range g.names {
		owner, found := after[name]
		require.True(t, found, name)
		was, had := before[name]
		_, stays := g.members[was]
		switch {
		case !had || !stays || was == owner:
		case owner == newcomer:
			toNewcomer++
		default:
			between++
		}
	}
	return toNewcomer, between
}

func (g *group) requireBalanced(t *rapid.T) {
	capacity := g.capacity()
	for id, m := range g.members {
		part := len(g.names) * m.Capacity
		require.GreaterOrEqual(t, len(m.Held), part/capacity, id)
		require.LessOrEqual(t, len(m.Held), ceil(part, capacity), id)
	}
}

func ceil(a, b int) int { return (a + b - 1) / b }

// TestAssignJoinMovesOneShare: of equal members the newcomer gets its share and no more, and nothing
// moves between the members that were there.
func TestAssignJoinMovesOneShare(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawGroup(t, 1)
		for range rapid.IntRange(1, 5).Draw(t, "joins") {
			id := g.join(1)

			placed, before, after := g.assign(false)
			require.Empty(t, placed.Moved, "nothing moves before the group has settled")
			require.Equal(t, before, after)

			out, before, after := g.assign(true)

			moved, between := g.requireWhole(t, before, after, id)
			require.LessOrEqual(t, moved, ceil(len(g.names), len(g.members)))
			require.Zero(t, between)
			require.Len(t, out.Moved, moved)
			require.True(t, out.Balanced)
			g.requireBalanced(t)
		}
	})
}

// TestAssignLeaveMovesOneShare: of equal members only the partitions of the one that left get another
// member, and the rest is balanced at once.
func TestAssignLeaveMovesOneShare(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawGroup(t, 1)
		for len(g.members) > 1 {
			id := rapid.SampledFrom(slices.Sorted(func(yield func(string) bool) {
				for id := range g.members {
					if !yield(id) {
						return
					}
				}
			})).Draw(t, "leaves")
			require.LessOrEqual(t, len(g.members[id].Held), ceil(len(g.names), len(g.members)))
			before := g.owners()
			delete(g.members, id)

			out, _, after := g.assign(false)

			_, between := g.requireWhole(t, before, after, "")
			require.Zero(t, between)
			require.True(t, out.Balanced)
			g.requireBalanced(t)
		}
	})
}

// TestAssignCapacitiesAreFollowed: after any changes the shares follow the capacities, with the fewest
// moves that this takes, and the second assignment changes nothing.
func TestAssignCapacitiesAreFollowed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawGroup(t, 5)
		for range rapid.IntRange(0, 3).Draw(t, "joins") {
			g.join(rapid.IntRange(1, 5).Draw(t, "capacity"))
		}
		for id := range g.members {
			if len(g.members) > 1 && rapid.Bool().Draw(t, "leaves") {
				delete(g.members, id)
			}
		}
		if rapid.Bool().Draw(t, "another set") {
			g.draw(t)
		}
		_, between, after := g.assign(false)
		g.requireWhole(t, between, after, "")
		fewest := g.fewestMoves()

		out, before, after := g.assign(true)

		g.requireWhole(t, before, after, "")
		g.requireBalanced(t)
		require.True(t, out.Balanced)
		require.Len(t, out.Moved, fewest)
		again, before, after := g.assign(true)
		require.Empty(t, again.Moved)
		require.Equal(t, before, after)
	})
}

// fewestMoves tries for each member the quota that loses less, as far as the rest adds up: a
// member that is rounded up loses one less if it holds that many.
func (g *group) fewestMoves() int {
	capacity, left, moves, savers := g.capacity(), len(g.names), 0, 0
	for _, m := range g.members {
		low, high := len(g.names)*m.Capacity/capacity, ceil(len(g.names)*m.Capacity, capacity)
		left -= low
		moves += max(0, len(m.Held)-low)
		if high > low && len(m.Held) >= high {
			savers++
		}
	}
	return moves - min(left, savers)
}

// weighted draws a group with weights that was balanced, and then has changed in any way.
func weighted(t *rapid.T, least, heaviest int) *group {
	g := &group{members: make(map[string]Candidate), loads: make(map[string]int)}
	draw := func(from, to int) {
		for n := from; n < to; n++ {
			name := fmt.Sprintf("p%03d", n)
			if n >= len(g.names) || rapid.Bool().Draw(t, "another load") {
				g.loads[name] = rapid.IntRange(1, heaviest).Draw(t, "load")
			}
			if n >= len(g.names) {
				g.names = append(g.names, name)
			}
		}
	}
	draw(0, rapid.IntRange(least, 3*least).Draw(t, "partitions"))
	for range rapid.IntRange(1, 6).Draw(t, "members") {
		g.join(rapid.IntRange(1, 3).Draw(t, "capacity"))
	}
	g.assign(true)
	draw(1, rapid.IntRange(least, 3*least).Draw(t, "partitions"))
	for _, id := range slices.Sorted(maps.Keys(g.members)) {
		if len(g.members) > 1 && rapid.IntRange(0, 3).Draw(t, "leaves") == 0 {
			delete(g.members, id)
		}
	}
	for range rapid.IntRange(0, 2).Draw(t, "joins") {
		g.join(rapid.IntRange(1, 3).Draw(t, "capacity"))
	}
	return g
}

// load returns the load of a member, its part of the whole, and its lightest partition.
func (g *group) load(id string) (load, ideal float64, lightest int) {
	total := 0
	for _, name := range g.names {
		total += g.loads[name]
	}
	for _, name := range g.members[id].Held {
		load += float64(g.loads[name])
		lightest = min(cmp.Or(lightest, g.loads[name]), g.loads[name])
	}
	return load, float64(total) * float64(g.members[id].Capacity) / float64(g.capacity()), lightest
}

// TestAssignHeaviestWithinATenth: after one assignment each member is within a tenth of its ideal, where no
// partition is a large part of a share. No more weight moves than what was beyond the ideals, and one
// partition for each member.
func TestAssignHeaviestWithinATenth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := weighted(t, 200, 3) // a share has 200*1/18 at least
		_, _, before := g.assign(false)
		beyond := 0.0
		small := true
		for id := range g.members {
			load, ideal, _ := g.load(id)
			beyond += max(0, load-ideal) + 3
			small = small && ideal >= 31
		}

		out, _, after := g.assign(true)

		g.requireWhole(t, before, after, "")
		moved := 0
		for name, id := range after {
			if before[name] != id {
				moved += g.loads[name]
			}
		}
		require.LessOrEqual(t, float64(moved), beyond)
		for id := range g.members {
			load, ideal, _ := g.load(id)
			require.True(t, !small || load <= 1.1*ideal+0.01, "%s has %v of %v", id, load, ideal)
			require.True(t, !small || load >= 0.9*ideal-0.01, "%s has %v of %v", id, load, ideal)
		}
		require.True(t, !small || out.Balanced)
	})
}

// TestAssignHeavyPartitions: whatever the weights, repeated assignments come to rest, and no member that
// has two partitions is beyond a tenth of its ideal by more than its lightest one.
func TestAssignHeavyPartitions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := weighted(t, 5, 1000)
		for n := 0; ; n++ {
			out, before, after := g.assign(true)
			g.requireWhole(t, before, after, "")
			if len(out.Moved) == 0 {
				break
			}
			require.Less(t, n, 5)
		}
		for id, m := range g.members {
			load, ideal, lightest := g.load(id)
			require.True(t, len(m.Held) < 2 || load <= 1.1*ideal+float64(lightest)+0.01, "%s has %v of %v, %v: %v", id, load, ideal, m.Held, g.loads)
		}
	})
}

// TestAssignSmallChangesMoveNothing: while each member is within a tenth of its ideal, the plan stays.
func TestAssignSmallChangesMoveNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := &group{members: make(map[string]Candidate), loads: make(map[string]int)}
		for n := range rapid.IntRange(50, 100).Draw(t, "partitions") {
			g.names = append(g.names, fmt.Sprintf("p%03d", n))
			g.loads[g.names[n]] = 100
		}
		for range rapid.IntRange(1, 5).Draw(t, "members") {
			g.join(1)
		}
		g.assign(true)
		for _, name := range g.names {
			g.loads[name] += rapid.IntRange(-4, 4).Draw(t, "change")
		}
		for id := range g.members {
			load, ideal, _ := g.load(id)
			if load > 1.1*ideal || load < 0.9*ideal {
				t.SkipNow() // one partition more is a tenth
			}
		}
		out, before, after := g.assign(true)
		require.Equal(t, before, after)
		require.True(t, out.Balanced)
	})
}

// TestAssignPins: pinned partitions are where they must be, and stay there whatever balance asks for. Those of a
// member that is away or drained are placed as any other.
func TestAssignPins(t *testing.T) {
	set := (&group{names: []string{"p0", "p1", "p2", "p3", "p4", "p5"}}).set()
	bounds := AtWill(true)
	bounds.Pins = map[string]string{"p0": "b", "p1": "b", "p2": "b", "p3": "b", "p4": "gone"}
	members := []Candidate{
		{ID: "a", Capacity: 1, Held: []string{"p0", "p4"}}, {ID: "b", Capacity: 1, Held: []string{"p1", "p2", "p3", "p5"}}, {ID: "c", Capacity: 1},
	}

	out := Assign(set, members, bounds)

	require.Equal(t, []string{"p0", "p1", "p2", "p3"}, out.Shares["b"])
	require.Len(t, out.Shares["a"], 1)
	require.Len(t, out.Shares["c"], 1)
	require.True(t, out.Balanced)
	members[1].Held, members[1].Drained = out.Shares["b"], true
	require.Empty(t, Assign(set, members, bounds).Shares["b"])
}

// TestAssignNewcomerGetsLoad: a newcomer to many members has its share, though none of them is beyond a
// tenth of its ideal.
func TestAssignNewcomerGetsLoad(t *testing.T) {
	g := &group{members: make(map[string]Candidate), loads: make(map[string]int)}
	for n := range 2000 {
		g.names = append(g.names, fmt.Sprintf("p%04d", n))
		g.loads[g.names[n]] = 90 + n%20
	}
	for range 20 {
		g.join(1)
	}
	g.assign(true)
	id := g.join(1)
	out, _, _ := g.assign(true)
	load, ideal, _ := g.load(id)
	require.InDelta(t, 0.925, load/ideal, 0.026)
	require.Less(t, len(out.Moved), 100)
}

func TestAssignIsDeterministic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawGroup(t, 3)
		g.join(2)
		first := Assign(g.set(), g.list(), AtWill(true))
		slices.Reverse(g.names)
		require.Equal(t, first, Assign(g.set(), g.list(), AtWill(true)))
	})
}

func TestAssignNoMembersHaveNothing(t *testing.T) {
	require.Empty(t, Assign((&group{names: []string{"a"}}).set(), nil, AtWill(true)).Shares)
}

// TestAssignWarmMembersFirst: what no member has goes to a warm member that may have it, whatever it has already. Those that
// are drained or have gone do not count.
func TestAssignWarmMembersFirst(t *testing.T) {
	set := (&group{names: []string{"p0", "p1", "p2", "p3", "p4"}}).set()
	members := []Candidate{
		{ID: "a", Capacity: 1, Held: []string{"p0", "p1"}}, {ID: "b", Capacity: 1}, {ID: "c", Capacity: 1, Drained: true},
	}
	terms := AtWill(false)
	terms.Warm = map[string][]string{"p2": {"a", "gone"}, "p3": {"c"}, "p4": {"a", "b"}}

	out := Assign(set, members, terms)

	require.Equal(t, map[string][]string{"a": {"p0", "p1", "p2"}, "b": {"p3", "p4"}, "c": nil}, out.Shares)
	require.Empty(t, out.Moved)
}

// TestAssignStillPartitionsOfADrainedMember move: it must have none.
func TestAssignStillPartitionsOfADrainedMember(t *testing.T) {
	set := (&group{names: []string{"p0", "p1", "p2", "p3"}}).set()
	terms := AtWill(true)
	terms.Still = map[string]bool{"p0": true, "p1": true, "p2": true, "p3": true}
	for drained, want := range map[bool]map[string][]string{
		true:  {"a": nil, "b": {"p0", "p1", "p2", "p3"}},
		false: {"a": {"p0", "p1", "p2", "p3"}, "b": nil},
	} {
		out := Assign(set, []Candidate{{ID: "a", Capacity: 1, Held: []string{"p0", "p1", "p2", "p3"}, Drained: drained}, {ID: "b", Capacity: 1}}, terms)
		require.Equal(t, want, out.Shares)
	}
}

// TestAssignDrainedMembersDoNotCount: the others divide all by their capacities.
func TestAssignDrainedMembersDoNotCount(t *testing.T) {
	set := (&group{names: []string{"p0", "p1", "p2", "p3", "p4", "p5"}}).set()
	out := Assign(set, []Candidate{{ID: "a", Capacity: 1}, {ID: "b", Capacity: 2}, {ID: "c", Capacity: 3, Drained: true}}, AtWill(true))
	require.Len(t, out.Shares["a"], 2)
	require.Len(t, out.Shares["b"], 4)
}
