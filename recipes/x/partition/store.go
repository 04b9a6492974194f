// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/internal/attempt"
	"github.com/gocurator/curator/recipes/x/partition/internal/shares"
)

// layout has the paths of a group: a znode for each member, a plan with a share for each member,
// and a lock for each partition.
type layout string

func (l layout) members() string         { return framework.JoinPath(string(l), "members") }
func (l layout) member(id string) string { return framework.JoinPath(l.members(), id) }
func (l layout) plan() string            { return framework.JoinPath(string(l), "plan") }
func (l layout) share(id string) string  { return framework.JoinPath(l.plan(), id) }
func (l layout) orders() string          { return framework.JoinPath(string(l), "orders") }
func (l layout) locks() string           { return framework.JoinPath(string(l), "locks") }
func (l layout) lock(name string) string { return framework.JoinPath(l.locks(), name) }

// root is the data of the znode plan. Each plan writes it on condition of its version, so of
// two plans that were made from one state the server accepts one.
type root struct {
	// Members is the pzxid of the folder of the members that the plan was made from.
	Members int64 `json:"members"`

	// Balanced says that nothing would move if the group settled as it is.
	Balanced bool `json:"balanced"`

	// Head is the member that follows the set of names.
	Head string `json:"head"`

	// Weighs says that a member has reported loads, which the head looks at.
	Weighs bool `json:"weighs,omitempty"`

	// Sets are the ids of the sets whose names the plan has.
	Sets []string `json:"sets,omitempty"`
}

// parseRoot returns the zero root for data that was written by hand. The next plan mends it.
func parseRoot(data []byte) (r root) {
	if json.Unmarshal(data, &r) != nil {
		return root{}
	}
	return r
}

// share is the data of the znode plan/<id>: what one member is to do.
type share struct {
	Capacity int `json:"capacity"`

	// Watches is the member before this one in the ring, "" if there is no other. This member
	// plans when that one has gone.
	Watches string `json:"watches,omitempty"`

	Head       bool     `json:"head,omitempty"`
	Weighs     bool     `json:"weighs,omitempty"` // this head looks at the loads
	Partitions []string `json:"partitions,omitempty"`

	// Return is for how long the partitions wait for the return of the member, in milliseconds. Gone is when
	// another member has noticed that it is away, zero while it is not.
	Return int64     `json:"return,omitempty"`
	Gone   time.Time `json:"gone,omitzero"`

	// Moving are the partitions that have come to this member within a budget and are perhaps under way. Moved is
	// when partitions have come: for a cool-down, the warm-up of loads, and the grace of functions that must return.
	Moving []string             `json:"moving,omitempty"`
	Moved  map[string]time.Time `json:"moved,omitempty"`

	// Loads are the loads of the partitions that were reported when the share was written, each 0 if there
	// was none. They count when the member has gone, or has not reported yet.
	Loads []int `json:"loads,omitempty"`

	// Standbys are the partitions for which the member stands by.
	Zone     string   `json:"zone,omitempty"`
	Standbys []string `json:"standbys,omitempty"`

	Mixed bool `json:"mixed,omitempty"` // the plan has names of several sets
}

// until returns when the member is no longer awaited.
func (s share) until() time.Time { return s.Gone.Add(time.Duration(s.Return) * time.Millisecond) }

// parseShare fails for data that no plan has, but that was written by hand.
func parseShare(data []byte) (share, error) {
	var s share
	data, err := unpack(data)
	if err == nil {
		err = json.Unmarshal(data, &s)
	}
	for _, name := range slices.Concat(s.Partitions, s.Standbys) {
		if err == nil && !isName(name) {
			err = fmt.Errorf("partition %q", name)
		}
	}
	return s, err
}

// registration is the data of the znode members/<id>.
type registration struct {
	Capacity int            `json:"capacity"`
	Return   int64          `json:"return,omitempty"` // as in the share
	Loads    map[string]int `json:"loads,omitempty"`  // that its functions have reported
	Drained  bool           `json:"drained,omitempty"`
	Zone     string         `json:"zone,omitempty"`
	Standbys *int           `json:"standbys,omitempty"` // of each partition, nil if this member is none
	Prepared []string       `json:"prepared,omitempty"` // for which it is a warm standby
	Set      string         `json:"set,omitempty"`      // the id of its set
}

// state is what the znodes of a group say.
type state struct {
	exists  bool // there is a plan
	version int32
	root    root
	shares  map[string]share
	members map[string]registration
	owners  map[int64]string // members by their sessions
	away    map[string]share // of members whose return is awaited
	wait    time.Duration    // until the first of them is no longer awaited
	pzxid   int64            // of the folder of the members
	orders  orders
	ordered int64           // the mzxid of the orders, 0 if there are none
	moving  map[string]bool // partitions that are under way within a budget
	wrote   bool            // a plan
}

