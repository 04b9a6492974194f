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
	folders, err := client.Children(ctx, at.locks()) // of partitions that a member may hold, although the plan has them no more
	if err != nil && !errors.Is(err, framework.ErrNoNode) {
		return Assignment{}, err
	}
	queues, err := readQueues(ctx, client, s.lock(at), slices.Concat(s.planned(), folders, s.orders.Excluded))
	if err != nil {
		return Assignment{}, err
	}
	return s.assignment(queues), nil
}

// assignment returns the assignment that the state and the queues of the partitions show.
func (s *state) assignment(queues []queue) Assignment {
	loads, warm := s.loads(), s.warm()
	members, owners, standbys := s.peers(loads)
	a := Assignment{Members: []Peer{}, Partitions: []State{}, Balanced: s.isBalanced()}
	for _, q := range queues {
		p := q.state(s.sessions)
		p.Owner, p.Load, p.Pinned = owners[p.Name], loads[p.Name], s.orders.Pinned[p.Name]
		p.Standbys, p.Prepared = slices.Sorted(slices.Values(standbys[p.Name])), warm[p.Name]
		p.Excluded = slices.Contains(s.orders.Excluded, p.Name)
		if p.Owner == "" && p.Holder == "" && p.Waiting == 0 && !p.Excluded {
			continue // the folder of a lock is left over
		}
		if m := members[p.Holder]; m != nil {
			m.Held++
		}
		a.Partitions = append(a.Partitions, p)
	}
	for _, id := range slices.Sorted(maps.Keys(members)) {
		a.Members = append(a.Members, *members[id])
	}
	return a
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
