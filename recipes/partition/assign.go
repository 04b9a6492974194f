// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"cmp"
	"slices"
)

// candidate is a member as the assignment sees it.
type candidate struct {
	id       string
	capacity int
	held     []string // the names that the last plan has given to it
}

// outcome is an assignment.
type outcome struct {
	shares   map[string][]string // sorted names, by the ids of the members
	moves    int                 // partitions that change from one member to another
	balanced bool                // each share is what its member's capacity asks for
}

// assign divides names among members. It is a pure function: all members compute the same from
// the same arguments. It places each name that has no holder. With rebalance it also moves
// names, as few as balance permits; without it no member loses a name. Names that members hold
// and that are not in names are dropped.
//
// A member's share is its part of the names by capacity, rounded up or down. Of all roundings
// that add up, assign takes one with the fewest moves: see quotas.
func assign(names []string, members []candidate, rebalance bool) outcome {
	members = slices.Clone(members)
	slices.SortFunc(members, func(a, b candidate) int { return cmp.Compare(a.id, b.id) })
	out := outcome{shares: make(map[string][]string, len(members)), balanced: true}
	if len(members) == 0 {
		return out
	}
	free := make(map[string]bool, len(names))
	for _, name := range names {
		free[name] = true
	}
	total := len(free)
	for i := range members {
		var held []string
		for _, name := range slices.Sorted(slices.Values(members[i].held)) {
			if free[name] {
				delete(free, name)
				held = append(held, name)
			}
		}
		members[i].held = held
	}
	quota := quotas(total, members)
	if rebalance {
		for i := range members {
			m := &members[i]
			for len(m.held) > quota[i] {
				// The last ones in the order of their names go. So a member that comes and
				// goes disturbs the same partitions each time.
				free[m.held[len(m.held)-1]] = true
				m.held = m.held[:len(m.held)-1]
				out.moves++
			}
		}
	}
	placeFree(free, members, quota)
	capacity := capacityOf(members)
	for _, m := range members {
		slices.Sort(m.held)
		out.shares[m.id] = m.held
		low, high := bounds(total, m.capacity, capacity)
		out.balanced = out.balanced && low <= len(m.held) && len(m.held) <= high
	}
	return out
}

// placeFree gives each free name to the member that lacks most.
func placeFree(free map[string]bool, members []candidate, quota []int) {
	names := make([]string, 0, len(free))
	for name := range free {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		to := 0
		for i := range members {
			if quota[i]-len(members[i].held) > quota[to]-len(members[to].held) {
				to = i
			}
		}
		members[to].held = append(members[to].held, name)
	}
}

// quotas returns the number of partitions for each member. The sum is total. Each quota is the
// member's exact part, rounded up or down. Each partition that rounding down leaves goes first
// to a member for which that saves a move, because it holds the higher number. The rest go to
// the members that lack most, so a newcomer comes before members that stay.
func quotas(total int, members []candidate) []int {
	capacity := capacityOf(members)
	quota := make([]int, len(members))
	var rounded []int // the members whose part is not a whole number
	left := total
	for i, m := range members {
		low, high := bounds(total, m.capacity, capacity)
		quota[i] = low
		left -= low
		if high > low {
			rounded = append(rounded, i)
		}
	}
	saves := func(i int) int {
		if len(members[i].held) > quota[i] {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(rounded, func(a, b int) int {
		return cmp.Or(
			cmp.Compare(saves(a), saves(b)),
			cmp.Compare(quota[b]-len(members[b].held), quota[a]-len(members[a].held)),
		)
	})
	for _, i := range rounded[:left] {
		quota[i]++
	}
	return quota
}

// bounds returns the exact part of a member, rounded down and up.
func bounds(total, capacity, capacities int) (low, high int) {
	low = total * capacity / capacities
	if total*capacity%capacities == 0 {
		return low, low
	}
	return low, low + 1
}

func capacityOf(members []candidate) int {
	sum := 0
	for _, m := range members {
		sum += m.capacity
	}
	return sum
}
