// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"maps"
	"math"
	"slices"
)

// Which members stand by follows from the members and the owners alone: rendezvous hashing. So a plan depends on
// no standby of the plan before, and a join or a leave changes only as many standbys as it must. The shares have
// them, because a member reads no more than its share.

// spare is a member that may stand by.
type spare struct {
	id, zone string
	capacity float64
	hash     uint64
}

// standbys returns the partitions for which the members stand by, sorted, if the shares are these.
func (s *state) standbys(shares map[string][]string) map[string][]string {
	n, zones := 0, make(map[string]string)
	var spares []spare
	for id, m := range s.members {
		zones[id] = m.Zone
		if m.Standbys != nil && !s.isDrained(id) {
			n = max(n, *m.Standbys)
			spares = append(spares, spare{id, m.Zone, float64(m.Capacity), hash(id)})
		}
	}
	for id, sh := range s.away {
		zones[id] = sh.Zone
		if len(sh.Standbys) > 0 { // so that its return changes nothing
			spares = append(spares, spare{id, sh.Zone, float64(sh.Capacity), hash(id)})
		}
	}
	standbys := make(map[string][]string)
	for owner, names := range shares {
		for _, name := range names {
			for _, id := range choose(name, owner, zones[owner], spares, n) {
				standbys[id] = append(standbys[id], name)
			}
		}
	}
	for _, names := range standbys {
		slices.Sort(names)
	}
	return standbys
}

// choose returns the n standbys of a partition: each time the first of those in a zone that has none, by
// weighted rendezvous hashing (Schindelhauer and Schomaker, 2005).
func choose(name, owner, zone string, spares []spare, n int) []string {
	chosen, zones, at := []string{owner}, []string{zone}, hash(name)
	for range min(n, len(spares)) {
		best, least, isElsewhere := -1, math.Inf(1), false
		for i, s := range spares {
			if slices.Contains(chosen, s.id) {
				continue
			}
			elsewhere := !slices.Contains(zones, s.zone)
			if isElsewhere && !elsewhere {
				continue
			}
			score := -math.Log((float64(mix(at^s.hash)>>11)+0.5)/(1<<53)) / s.capacity
			if elsewhere && !isElsewhere || score < least {
				best, least, isElsewhere = i, score, elsewhere
			}
		}
		if best < 0 {
			break
		}
		chosen, zones = append(chosen, spares[best].id), append(zones, spares[best].zone)
	}
	return chosen[1:]
}

// warm returns the standbys that are prepared, by partition.
func (s *state) warm() map[string][]string {
	warm := make(map[string][]string)
	for _, id := range slices.Sorted(maps.Keys(s.members)) {
		for _, name := range s.members[id].Prepared {
			if _, stands := slices.BinarySearch(s.shares[id].Standbys, name); stands { // otherwise it has not written yet
				warm[name] = append(warm[name], id)
			}
		}
	}
	return warm
}
