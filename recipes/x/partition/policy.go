// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"maps"
	"slices"
	"time"

	"github.com/gocurator/curator/recipes/x/partition/internal/shares"
)

// decide is the policy of all members: loads, the orders of operators, standbys in zones, and a budget of moves. Package
// shares divides the partitions by what they say.
func decide(s *state, set []entry, cfg config, rebalance bool) proposal {
	loads := s.settledLoads()
	set = slices.DeleteFunc(slices.Clone(set), func(e entry) bool { return slices.Contains(s.orders.Excluded, e.name) })
	out := shares.Assign(weigh(set, loads), s.candidates(), s.terms(cfg, rebalance))
	p := proposal{Outcome: out, shares: make(map[string]share), weighs: len(loads) > 0}
	for id, m := range s.members {
		p.shares[id] = share{Capacity: m.Capacity, Return: m.Return, Zone: m.Zone}
	}
	maps.Copy(p.shares, s.away)
	standbys, moved := s.standbys(out.Shares), s.moved(out, loads, cfg)
	isMoving := func(name string) bool { return s.moving[name] || out.Moved[name] && s.isPaced(cfg) }
	for id, next := range p.shares {
		if s.isDrained(id) {
			next.Return = 0 // it leaves for good
		}
		next.Standbys = standbys[id]
		fill(&next, out.Shares[id], loads, moved, isMoving)
		p.shares[id] = next
	}
	return p
}

// fill gives a share its partitions, and what the next planner must know about them.
func fill(s *share, names []string, loads map[string]int, moved map[string]time.Time, isMoving func(string) bool) {
	s.Partitions, s.Loads, s.Moving, s.Moved = names, nil, nil, make(map[string]time.Time)
	for _, name := range names {
		if isMoving(name) {
			s.Moving = append(s.Moving, name)
		}
		if at, found := moved[name]; found {
			s.Moved[name] = at
		}
	}
	if slices.ContainsFunc(names, func(name string) bool { return loads[name] > 0 }) {
		for _, name := range names {
			s.Loads = append(s.Loads, loads[name])
		}
	}
}

// isPaced reports whether the plan must tell which partitions are under way.
func (s *state) isPaced(cfg config) bool { return cfg.moves > 0 || s.drains() }

// terms returns what the next plan may do.
func (s *state) terms(cfg config, rebalance bool) shares.Terms {
	t := shares.AtWill(rebalance)
	t.Pins, t.Still, t.Warm = s.orders.Pinned, make(map[string]bool), s.warm()
	maps.Copy(t.Still, s.moving)
	underWay := s.underWay(cfg)
	t.Drains = max(1, cfg.moves) - underWay
	if cfg.moves > 0 {
		t.Most = cfg.moves - underWay
	}
	for _, sh := range s.shares {
		for name := range sh.Moved {
			t.Still[name] = t.Still[name] || sh.hasMovedWithin(name, cfg.cool)
		}
	}
	return t
}

// underWay counts the partitions under way that count against the budget: not those whose functions have not returned for
// the grace. Otherwise one of them would hold all others back.
func (s *state) underWay(cfg config) (n int) {
	for _, sh := range s.shares {
		for _, name := range sh.Moving {
			_, isDated := sh.Moved[name]
			if s.moving[name] && (!isDated || sh.hasMovedWithin(name, cfg.grace)) {
				n++
			}
		}
	}
	return n
}

// moved returns when the partitions have moved for which the next plans must know it, with those of the next plan.
func (s *state) moved(out shares.Outcome, loads map[string]int, cfg config) map[string]time.Time {
	moved, now := make(map[string]time.Time), time.Now().UTC()
	for _, sh := range s.shares {
		for name, at := range sh.Moved {
			if s.moving[name] || sh.hasMovedWithin(name, cfg.cool) || loads[name] > 0 && sh.hasMovedWithin(name, warmUp) {
				moved[name] = at
			}
		}
	}
	for name := range out.Moved {
		if cfg.cool > 0 || loads[name] > 0 || s.isPaced(cfg) {
			moved[name] = now
		}
	}
	return moved
}

// loads returns the loads that were reported: by the members to which the plan gives the partitions, or
// earlier.
func (s *state) loads() map[string]int {
	loads := make(map[string]int)
	for id, sh := range s.shares {
		reported := s.members[id].Loads
		for i, name := range sh.Partitions {
			load := reported[name]
			if load == 0 && len(sh.Loads) == len(sh.Partitions) {
				load = sh.Loads[i]
			}
			if load > 0 {
				loads[name] = min(load, MaxLoad)
			}
		}
	}
	return loads
}

// warmUp is for how long after a move a partition counts with the load that it had before.
const warmUp = 10 * time.Minute

// settledLoads returns the loads that count. A move itself makes work for a while. If that counted, it would cause the next
// move, and the group would not come to rest.
func (s *state) settledLoads() map[string]int {
	loads := s.loads()
	for _, sh := range s.shares {
		for i, name := range sh.Partitions {
			if len(sh.Loads) == len(sh.Partitions) && sh.Loads[i] > 0 && sh.hasMovedWithin(name, warmUp) {
				loads[name] = sh.Loads[i]
			}
		}
	}
	return loads
}

// weigh returns the set with weights. A partition without a load counts as the mean of the others.
func weigh(set []entry, reported map[string]int) []shares.Part {
	sum, known := 0, 0
	parts := make([]shares.Part, len(set))
	for i, e := range set {
		load := e.load
		if n := reported[e.name]; n > 0 {
			load = n
		}
		if load > 0 {
			sum, known = sum+load, known+1
		}
		parts[i] = shares.Part{Name: e.name, Weight: int64(load) * shares.Unit}
	}
	for i := range parts {
		if parts[i].Weight == 0 {
			parts[i].Weight = int64(max(1, sum/max(1, known))) * shares.Unit
		}
	}
	return parts
}
