// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"cmp"
	"maps"
	"slices"
)

// An assignment has four steps. Each member keeps what it has. Each member gets an ideal load. What has
// no member goes to the members that lack most, the heaviest partition first. Last, partitions move, if
// the group has settled. The time is near-linear: each partition is sorted, placed and moved once.

// slackPercent is how far a load may be from its ideal before partitions move for it. They move until half
// of that is left, so that small changes of loads move nothing.
const slackPercent = 10

// unit is a weight of one. Ideals are rounded to thousandths of it.
const unit = 1000

// part is a partition and its weight in units.
type part struct {
	name   string
	weight int64
}

// candidate is a member as the assignment sees it.
type candidate struct {
	id       string
	capacity int
	held     []string // the names that the last plan has given to it
	away     bool     // it keeps them, and takes no part
}

// outcome is an assignment.
type outcome struct {
	shares   map[string][]string // sorted names, by the ids of the members
	moves    int                 // partitions that change from one member to another
	balanced bool                // no partition would move if the group settled now
}

// assign divides a set among members. It is a pure function: all members compute the same from
// the same arguments. It places each partition that has no holder. With rebalance it also moves
// partitions, without it no member loses one. Partitions that members hold and that are not in the
// set are dropped.
//
// If all weights are equal, a member's share is its part of the partitions by capacity, rounded up or
// down, with the fewest moves: see quotas. Otherwise its load stays within slackPercent of its part of
// the weight, as far as the weights allow.
func assign(set []part, members []candidate, rebalance bool) outcome {
	out := outcome{shares: make(map[string][]string, len(members)), balanced: true}
	b, free := newBalance(set, members)
	if len(b.holders) > 0 {
		b.place(free)
	}
	settled := len(b.away) == 0
	if rebalance && settled {
		out.moves = b.move()
	}
	for _, h := range slices.Concat(b.holders, b.away) {
		names := make([]string, len(h.parts))
		for i, p := range h.parts {
			names[i] = p.name
		}
		slices.Sort(names)
		out.shares[h.id] = names
	}
	out.balanced = settled && b.move() == 0
	return out
}

// holder is a member during an assignment.
type holder struct {
	candidate

	parts  []part // by weight, then by name
	gained []part // that have moved to it: none moves twice
	load   int64
	ideal  int64
}

// excess is what the holder has beyond its ideal. It is negative if the holder lacks something.
func (h *holder) excess() int64 { return h.load - h.ideal }

// balance is an assignment that is under way.
type balance struct {
	holders []*holder // by id
	away    []*holder // that keep what they hold
	ranking []*holder // by excess: the first lacks most
	slack   int64     // in percent; 0 if all weights are equal
}

func (b *balance) low(h *holder) int64  { return h.ideal - h.ideal*b.slack/100 }
func (b *balance) high(h *holder) int64 { return h.ideal + h.ideal*b.slack/100 }

func byWeight(p, q part) int {
	return cmp.Or(cmp.Compare(p.weight, q.weight), cmp.Compare(p.name, q.name))
}

func byExcess(h, other *holder) int {
	return cmp.Or(cmp.Compare(h.excess(), other.excess()), cmp.Compare(h.id, other.id))
}

// newBalance leaves each member what it holds, and returns the parts that no member holds.
func newBalance(set []part, members []candidate) (b *balance, free []part) {
	b = new(balance)
	set = slices.SortedFunc(slices.Values(set), byWeight)
	if len(set) > 0 && set[0].weight != set[len(set)-1].weight {
		b.slack = slackPercent
	}
	left, kept := make(map[string]part, len(set)), make(map[string]bool)
	for _, p := range set {
		if b.slack == 0 {
			p.weight = unit
		}
		left[p.name] = p
	}
	for _, m := range slices.SortedFunc(slices.Values(members), func(m, n candidate) int { return cmp.Compare(m.id, n.id) }) {
		h := &holder{candidate: m}
		for _, name := range m.held {
			if p, free := left[name]; free {
				delete(left, name)
				h.parts = append(h.parts, p)
				h.load += p.weight
			}
		}
		if h.away {
			b.away = append(b.away, h)
			for _, p := range h.parts {
				kept[p.name] = true
			}
			continue
		}
		b.holders = append(b.holders, h)
	}
	if len(b.holders) > 0 {
		b.setIdeals(slices.DeleteFunc(set, func(p part) bool { return kept[p.name] }))
	}
	b.ranking = slices.SortedFunc(slices.Values(b.holders), byExcess)
	return b, slices.Collect(maps.Values(left))
}

// setIdeals sets how much each holder should have.
func (b *balance) setIdeals(set []part) {
	capacity := capacityOf(b.holders)
	if b.slack == 0 {
		for i, n := range quotas(len(set), b.holders) {
			b.holders[i].ideal = int64(n) * unit
		}
		return
	}
	weight := int64(0)
	for _, p := range set {
		weight += p.weight
	}
	each := float64(weight) / float64(capacity)
	// A partition that is heavier than the largest share takes that member. The others divide the rest.
	largest := slices.SortedFunc(slices.Values(b.holders), func(h, other *holder) int { return cmp.Compare(other.capacity, h.capacity) })
	for i := 0; i < min(len(largest), len(set))-1; i++ {
		heaviest := set[len(set)-1-i].weight
		if float64(heaviest) <= each*float64(largest[i].capacity) {
			break
		}
		weight, capacity = weight-heaviest, capacity-largest[i].capacity
		each = float64(weight) / float64(capacity)
	}
	for _, h := range b.holders {
		h.ideal = int64(each * float64(h.capacity))
	}
}

