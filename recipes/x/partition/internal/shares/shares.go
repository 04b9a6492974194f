// SPDX-License-Identifier: Apache-2.0

// Package shares divides the partitions of a group among its members. Package partition has the plans, and the
// benchmark simulates them.
//
// An assignment has four steps. Each member keeps what it has. Each member gets an ideal load. What has
// no member goes to the members that lack most, the heaviest partition first. Last, partitions move, if
// the group has settled. The time is near-linear: each partition is sorted, placed and moved once.
package shares

import (
	"cmp"
	"maps"
	"math"
	"slices"
)

// slackPercent is how far a load may be from its ideal before partitions move for it. They move until half
// of that is left, so that small changes of loads move nothing.
const slackPercent = 10

// Unit is a weight of one. Ideals are rounded to thousandths of it.
const Unit = 1000

// Part is a partition and its weight in units.
type Part struct {
	Name   string
	Weight int64
}

// Candidate is a member as the assignment sees it.
type Candidate struct {
	ID       string
	Capacity int
	Held     []string // the names that the last plan has given to it
	Away     bool     // it keeps them, and takes no part
	Drained  bool     // it gives them up
}

// Terms say what an assignment may do.
type Terms struct {
	Rebalance bool
	Most      int                 // moves, for balance and from drained members together
	Drains    int                 // moves from drained members, not more than Most
	Still     map[string]bool     // partitions that do not move now
	Pins      map[string]string   // the members that partitions must have, if they are there
	Warm      map[string][]string // the members that get partitions first which no member has
}

// AtWill returns terms without bounds.
func AtWill(rebalance bool) Terms {
	return Terms{Rebalance: rebalance, Most: math.MaxInt, Drains: math.MaxInt}
}

// Outcome is an assignment.
type Outcome struct {
	Shares   map[string][]string // sorted names, by the ids of the members
	Moved    map[string]bool     // partitions that change from one member to another
	Balanced bool                // no partition would move if the group settled now
}

// Assign divides a set among members. It is a pure function: all members compute the same from
// the same arguments. It places each partition that has no holder, or is pinned to another member. With
// Rebalance it also moves partitions, without it only drained members lose some. Partitions that members hold and that are not in the
// set are dropped.
//
// If all weights are equal, a member's share is its part of the partitions by capacity, rounded up or
// down, with the fewest moves: see quotas. Otherwise its load stays within slackPercent of its part of
// the weight, as far as the weights allow.
func Assign(set []Part, members []Candidate, t Terms) Outcome {
	out := Outcome{Shares: make(map[string][]string, len(members)), Moved: make(map[string]bool)}
	b, free := newBalance(set, members, t)
	if len(b.holders) > 0 {
		b.place(free)
	}
	b.drain()
	settled := len(b.away) == 0
	if t.Rebalance && settled {
		b.move()
	}
	for _, h := range slices.Concat(b.holders, b.away) {
		var names []string
		for _, p := range h.all() {
			names = append(names, p.Name)
		}
		slices.Sort(names)
		out.Shares[h.ID] = names
		for _, p := range h.came {
			out.Moved[p.Name] = true
		}
	}
	b.gather()
	b.moves, b.terms = 0, AtWill(true)
	b.drain()
	b.move()
	out.Balanced = settled && b.moves == 0
	return out
}

// holder is a member during an assignment.
type holder struct {
	Candidate

	parts  []Part // by weight, then by name
	gained []Part // that have moved to it, or do not move now: none moves twice
	pinned []Part // that never move
	came   []Part // that have moved to it
	load   int64
	ideal  int64
}

func (h *holder) all() []Part { return slices.Concat(h.parts, h.gained, h.pinned) }
func (h *holder) count() int  { return len(h.parts) + len(h.gained) + len(h.pinned) }

// excess is what the holder has beyond its ideal. It is negative if the holder lacks something.
func (h *holder) excess() int64 { return h.load - h.ideal }

// balance is an assignment that is under way.
type balance struct {
	holders []*holder // by id
	away    []*holder // that keep what they hold
	ranking []*holder // by excess: the first lacks most. Drained members are not there
	slack   int64     // in percent; 0 if all weights are equal
	terms   Terms
	moves   int
}

func (b *balance) low(h *holder) int64  { return h.ideal - h.ideal*b.slack/100 }
func (b *balance) high(h *holder) int64 { return h.ideal + h.ideal*b.slack/100 }

func byWeight(p, q Part) int {
	return cmp.Or(cmp.Compare(p.Weight, q.Weight), cmp.Compare(p.Name, q.Name))
}

func byExcess(h, other *holder) int {
	return cmp.Or(cmp.Compare(h.excess(), other.excess()), cmp.Compare(h.ID, other.ID))
}