// readState reads the plan first. So the members that it then reads are never older than the
// plan, and a member of the plan that is not there has gone.
func readState(ctx context.Context, client *framework.Framework, at layout) (*state, error) {
	s := &state{shares: make(map[string]share), members: make(map[string]registration), owners: make(map[int64]string)}
	err := readAll(ctx, client, []string{at.plan(), at.orders()}, func(i int, node framework.Node) error {
		switch {
		case !node.Exists():
		case i == 0:
			s.exists, s.version, s.root = true, node.Stat.Version, parseRoot(node.Data)
		default:
			s.ordered, s.orders = node.Stat.Mzxid, ordersOf(client, at, node.Data)
		}
		return nil
	})
	if err != nil {
		return s, err
	}
	var names, ids []string
	var folder framework.Stat
	var noShares, noMembers error
	err = client.Pipeline(ctx,
		framework.ReadChildren(at.plan(), &names).StoringErrorIn(&noShares),
		framework.ReadChildren(at.members(), &ids, framework.StoringStatIn(&folder)).StoringErrorIn(&noMembers))
	for _, e := range []error{err, noShares, noMembers} {
		if e != nil && !errors.Is(e, framework.ErrNoNode) {
			return s, e
		}
	}
	s.pzxid = folder.Pzxid
	if err := s.readShares(ctx, client, at, names); err != nil {
		return s, err
	}
	err = s.readMembers(ctx, client, at, ids)
	s.awaitReturns(time.Now())
	return s, err
}

// awaitReturns finds the members that are away, and for how long their partitions still wait. The clocks of
// members may differ. A time to come counts as now, so that no clock makes the wait longer.
func (s *state) awaitReturns(now time.Time) {
	s.away = make(map[string]share)
	for id, sh := range s.shares {
		if _, isThere := s.members[id]; isThere || sh.Return == 0 || s.isDrained(id) {
			continue
		}
		if sh.Gone.IsZero() || sh.Gone.After(now) {
			sh.Gone = now.UTC()
		}
		left := sh.until().Sub(now)
		if left <= 0 {
			continue
		}
		sh.Head, sh.Weighs, sh.Watches = false, false, ""
		if s.wait == 0 || left < s.wait {
			s.wait = left
		}
		s.away[id] = sh
	}
}

// errOvertaken reports that another member has planned during a read.
var errOvertaken = errors.New("the plan has changed during the read")

func (s *state) readShares(ctx context.Context, client *framework.Framework, at layout, names []string) error {
	return readAll(ctx, client, pathsOf(names, at.share), func(i int, node framework.Node) error {
		if !node.Exists() {
			return errOvertaken
		}
		sh, err := parseShare(node.Data)
		if err != nil {
			sh = share{} // its partitions are free
		}
		s.shares[names[i]] = sh
		return nil
	})
}

func (s *state) readMembers(ctx context.Context, client *framework.Framework, at layout, ids []string) error {
	return readAll(ctx, client, pathsOf(ids, at.member), func(i int, node framework.Node) error {
		var r registration
		if isMember(node) && json.Unmarshal(node.Data, &r) == nil && r.Capacity >= 1 && r.Capacity <= MaxCapacity {
			s.members[ids[i]] = r // and another znode is no member
			s.owners[node.Stat.EphemeralOwner] = ids[i]
		}
		return nil
	})
}

// isMember reports whether a znode goes with its member. A persistent znode, as a tool has it that
// copies a tree, stays without one, and would be given partitions.
func isMember(node framework.Node) bool { return node.Exists() && node.Stat.EphemeralOwner != 0 }

// readAll reads znodes side by side, and calls visit for each of them.
func readAll(ctx context.Context, client *framework.Framework, paths []string, visit func(i int, node framework.Node) error) error {
	reads, nodes, absent := make([]framework.Read, len(paths)), make([]framework.Node, len(paths)), make([]bool, len(paths))
	for i, path := range paths {
		n := &nodes[i]
		n.Stat = new(framework.Stat)
		reads[i] = framework.ReadData(path, &n.Data, framework.StoringStatIn(n.Stat), framework.StoringAbsenceIn(&absent[i]),
			framework.Undecompressed())
	}
	if err := client.Pipeline(ctx, reads...); err != nil {
		return err
	}
	for i, path := range paths {
		if absent[i] {
			nodes[i] = framework.Node{}
		}
		nodes[i].Data = attempt.Plain(client, path, nodes[i].Data)
		if err := visit(i, nodes[i]); err != nil {
			return err
		}
	}
	return nil
}