// place gives each free part to the member that lacks most, the heaviest first.
func (b *balance) place(free []part) {
	slices.SortFunc(free, func(p, q part) int {
		return cmp.Or(cmp.Compare(q.weight, p.weight), cmp.Compare(p.name, q.name))
	})
	for _, p := range free {
		to := b.ranking[0]
		to.parts = append(to.parts, p)
		b.weigh(to, p.weight)
	}
	for _, h := range b.holders {
		slices.SortFunc(h.parts, byWeight)
	}
}

// weigh changes the load of a holder, and its place in the ranking.
func (b *balance) weigh(h *holder, weight int64) {
	at, _ := slices.BinarySearchFunc(b.ranking, h, byExcess)
	b.ranking = slices.Delete(b.ranking, at, at+1)
	h.load += weight
	at, _ = slices.BinarySearchFunc(b.ranking, h, byExcess)
	b.ranking = slices.Insert(b.ranking, at, h)
}

// move moves parts from members that have too much, then to members that have too little, and returns
// how many have moved.
func (b *balance) move() (moves int) {
	for _, h := range slices.Backward(slices.Clone(b.ranking)) {
		if h.load > b.high(h) {
			moves += b.relieve(h)
		}
	}
	moves += b.fill()
	for _, h := range b.holders {
		h.parts, h.gained = append(h.parts, h.gained...), nil
		slices.SortFunc(h.parts, byWeight)
	}
	return moves
}

// relieve moves parts from a holder until it has half of the slack too much, or no part is of use to the
// member that lacks most. Then no part is of use to the others either.
func (b *balance) relieve(from *holder) (moves int) {
	for from.excess() > from.ideal*b.slack/200 {
		if !b.moveOne(from, b.ranking[0]) {
			break
		}
		moves++
	}
	return moves
}

// fill moves parts to the members that have too little, a newcomer above all.
func (b *balance) fill() (moves int) {
	light := slices.DeleteFunc(slices.Clone(b.ranking), func(h *holder) bool { return h.load >= b.low(h) })
	donors := slices.Clone(b.ranking)
	for len(light) > 0 && len(donors) > 0 {
		to := slices.MinFunc(light, byExcess)
		from := slices.MaxFunc(donors, byExcess)
		switch {
		case -to.excess() <= to.ideal*b.slack/200:
			light = slices.DeleteFunc(light, func(h *holder) bool { return h == to })
		case b.moveOne(from, to):
			moves++
		default:
			donors = slices.DeleteFunc(donors, func(h *holder) bool { return h == from })
		}
	}
	return moves
}

// moveOne moves the part that serves both holders best, if there is one.
func (b *balance) moveOne(from, to *holder) bool {
	i := b.choose(from, to)
	if i < 0 {
		return false
	}
	p := from.parts[i]
	from.parts = slices.Delete(from.parts, i, i+1)
	to.gained = append(to.gained, p)
	b.weigh(from, -p.weight)
	b.weigh(to, p.weight)
	return true
}

// choose returns the index of the part to move, or -1.
func (b *balance) choose(from, to *holder) int {
	// The heaviest part that takes neither holder past its ideal moves no weight in vain.
	room := min(from.excess(), -to.excess())
	next, _ := slices.BinarySearchFunc(from.parts, room, func(p part, room int64) int {
		if p.weight <= room {
			return -1
		}
		return 1
	})
	if next > 0 && room > 0 {
		return next - 1
	}
	// Past an ideal goes the lightest one, if a holder is out of its bounds, and both end within them
	// or clearly nearer to each other. Otherwise changes of loads would move it to and fro.
	if next == len(from.parts) || from.load <= b.high(from) && to.load >= b.low(to) {
		return -1
	}
	weight, gap := from.parts[next].weight, from.excess()-to.excess()
	within := to.load+weight <= b.high(to) && from.load-weight >= b.low(from)
	clearly := max(1, from.ideal*b.slack/100)
	if within || weight >= clearly && gap-weight >= clearly {
		return next
	}
	return -1
}

// quotas returns the number of partitions for each member. The sum is total. Each quota is the
// member's exact part, rounded up or down. Each partition that rounding down leaves goes first
// to a member for which that saves a move, because it holds the higher number. The rest go to
// the members that lack most, so a newcomer comes before members that stay.
func quotas(total int, members []*holder) []int {
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
		if len(members[i].parts) > quota[i] {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(rounded, func(a, b int) int {
		return cmp.Or(
			cmp.Compare(saves(a), saves(b)),
			cmp.Compare(quota[b]-len(members[b].parts), quota[a]-len(members[a].parts)),
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

func capacityOf(members []*holder) int {
	sum := 0
	for _, m := range members {
		sum += m.capacity
	}
	return sum
}
