// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/internal/attempt"
	"github.com/gocurator/curator/recipes/locks"
)

// Assignment says which member has which partition, and which partitions move.
type Assignment struct {
	// Members are the live members, and members of the plan that have gone, by id.
	Members []Peer `json:"members"`

	// Partitions are the partitions of the plan, and any other that a member still holds, by
	// name.
	Partitions []State `json:"partitions"`

	// Balanced says that no partition would move if no member came or left.
	Balanced bool `json:"balanced"`
}

// Peer is a member of a group, as other members see it.
type Peer struct {
	ID       string `json:"id"`
	Capacity int    `json:"capacity"`
	Alive    bool   `json:"alive"`  // it is a member at present
	Wanted   int    `json:"wanted"` // how many partitions the plan gives to it
	Held     int    `json:"held"`   // how many it has

	// Drained says that the member gives its partitions up, one after the other.
	Drained bool `json:"drained,omitempty"`

	// Until is for how long the partitions of a member that is away wait for its return.
	Until time.Time `json:"until,omitzero"`

	// Load is the reported load of the partitions that the plan gives to it.
	Load int `json:"load,omitempty"`

	Zone     string `json:"zone,omitempty"`
	Standbys int    `json:"standbys,omitempty"` // for how many partitions it stands by
}

// Describe describes the state of the member in a few words.
func (m Peer) Describe() string {
	text := "gone"
	switch {
	case m.Alive:
		text = "alive"
	case !m.Until.IsZero():
		text = "away"
	}
	if m.Drained {
		text += ", drained"
	}
	if m.Zone != "" {
		text += ", in " + m.Zone
	}
	return text
}

// State is the state of a partition of a group. The partition is on its way while Owner and
// Holder differ.
type State struct {
	Name   string `json:"name"`
	Owner  string `json:"owner,omitempty"`  // the member to which the plan gives it
	Holder string `json:"holder,omitempty"` // the member that has it, "?" if it is not known

	// Token and Since are the holder's: its fencing token, and when it joined the queue, by the
	// server's clock.
	Token int64     `json:"token,omitempty"`
	Since time.Time `json:"since,omitzero"`

	// Asked says that the holder was asked to give the partition to its next owner.
	Asked bool `json:"asked,omitempty"`

	// Waiting counts the members that wait for it.
	Waiting int `json:"waiting,omitempty"`

	// Pinned is the member that [Pin] has named. Excluded says that [Exclude] keeps the partition from all.
	Pinned   string `json:"pinned,omitempty"`
	Excluded bool   `json:"excluded,omitempty"`

	// Load is what [Partition.ReportLoad] has told last, 0 if there is none.
	Load int `json:"load,omitempty"`

	// Standbys are the members that stand by, and Prepared those of them whose prepare has returned: see [WithStandbys].
	Standbys []string `json:"standbys,omitempty"`
	Prepared []string `json:"prepared,omitempty"`
}

// OnItsWay reports whether the partition's owner does not have it yet.
func (p State) OnItsWay() bool { return p.Owner != p.Holder }

// Describe describes the state in a word or two.
func (p State) Describe() string {
	switch {
	case p.Excluded && p.Holder == "":
		return "excluded"
	case !p.OnItsWay():
		return "held"
	case p.Holder == "":
		return "not held"
	case p.Asked:
		return "moving, asked for"
	default:
		return "moving"
	}
}

// Assignment returns the assignment of the group; see [Read].
func (m *Member) Assignment(ctx context.Context) (Assignment, error) {
	return Read(ctx, m.client, string(m.at))
}

// Read returns the assignment of the group at path. It takes two requests for each partition and
// one for each member, in pipelines, and no lock. A change during the call may be seen or not. The
// error matches [framework.ErrNoNode] when there is no znode at path.
func Read(ctx context.Context, client *framework.Framework, path string) (Assignment, error) {
	a, err := readAssignment(ctx, client, layout(path))
	return a, wrap(layout(path), err)
}