func pathsOf(names []string, path func(string) string) []string {
	paths := make([]string, len(names))
	for i, name := range names {
		paths[i] = path(name)
	}
	return paths
}

// candidates returns the members as the last plan left them.
func (s *state) candidates() []shares.Candidate {
	var list []shares.Candidate
	for id, m := range s.members {
		list = append(list, shares.Candidate{ID: id, Capacity: m.Capacity, Held: s.shares[id].Partitions, Drained: s.isDrained(id)})
	}
	for id, sh := range s.away {
		list = append(list, shares.Candidate{ID: id, Capacity: sh.Capacity, Held: sh.Partitions, Away: true})
	}
	return list
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

func (s *state) planned() []string {
	var names []string
	for _, sh := range s.shares {
		names = append(names, sh.Partitions...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// change is an operation of a plan, and how long it is about.
type change struct {
	op   framework.Op
	size int
}

// around is the part of an operation that is neither path nor data: the access control list of a
// creation above all.
const around = 200

// next returns the plan that follows, as the data of its root and the changes of the shares. The
// data is nil if that is the present plan. planner is the member that writes it.
func (s *state) next(
	at layout, planner string, set []entry, t shares.Terms, cfg config,
) (out shares.Outcome, data []byte, changes []change, err error) {
	loads := s.settledLoads()
	set = slices.DeleteFunc(slices.Clone(set), func(e entry) bool { return slices.Contains(s.orders.Excluded, e.name) })
	out = shares.Assign(weigh(set, loads), s.candidates(), t)
	moved := s.moved(out, loads, cfg)
	ids := slices.Sorted(maps.Keys(s.members))
	standbys := s.standbys(out.Shares)
	plan := root{Members: s.pzxid, Balanced: out.Balanced, Head: s.root.Head, Weighs: len(loads) > 0}
	var mixed bool
	plan.Sets, mixed = s.sets(s.members[planner].Set)
	if _, stays := s.members[plan.Head]; !stays {
		plan.Head = ids[0]
	}
	for i, id := range slices.Concat(ids, slices.Sorted(maps.Keys(s.away))) {
		next, isAway := s.away[id]
		if !isAway {
			m := s.members[id]
			next = share{Capacity: m.Capacity, Return: m.Return, Zone: m.Zone, Head: id == plan.Head}
			if len(ids) > 1 {
				next.Watches = ids[(i+len(ids)-1)%len(ids)]
			}
		}
		if s.isDrained(id) {
			next.Return = 0 // it leaves for good
		}
		next.Standbys, next.Mixed = standbys[id], mixed
		next.Weighs = next.Head && plan.Weighs
		fill(&next, out.Shares[id], loads, moved, func(name string) bool { return s.moving[name] || out.Moved[name] && s.isPaced(cfg) })
		c, changed, err := s.change(at, id, next)
		switch {
		case err != nil:
			return out, nil, nil, err
		case changed && next.Watches == planner:
			changes = slices.Insert(changes, 0, c) // see write
		case changed:
			changes = append(changes, c)
		}
	}
	for id := range s.shares {
		if _, stays := out.Shares[id]; !stays {
			changes = append(changes, change{framework.DeleteOp(at.share(id)), len(at.share(id)) + around})
		}
	}
	if len(changes) == 0 && s.exists && reflect.DeepEqual(plan, s.root) {
		return out, nil, nil, nil
	}
	data, err = json.Marshal(plan)
	return out, data, changes, err
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

// removal deletes the plan of a group without members.
func (s *state) removal(at layout) []framework.Op {
	ops := []framework.Op{framework.CheckOp(at.plan(), s.version)}
	for id := range s.shares {
		ops = append(ops, framework.DeleteOp(at.share(id)))
	}
	return append(ops, framework.DeleteOp(at.plan()))
}

// isBalanced reports whether the plan is balanced and has the members that live.
func (s *state) isBalanced() bool {
	for id, m := range s.members {
		if sh, planned := s.shares[id]; !planned || sh.Capacity != m.Capacity {
			return false
		}
	}
	return s.root.Balanced && len(s.shares) == len(s.members)
}

// untilWritten writes again while other members write first. Members that write at the same time keep apart.
func untilWritten(ctx context.Context, write func() error) error {
	for {
		err := write()
		if err == nil || !isOvertaken(err) {
			return err
		}
		if err := attempt.Part(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}

// isOvertaken reports whether a plan was not written because another one came first, or may
// have been written: both are seen by reading again.
func isOvertaken(err error) bool {
	return errors.Is(err, errOvertaken) || attempt.Overtaken(err) || framework.OutcomeUnknown(err)
}

func wrap(at layout, err error) error { return attempt.At("partition", string(at), err) }
