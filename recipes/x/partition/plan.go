// SPDX-License-Identifier: Apache-2.0

package partition

// Safety comes from the locks alone. A plan only says which member queues for which lock. So a wrong
// or old plan moves partitions in vain, and never makes a second holder.
//
// Why there is a plan: no pure function of the members alone keeps the shares within one of each
// other and also moves only the partitions of a member that leaves. So the next assignment depends on
// the last one, and every member that plans must know the same last one. It is in ZooKeeper, and a
// member writes it on condition of its version. A member reads the plan before the list of
// members, so the list is never older, and a stale member cannot take a newcomer for dead.
//
// Why no leader plans, and members do not list each other: each member follows its own share, and the
// member before it in the ring, which the share names. If some members have died and one lives, at
// least one living member stands right after a dead one, and plans. A newcomer plans for itself. If
// all have gone, a newcomer notices, because it follows the head until it has a share. So a join
// or a leave costs one list. A hung member delays no plan but its own. The head is only the member
// that follows the set of names.
//
// A plan that is too long for a request takes several transactions. The first one writes the root, and
// the others depend on the root's version, so another planner ends the rest. The first one also has the
// share of the member that follows the planner, which completes the plan if the planner dies.
//
// The new owner of a partition queues for its lock, and then asks all contenders before it to give
// the lock back. The old owner ends its function when it is asked and the plan has given the partition
// away. A request alone may come from a member with an old plan. A plan alone may name a successor
// that never comes.
//
// The planner knows members, names and shares. What a member should have beyond that, a policy says: see policy.go.

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/x/partition/internal/shares"
)

// policy says what the members should have. It is a pure function of the state of the group, the names, the settings of the
// member that plans, and the time.
type policy func(s *state, set []entry, cfg config, rebalance bool) proposal

// proposal is what the next plan should say.
type proposal struct {
	shares.Outcome
	shares map[string]share // of the members that are there or away, but for the ring and the head
	weighs bool             // the head looks at loads
}

// planner makes the plans of one member.
type planner struct {
	*group

	policy  policy
	lacking string // why there was no set at the last look, "" if there was one
}

// made is a plan that was made, or found as it should be, and the state that it was made from.
type made struct {
	*state
	isNew, isBalanced bool
}

// plan makes the next plan, unless other members do so first. The server accepts one of
// several plans from the same state, and the members that made the other plans look again.
func (p *planner) plan(ctx context.Context, rebalance bool) (m made, err error) {
	err = untilWritten(ctx, func() (err error) {
		m, err = p.planOnce(ctx, rebalance)
		return err
	})
	return m, err
}

// planOnce reads the state of the group and writes the next plan.
func (p *planner) planOnce(ctx context.Context, rebalance bool) (made, error) {
	s, err := readState(ctx, p.client, p.at)
	if err != nil {
		return made{}, err
	}
	if _, isMember := s.members[p.cfg.id]; !isMember {
		return made{s, false, true}, nil // the other members plan, and this member when it is back
	}
	set, known, err := p.loadSet(ctx)
	if err != nil {
		return made{}, err
	}
	if _, mixed := s.sets(p.names.id()); !known || mixed {
		set = s.together(set)
	}
	if err := s.findMoving(ctx, p.client, p.at); err != nil {
		return made{}, err
	}
	out := p.policy(s, set, p.cfg, rebalance)
	data, changes, err := s.next(p.at, p.cfg, out)
	if err != nil || data == nil {
		return made{s, false, out.Balanced}, err
	}
	if err := s.write(ctx, p.client, p.at, data, changes); err != nil {
		return made{}, err
	}
	p.telemetry.moves.Add(int64(len(out.Moved)))
	p.client.Logger().Info("planned the partitions", logPath, string(p.at),
		"members", len(s.members), "partitions", len(set), "moves", len(out.Moved), "balanced", out.Balanced)
	return made{s, true, out.Balanced}, nil
}

// loadSet returns the set. known is false if there is none at present, which is logged once for each reason.
func (p *planner) loadSet(ctx context.Context) (set []entry, known bool, err error) {
	set, lacking, err := p.names.read(ctx, p.client)
	if err != nil {
		return nil, false, err
	}
	reason := ""
	if lacking != nil {
		reason = lacking.Error()
	}
	if lacking != nil && reason != p.lacking {
		p.client.Logger().Error("there is no valid set of partitions, the last one stays in force", logPath, string(p.at), "sets", p.names.paths(), "error", lacking)
	}
	p.lacking = reason
	return set, lacking == nil, nil
}

// inForce returns the names of the set or, if there is none, those of the plan.
func (p *planner) inForce(ctx context.Context) (map[string]bool, error) {
	set, known, err := p.loadSet(ctx)
	if err == nil && !known {
		var s *state
		s, err = readState(ctx, p.client, p.at)
		set = entriesOf(s.planned())
	}
	names := make(map[string]bool, len(set))
	for _, e := range set {
		names[e.name] = true
	}
	return names, err
}