func readAssignment(ctx context.Context, client *framework.Framework, at layout) (Assignment, error) {
	if err := attempt.CheckCall(ctx, client, string(at)); err != nil {
		return Assignment{}, err
	}
	if _, err := client.Children(ctx, string(at)); err != nil {
		return Assignment{}, err
	}
	s, err := readState(ctx, client, at)
	if errors.Is(err, errOvertaken) {
		s, err = readState(ctx, client, at)
	}
	if err != nil {
		return Assignment{}, err
	}
	folders, err := client.Children(ctx, at.locks())
	if err != nil && !errors.Is(err, framework.ErrNoNode) {
		return Assignment{}, err
	}
	partitions, err := readQueues(ctx, client, at, slices.Concat(s.planned(), folders, s.orders.Excluded))
	if err != nil {
		return Assignment{}, err
	}
	loads, warm := s.loads(), s.warm()
	members, owners, standbys := s.peers(loads)
	a := Assignment{Members: []Peer{}, Partitions: []State{}, Balanced: s.isBalanced()}
	for _, q := range partitions {
		p := q.state(s.owners)
		p.Owner, p.Load, p.Pinned = owners[p.Name], loads[p.Name], s.orders.Pinned[p.Name]
		p.Standbys, p.Prepared = slices.Sorted(slices.Values(standbys[p.Name])), warm[p.Name]
		p.Excluded = slices.Contains(s.orders.Excluded, p.Name)
		if p.Owner == "" && p.Holder == "" && p.Waiting == 0 && !p.Excluded {
			continue
		}
		if m := members[p.Holder]; m != nil {
			m.Held++
		}
		a.Partitions = append(a.Partitions, p)
	}
	for _, id := range slices.Sorted(maps.Keys(members)) {
		a.Members = append(a.Members, *members[id])
	}
	return a, nil
}

// peers returns the members of the group and of the plan by id. It also returns the owners and the standbys of the
// partitions, by name.
func (s *state) peers(loads map[string]int) (members map[string]*Peer, owners map[string]string, standbys map[string][]string) {
	members, owners, standbys = make(map[string]*Peer), make(map[string]string), make(map[string][]string)
	for id, m := range s.members {
		members[id] = &Peer{ID: id, Capacity: m.Capacity, Alive: true, Drained: s.isDrained(id), Zone: m.Zone}
	}
	for id, sh := range s.shares {
		if members[id] == nil {
			members[id] = &Peer{ID: id, Capacity: sh.Capacity, Zone: sh.Zone}
		}
		if away, found := s.away[id]; found {
			members[id].Until = away.until()
		}
		members[id].Wanted, members[id].Standbys = len(sh.Partitions), len(sh.Standbys)
		for _, name := range sh.Standbys {
			standbys[name] = append(standbys[name], id)
		}
		for _, name := range sh.Partitions {
			owners[name] = id
			members[id].Load += loads[name]
		}
	}
	return members, owners, standbys
}

// queue is the contenders for one partition.
type queue struct {
	name   string
	names  []string // in order
	holder *locks.Participant
}

// state returns the partition as its queue shows it. The label of the holder's node is the id of
// the member. A request for the lock replaces the label, and then only the session of the node
// shows the member.
func (q queue) state(sessions map[int64]string) State {
	p := State{Name: q.name, Waiting: max(0, len(q.names)-1)}
	if h := q.holder; h != nil {
		p.Holder, p.Token, p.Since, p.Asked = h.Label, h.Token, h.Since, h.RevocationRequested()
		if id, found := sessions[h.Session]; found && p.Holder == "" {
			p.Holder = id
		}
		if p.Holder == "" {
			p.Holder = "?"
		}
	}
	return p
}

// queuesAtOnce is how many queues are read together. A holder is read right after its queue.
const queuesAtOnce = 128

// readQueues reads the queues of partitions.
func readQueues(ctx context.Context, client *framework.Framework, at layout, names []string) ([]queue, error) {
	slices.Sort(names)
	names = slices.Compact(names)
	queues := make([]queue, len(names))
	for i, name := range names {
		queues[i].name = name
	}
	sorter := locks.StandardLockInternalsSorter{LockName: lockName}
	for batch := range slices.Chunk(queues, queuesAtOnce) {
		if err := readQueueBatch(ctx, client, at, batch, sorter); err != nil {
			return nil, err
		}
	}
	return queues, nil
}

func readQueueBatch(ctx context.Context, client *framework.Framework, at layout, queues []queue, sorter locks.StandardLockInternalsSorter) error {
	errs, reads := make([]error, len(queues)), make([]framework.Read, len(queues))
	for i := range queues {
		reads[i] = framework.ReadChildren(at.lock(queues[i].name), &queues[i].names).StoringErrorIn(&errs[i])
	}
	if err := client.Pipeline(ctx, reads...); err != nil {
		return err
	}
	var heads []string
	var of []*queue
	for i := range queues {
		q := &queues[i]
		if errs[i] != nil && !errors.Is(errs[i], framework.ErrNoNode) {
			return errs[i]
		}
		q.names = slices.DeleteFunc(q.names, func(name string) bool { return !sorter.Contends(name) })
		slices.SortFunc(q.names, sorter.Compare)
		if len(q.names) > 0 {
			heads, of = append(heads, framework.JoinPath(at.lock(q.name), q.names[0])), append(of, q)
		}
	}
	return readAll(ctx, client, heads, func(i int, node framework.Node) error {
		if node.Exists() { // otherwise it has left in the meantime
			p := locks.ParticipantOf(heads[i], lockName, node.Data, *node.Stat)
			of[i].holder = &p
		}
		return nil
	})
}
