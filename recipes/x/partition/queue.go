// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/locks"
)

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
func readQueues(ctx context.Context, client *framework.Framework, lock func(string) string, names []string) ([]queue, error) {
	slices.Sort(names)
	names = slices.Compact(names)
	queues := make([]queue, len(names))
	for i, name := range names {
		queues[i].name = name
	}
	sorter := locks.StandardLockInternalsSorter{LockName: lockName}
	for batch := range slices.Chunk(queues, queuesAtOnce) {
		if err := readQueueBatch(ctx, client, lock, batch, sorter); err != nil {
			return nil, err
		}
	}
	return queues, nil
}

func readQueueBatch(
	ctx context.Context, client *framework.Framework, lock func(string) string, queues []queue, sorter locks.StandardLockInternalsSorter,
) error {
	errs, reads := make([]error, len(queues)), make([]framework.Read, len(queues))
	for i := range queues {
		reads[i] = framework.ReadChildren(lock(queues[i].name), &queues[i].names).StoringErrorIn(&errs[i])
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
			heads, of = append(heads, framework.JoinPath(lock(q.name), q.names[0])), append(of, q)
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