// newBalance leaves each member what it holds, and returns the parts that no member holds.
func newBalance(set []Part, members []Candidate, t Terms) (b *balance, free []Part) {
	stays := func(m Candidate) bool { return !m.Away && !m.Drained }
	t.Pins = maps.Clone(t.Pins)
	maps.DeleteFunc(t.Pins, func(_, id string) bool {
		return !slices.ContainsFunc(members, func(m Candidate) bool { return m.ID == id && stays(m) })
	})
	b = &balance{terms: t}
	set = slices.SortedFunc(slices.Values(set), byWeight)
	if len(set) > 0 && set[0].Weight != set[len(set)-1].Weight {
		b.slack = slackPercent
	} else {
		for i := range set {
			set[i].Weight = Unit
		}
	}
	unheld := make(map[string]Part, len(set))
	for _, p := range set {
		unheld[p.Name] = p
	}
	mayDrain := slices.ContainsFunc(members, stays) // otherwise there is no member to drain to
	kept := make(map[string]bool)
	for _, m := range slices.SortedFunc(slices.Values(members), func(m, n Candidate) int { return cmp.Compare(m.ID, n.ID) }) {
		if m.Drained = m.Drained && mayDrain; m.Drained {
			m.Capacity = 0
		}
		h := b.takeOver(m, unheld)
		if !h.Away {
			b.holders = append(b.holders, h)
			continue
		}
		b.away = append(b.away, h)
		for _, p := range h.all() {
			kept[p.Name] = true
		}
	}
	if len(b.holders) > 0 { // they divide what no absent member keeps
		b.setIdeals(slices.DeleteFunc(set, func(p Part) bool { return kept[p.Name] }))
	}
	b.ranking = slices.SortedFunc(slices.Values(slices.DeleteFunc(slices.Clone(b.holders), func(h *holder) bool { return h.Drained })), byExcess)
	return b, slices.Collect(maps.Values(unheld))
}

// takeOver returns a member with those of the unheld parts that it holds by the last plan.
func (b *balance) takeOver(m Candidate, unheld map[string]Part) *holder {
	h := &holder{Candidate: m}
	for _, name := range m.Held {
		p, found := unheld[name]
		pin, isPinned := b.terms.Pins[name]
		if !found || isPinned && pin != m.ID {
			continue // the set has it no more, or it is another member's
		}
		delete(unheld, name)
		h.keep(p, isPinned, b.terms.Still[name] && !h.Drained)
	}
	return h
}

func (h *holder) keep(p Part, pinned, still bool) {
	h.load += p.Weight
	switch {
	case pinned:
		h.pinned = append(h.pinned, p)
	case still:
		h.gained = append(h.gained, p)
	default:
		h.parts = append(h.parts, p)
	}
}

// setIdeals sets how much each holder should have.
func (b *balance) setIdeals(set []Part) {
	capacity := capacityOf(b.holders)
	if b.slack == 0 {
		for i, n := range quotas(len(set), b.holders) {
			b.holders[i].ideal = int64(n) * Unit
		}
		return
	}
	weight := int64(0)
	for _, p := range set {
		weight += p.Weight
	}
	each := float64(weight) / float64(capacity)
	// A partition that is heavier than the largest share takes that member. The others divide the rest.
	largest := slices.SortedFunc(slices.Values(b.holders), func(h, other *holder) int { return cmp.Compare(other.Capacity, h.Capacity) })
	for i := 0; i < min(len(largest), len(set))-1; i++ {
		heaviest := set[len(set)-1-i].Weight
		if float64(heaviest) <= each*float64(largest[i].Capacity) {
			break
		}
		weight, capacity = weight-heaviest, capacity-largest[i].Capacity
		each = float64(weight) / float64(capacity)
	}
	for _, h := range b.holders {
		h.ideal = int64(each * float64(h.Capacity))
	}
}

// place gives each free part to the member that lacks most, the heaviest first.
func (b *balance) place(free []Part) {
	slices.SortFunc(free, func(p, q Part) int {
		return cmp.Or(cmp.Compare(q.Weight, p.Weight), cmp.Compare(p.Name, q.Name))
	})
	byID := make(map[string]*holder, len(b.holders))
	for _, h := range b.holders {
		byID[h.ID] = h
	}
	for _, p := range free {
		to := b.lightest(b.terms.Warm[p.Name], byID)
		if pin := byID[b.terms.Pins[p.Name]]; pin != nil {
			pin.pinned = append(pin.pinned, p)
			b.weigh(pin, p.Weight)
			continue
		}
		to.parts = append(to.parts, p)
		b.weigh(to, p.Weight)
	}
	for _, h := range b.holders {
		slices.SortFunc(h.parts, byWeight)
	}
}

