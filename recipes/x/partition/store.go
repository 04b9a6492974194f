// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
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

// lockFolders says where the locks of partitions are.
type lockFolders struct {
	Folder string `json:"folder,omitempty"`
	Below  string `json:"below,omitempty"`
}

// of returns the folder of a partition's lock, in the group's own folder if there is no other.
func (f lockFolders) of(at layout, name string) string {
	if f.Folder == "" {
		return framework.JoinPath(at.locks(), name)
	}
	return framework.JoinPath(framework.JoinPath(f.Folder, name), f.Below)
}

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

	// Locks says where the locks are, if they are not in the group.
	Locks lockFolders `json:"locks,omitzero"`
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

// orders is the data of the znode orders. The head of the plan follows it.
type orders struct {
	Drained  []string          `json:"drained,omitempty"`  // members
	Pinned   map[string]string `json:"pinned,omitempty"`   // members by partitions
	Excluded []string          `json:"excluded,omitempty"` // partitions
}

// ordersOf returns the orders in the data of their znode, none if it is not valid.
func ordersOf(client *framework.Framework, at layout, data []byte) orders {
	o, err := parseOrders(data)
	if err != nil {
		client.Logger().Error("the orders for partitions are not valid, and count as none", logPath, at.orders(), "error", err)
		return orders{}
	}
	return o
}

func parseOrders(data []byte) (o orders, err error) {
	if len(data) > 0 {
		err = json.Unmarshal(data, &o)
	}
	return o, err
}

// readOrders returns the orders of a group.
func readOrders(ctx context.Context, client *framework.Framework, at layout) (o orders, err error) {
	err = readAll(ctx, client, []string{at.orders()}, func(_ int, node framework.Node) error {
		o = ordersOf(client, at, node.Data)
		return nil
	})
	return o, err
}

// mzxidOf returns when the znode was written, 0 if there is none.
func mzxidOf(node framework.Node) int64 {
	if !node.Exists() {
		return 0
	}
	return node.Stat.Mzxid
}

func (g registration) encode() []byte {
	data, err := json.Marshal(g)
	if err != nil {
		panic(err) // a number can be encoded
	}
	return data
}

// decodeShare returns what a plan says for a member. It has no capacity if the member is in no plan, or if no plan has such data,
// which was written by hand: then its partitions are free, and the member makes another plan.
func decodeShare(node framework.Node) (s share) {
	data, err := unpack(node.Data)
	if err == nil {
		err = json.Unmarshal(data, &s) // which fails without data
	}
	isNone := func(name string) bool { return !isName(name) }
	if err != nil || slices.ContainsFunc(s.Partitions, isNone) || slices.ContainsFunc(s.Standbys, isNone) {
		return share{}
	}
	return s
}

// readRoot returns the root of the plan, nil if there is none, and the pzxid of the folder of
// the members, which every join and leave changes.
func readRoot(ctx context.Context, client *framework.Framework, at layout) (plan *root, folder int64, err error) {
	err = readAll(ctx, client, []string{at.plan(), at.members()}, func(i int, node framework.Node) error {
		switch {
		case !node.Exists():
		case i == 0:
			r := parseRoot(node.Data)
			plan = &r
		default:
			folder = node.Stat.Pzxid
		}
		return nil
	})
	return plan, folder, err
}

// state is what the znodes of a group say.
type state struct {
	exists   bool // there is a plan
	version  int32
	root     root
	shares   map[string]share
	members  map[string]registration
	sessions map[int64]string // members by their sessions
	away     map[string]share // of members whose return is awaited
	wait     time.Duration    // until the first of them is no longer awaited
	pzxid    int64            // of the folder of the members
	orders   orders
	ordered  int64           // the mzxid of the orders, 0 if there are none
	moving   map[string]bool // partitions that are under way within a budget, after findMoving
}

// readState reads the plan first. So the members that it then reads are never older than the
// plan, and a member of the plan that is not there has gone.
func readState(ctx context.Context, client *framework.Framework, at layout) (*state, error) {
	s := &state{shares: make(map[string]share), members: make(map[string]registration), sessions: make(map[int64]string)}
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
		remains := sh.until().Sub(now)
		if remains <= 0 {
			continue
		}
		sh.Head, sh.Weighs, sh.Watches = false, false, ""
		if s.wait == 0 || remains < s.wait {
			s.wait = remains
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
		s.shares[names[i]] = decodeShare(node)
		return nil
	})
}

func (s *state) readMembers(ctx context.Context, client *framework.Framework, at layout, ids []string) error {
	return readAll(ctx, client, pathsOf(ids, at.member), func(i int, node framework.Node) error {
		var r registration
		if isMember(node) && json.Unmarshal(node.Data, &r) == nil && r.Capacity >= 1 && r.Capacity <= MaxCapacity {
			s.members[ids[i]] = r // and another znode is no member
			s.sessions[node.Stat.EphemeralOwner] = ids[i]
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

func (s *state) planned() []string {
	var names []string
	for _, sh := range s.shares {
		names = append(names, sh.Partitions...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// isDrained reports whether a member is to give its partitions up.
func (s *state) isDrained(id string) bool {
	return s.members[id].Drained || slices.Contains(s.orders.Drained, id)
}

// drains reports whether a member that is drained has partitions.
func (s *state) drains() bool {
	for id, sh := range s.shares {
		if _, isThere := s.members[id]; isThere && s.isDrained(id) && len(sh.Partitions) > 0 {
			return true
		}
	}
	return false
}

// hasMovedWithin reports whether a partition has come to the member of the share in the last d. A time to come does not count: a
// clock that is ahead holds no partition back.
func (s share) hasMovedWithin(name string, d time.Duration) bool {
	at, found := s.Moved[name]
	age := time.Since(at)
	return found && age >= 0 && age < d
}

// lock returns where the locks are.
func (s *state) lock(at layout) func(name string) string {
	return func(name string) string { return s.root.Locks.of(at, name) }
}

// findMoving finds which partitions are still under way: their owners live, and do not have them yet.
func (s *state) findMoving(ctx context.Context, client *framework.Framework, at layout) error {
	s.moving = make(map[string]bool)
	owners := make(map[string]string)
	for id, sh := range s.shares {
		if _, isThere := s.members[id]; isThere {
			for _, name := range sh.Moving {
				owners[name] = id
			}
		}
	}
	queues, err := readQueues(ctx, client, s.lock(at), slices.Collect(maps.Keys(owners)))
	for _, q := range queues {
		if q.state(s.sessions).Holder != owners[q.name] {
			s.moving[q.name] = true
		}
	}
	return err
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