// sets returns the ids of the sets whose names the next plan has, if the planner's is own. The names of a set that
// other members have are in the plan, or its members plan soon.
func (s *state) sets(own string) (ids []string, mixed bool) {
	present := make(map[string]bool)
	for _, m := range s.members {
		present[m.Set] = true
	}
	ids = []string{own}
	for _, id := range s.root.Sets {
		if id != own && (present[id] || len(s.away) > 0) { // a member that is away may have it
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	delete(present, own)
	return ids, len(present) > 0 || len(ids) > 1
}

// together returns the entries of a set and the names of the plan.
func (s *state) together(set []entry) []entry {
	all := slices.Concat(set, entriesOf(s.planned()))
	slices.SortStableFunc(all, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	return slices.CompactFunc(all, func(a, b entry) bool { return a.name == b.name })
}

// change is an operation of a plan, and how long it is about.
type change struct {
	op   framework.Op
	size int
}

// around is the part of an operation that is neither path nor data: the access control list of a
// creation above all.
const around = 200

// next returns the changes of the shares that make a proposal the plan, and the data of its root. The data is nil if
// that is the present plan. cfg is of the member that writes it.
func (s *state) next(at layout, cfg config, p proposal) (data []byte, changes []change, err error) {
	planner := cfg.id
	plan := root{Members: s.pzxid, Balanced: p.Balanced, Head: s.root.Head, Weighs: p.weighs, Locks: cfg.folders}
	var mixed bool
	plan.Sets, mixed = s.sets(s.members[planner].Set)
	if _, stays := s.members[plan.Head]; !stays {
		plan.Head = slices.Min(slices.Collect(maps.Keys(s.members)))
	}
	changes, err = s.changes(at, planner, s.inRing(p.shares, plan, mixed))
	if err != nil || len(changes) == 0 && s.exists && reflect.DeepEqual(plan, s.root) {
		return nil, nil, err
	}
	data, err = json.Marshal(plan)
	return data, changes, err
}

// inRing adds to shares which member watches which, and which is the head. A member that is away is not in the ring.
func (s *state) inRing(proposed map[string]share, plan root, mixed bool) map[string]share {
	next := maps.Clone(proposed)
	ids := slices.Sorted(maps.Keys(s.members))
	for i, id := range ids {
		sh := next[id]
		sh.Head = id == plan.Head
		sh.Weighs = sh.Head && plan.Weighs
		if len(ids) > 1 {
			sh.Watches = ids[(i+len(ids)-1)%len(ids)]
		}
		next[id] = sh
	}
	for id, sh := range next {
		sh.Mixed = mixed
		next[id] = sh
	}
	return next
}

// changes returns the operations that make the shares the next ones.
func (s *state) changes(at layout, planner string, next map[string]share) (changes []change, err error) {
	for _, id := range slices.Sorted(maps.Keys(next)) {
		c, changed, err := s.change(at, id, next[id])
		switch {
		case err != nil:
			return nil, err
		case changed && next[id].Watches == planner:
			changes = slices.Insert(changes, 0, c) // see write
		case changed:
			changes = append(changes, c)
		}
	}
	for id := range s.shares {
		if _, stays := next[id]; !stays {
			changes = append(changes, change{framework.DeleteOp(at.share(id)), len(at.share(id)) + around})
		}
	}
	return changes, nil
}

// change returns the operation that makes a member's share the next one.
func (s *state) change(at layout, id string, next share) (c change, changed bool, err error) {
	data, err := json.Marshal(next)
	if err == nil {
		data, err = pack(data)
	}
	if err != nil {
		return c, false, err
	}
	c.size = len(at.share(id)) + len(data) + around
	last, planned := s.shares[id]
	if !planned {
		c.op = framework.CreateOp(at.share(id), data)
		return c, true, nil
	}
	if last.equals(next) {
		return c, false, nil
	}
	c.op = framework.SetDataOp(at.share(id), data)
	return c, true, nil
}

// equals reports whether two shares differ in nothing but loads. A load alone is written only if the
// recorded one is no estimate of it, so that loads that change a little cost no write.
func (s share) equals(other share) bool {
	slices.Sort(s.Partitions)
	for i, load := range other.Loads {
		if i >= len(s.Loads) || load > 2*s.Loads[i] || s.Loads[i] > 2*load {
			return false
		}
	}
	other.Loads = s.Loads
	mine, err := json.Marshal(s)
	theirs, err2 := json.Marshal(other)
	return err == nil && err2 == nil && bytes.Equal(mine, theirs)
}

// write writes a plan in one transaction. If no request has room for it, the plan takes several:
// the first makes it the newest plan, and the others depend on that. A member that sees a part of
// it plans from there, because the first writes the root. The first also has the share of the
// member that follows the planner, which plans if the planner dies before the last.
func (s *state) write(ctx context.Context, client *framework.Framework, at layout, data []byte, changes []change) error {
	guard, version := framework.CreateOp(at.plan(), data), int32(0)
	if s.exists {
		guard, version = framework.SetDataOp(at.plan(), data, framework.WithVersion(s.version)), s.version+1
	}
	for first := true; first || len(changes) > 0; first = false {
		ops, size := []framework.Op{guard}, len(at.plan())+len(data)+around
		for len(changes) > 0 && (len(ops) == 1 || size+changes[0].size <= client.MaxRequestSize()) {
			ops, size, changes = append(ops, changes[0].op), size+changes[0].size, changes[1:]
		}
		if _, err := client.Transact(ctx, ops...); err != nil {
			return err
		}
		guard = framework.CheckOp(at.plan(), version)
	}
	return nil
}