// lightest returns the one of these members that lacks most, of all if none of these may have partitions.
func (b *balance) lightest(ids []string, byID map[string]*holder) *holder {
	var found []*holder
	for _, id := range ids {
		if h := byID[id]; h != nil && !h.Drained {
			found = append(found, h)
		}
	}
	if len(found) == 0 {
		return b.ranking[0]
	}
	return slices.MinFunc(found, byExcess)
}

// weigh changes the load of a holder, and its place in the ranking.
func (b *balance) weigh(h *holder, weight int64) {
	if h.Drained {
		h.load += weight
		return
	}
	at, _ := slices.BinarySearchFunc(b.ranking, h, byExcess)
	b.ranking = slices.Delete(b.ranking, at, at+1)
	h.load += weight
	at, _ = slices.BinarySearchFunc(b.ranking, h, byExcess)
	b.ranking = slices.Insert(b.ranking, at, h)
}

// drain moves parts from drained members to those that lack most, the lightest first.
func (b *balance) drain() {
	for _, h := range b.holders {
		for h.Drained && len(h.parts) > 0 && b.moves < min(b.terms.Drains, b.terms.Most) {
			b.moveThe(0, h, b.ranking[0])
		}
	}
}

// move moves parts from members that have too much, then to members that have too little.
func (b *balance) move() {
	for _, h := range slices.Backward(slices.Clone(b.ranking)) {
		if h.load > b.high(h) {
			b.relieve(h)
		}
	}
	if !slices.ContainsFunc(b.holders, func(h *holder) bool { return h.Drained && h.count() > 0 }) {
		b.fill() // otherwise the partitions of drained members will do that
	}
}

// gather has the next move consider all parts.
func (b *balance) gather() {
	for _, h := range b.holders {
		h.parts, h.gained = append(h.parts, h.gained...), nil
		slices.SortFunc(h.parts, byWeight)
	}
}

// relieve moves parts from a holder until it has half of the slack too much, or no part is of use to the
// member that lacks most. Then no part is of use to the others either.
func (b *balance) relieve(from *holder) {
	for from.excess() > from.ideal*b.slack/200 {
		if !b.moveOne(from, b.ranking[0]) {
			return
		}
	}
}

// fill moves parts to the members that have too little, a newcomer above all.
func (b *balance) fill() {
	light := slices.DeleteFunc(slices.Clone(b.ranking), func(h *holder) bool { return h.load >= b.low(h) })
	donors := slices.Clone(b.ranking)
	for len(light) > 0 && len(donors) > 0 {
		to := slices.MinFunc(light, byExcess)
		from := slices.MaxFunc(donors, byExcess)
		switch {
		case -to.excess() <= to.ideal*b.slack/200:
			light = slices.DeleteFunc(light, func(h *holder) bool { return h == to })
		case b.moveOne(from, to):
		default:
			donors = slices.DeleteFunc(donors, func(h *holder) bool { return h == from })
		}
	}
}

// moveOne moves the part that serves both holders best, if there is one.
func (b *balance) moveOne(from, to *holder) bool {
	i := b.choose(from, to)
	if i < 0 || b.moves >= b.terms.Most {
		return false
	}
	b.moveThe(i, from, to)
	return true
}

func (b *balance) moveThe(i int, from, to *holder) {
	p := from.parts[i]
	from.parts = slices.Delete(from.parts, i, i+1)
	to.gained, to.came = append(to.gained, p), append(to.came, p)
	b.weigh(from, -p.Weight)
	b.weigh(to, p.Weight)
	b.moves++
}

// choose returns the index of the part to move, or -1.
func (b *balance) choose(from, to *holder) int {
	// The heaviest part that takes neither holder past its ideal moves no weight in vain.
	room := min(from.excess(), -to.excess())
	next, _ := slices.BinarySearchFunc(from.parts, room, func(p Part, room int64) int {
		if p.Weight <= room {
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
	weight, gap := from.parts[next].Weight, from.excess()-to.excess()
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
		quota[i] = total * m.Capacity / capacity
		left -= quota[i]
		if total*m.Capacity%capacity > 0 {
			rounded = append(rounded, i)
		}
	}
	saves := func(i int) int {
		if members[i].count() > quota[i] {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(rounded, func(a, b int) int {
		return cmp.Or(
			cmp.Compare(saves(a), saves(b)),
			cmp.Compare(quota[b]-members[b].count(), quota[a]-members[a].count()),
		)
	})
	for _, i := range rounded[:left] {
		quota[i]++
	}
	return quota
}

func capacityOf(members []*holder) int {
	sum := 0
	for _, m := range members {
		sum += m.Capacity
	}
	return sum
}
