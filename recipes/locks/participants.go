// SPDX-License-Identifier: Apache-2.0

package locks

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gocurator/curator/framework"
)

// Participants returns the contenders in the order of the queue. It takes one round trip
// for the list and one for each 256 contenders, and no lock, so it can be called often.
// Contenders that leave during the call are left out. One whose data this client cannot read, because it is too long or
// forbidden, has no identity, and perhaps no session and token. A lock that was never used has none.
func (l *LockInternals) Participants(ctx context.Context) ([]Participant, error) {
	return l.participants(ctx, func(string) *LockInternals { return l })
}

// participants returns the contenders of several locks that share a folder and its order.
// side returns the lock that a name contends for, or nil to leave the name out.
func (l *LockInternals) participants(ctx context.Context, side func(name string) *LockInternals) ([]Participant, error) {
	participants, err := l.inspect(ctx, side)
	if err != nil {
		return nil, fmt.Errorf("locks: participants of %s: %w", l.path, err)
	}
	return participants, nil
}

// present returns the contenders in the order of the queue, and how many of them may hold.
func (l *LockInternals) present(ctx context.Context) (contenders []string, maxLeases int, err error) {
	children, err := l.client.Children(ctx, l.path)
	if err != nil {
		return nil, 0, absent(err)
	}
	maxLeases, err = l.currentMax(ctx)
	return l.sorted(children), maxLeases, err
}

// inspect lists the folder and reads the nodes.
func (l *LockInternals) inspect(ctx context.Context, side func(name string) *LockInternals) ([]Participant, error) {
	contenders, maxLeases, err := l.present(ctx)
	if err != nil {
		return nil, err
	}
	var nodes []*contender
	for i, name := range contenders {
		if of := side(name); of != nil {
			nodes = append(nodes, &contender{l: of, name: name, position: i})
		}
	}
	for batch := range slices.Chunk(nodes, inspectBatch) {
		if err := l.readAll(ctx, batch); err != nil {
			return nil, err
		}
	}
	var participants []Participant
	for _, c := range nodes {
		if c.isRead() {
			participants = append(participants, c.participant(contenders, maxLeases))
		}
	}
	return participants, nil
}

// inspectBatch is how many contenders are read in one write.
const inspectBatch = 256

// contender is a name in the queue and the content of its node.
type contender struct {
	l        *LockInternals // the lock that it contends for
	name     string
	position int
	data     []byte
	stat     framework.Stat

	forbidden bool // it is there, and nothing else is known
}

func (c *contender) path() string { return framework.JoinPath(c.l.path, c.name) }

func (c *contender) isRead() bool { return c.stat.Czxid != 0 || c.forbidden }

// readAll reads the nodes of the contenders that are still there. When one is gone, the
// pipeline fails, but it may have read the others. A node whose data cannot be read is a
// contender all the same, without an identity.
func (l *LockInternals) readAll(ctx context.Context, contenders []*contender) error {
	unread := slices.Clone(contenders)
	for len(unread) > 0 {
		reads := make([]framework.Read, len(unread))
		for i, c := range unread {
			reads[i] = framework.ReadData(c.path(), &c.data, framework.StoringStatIn(&c.stat))
		}
		err := l.client.Pipeline(ctx, reads...)
		var failed *framework.OpError
		if err == nil || !errors.As(err, &failed) {
			return err
		}
		at := slices.IndexFunc(unread, func(c *contender) bool { return c.path() == failed.Path })
		switch {
		case at < 0:
			return err
		case errors.Is(err, framework.ErrNoNode):
		case errors.Is(err, framework.ErrNoAuth), errors.Is(err, framework.ErrTooLarge):
			// Some servers tell the Stat of what may not be read, others refuse it.
			stat, err := l.client.Exists(ctx, failed.Path)
			switch {
			case errors.Is(err, framework.ErrNoAuth):
				unread[at].forbidden = true
			case err != nil:
				return err
			case stat != nil:
				unread[at].stat = *stat
			}
		default:
			return err
		}
		unread = slices.DeleteFunc(unread, func(c *contender) bool { return c.isRead() || c.path() == failed.Path })
	}
	return nil
}

// participant describes a contender that was read, by its place among the contenders.
func (c *contender) participant(contenders []string, maxLeases int) Participant {
	p := ParticipantOf(c.path(), c.l.lockName, c.data, c.stat)
	p.Position = c.position
	// A contender that is never admitted neither holds the lock nor waits for another.
	if result, err := c.l.driver.GetsTheLock(contenders, c.name, maxLeases); err == nil {
		p.Holds = result.GetsTheLock
		for _, before := range result.PathsToWatch {
			p.WaitsFor = append(p.WaitsFor, framework.JoinPath(c.l.path, before))
		}
	}
	return p
}

// Holders returns the participants that have the lock, in the order of the
// queue. Unlike Participants it reads only their nodes: it takes two round
// trips, however many wait.
func (l *LockInternals) Holders(ctx context.Context) ([]Participant, error) {
	holders, err := l.holders(ctx)
	if err != nil {
		return nil, fmt.Errorf("locks: holders of %s: %w", l.path, err)
	}
	return holders, nil
}

// holders lists the folder and reads the nodes of the holders.
func (l *LockInternals) holders(ctx context.Context) ([]Participant, error) {
	contenders, maxLeases, err := l.present(ctx)
	if err != nil {
		return nil, err
	}
	var nodes []*contender
	for i, name := range contenders {
		result, err := l.driver.GetsTheLock(contenders, name, maxLeases)
		if err == nil && result.GetsTheLock {
			nodes = append(nodes, &contender{l: l, name: name, position: i})
		}
	}
	if err := l.readAll(ctx, nodes); err != nil {
		return nil, err
	}
	var holders []Participant
	for _, c := range nodes {
		if c.isRead() {
			holders = append(holders, c.participant(contenders, maxLeases))
		}
	}
	return holders, nil
}

// Queue returns the names of the contenders in the order of the queue, without
// reading their nodes. A lock that was never used has none.
func (l *LockInternals) Queue(ctx context.Context, opts ...framework.ChildrenOption) ([]string, error) {
	children, err := l.client.Children(ctx, l.path, opts...)
	if absent(err) != nil {
		return nil, fmt.Errorf("locks: queue of %s: %w", l.path, err)
	}
	return l.sorted(children), nil
}

// Participant reads the node of one contender, by its name in the queue. It is for code that
// follows a queue, and leaves out Position, Holds and WaitsFor. When the contender is gone
// the error matches [framework.ErrNoNode].
func (l *LockInternals) Participant(ctx context.Context, name string, opts ...framework.GetOption) (Participant, error) {
	c := contender{l: l, name: name}
	var err error
	c.data, err = l.client.Get(ctx, c.path(), append(opts, framework.StoringStatIn(&c.stat))...)
	if err != nil {
		return Participant{}, fmt.Errorf("locks: participant: %w", err)
	}
	return c.participant(nil, 0), nil
}
