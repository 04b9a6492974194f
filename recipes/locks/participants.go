// SPDX-License-Identifier: Apache-2.0

package locks

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/internal/attempt"
)

// Participants returns the contenders in the order of the queue. It takes one round trip
// for the list and one for each 256 contenders, and no lock, so it can be called often.
// Contenders that leave during the call are left out. A contender whose data this client
// cannot read, because it is too long or forbidden, has no identity, and perhaps no session
// and token. A lock that was never used has none.
func (l *lock) Participants(ctx context.Context) ([]Participant, error) {
	return l.inspect(ctx, "participants", func(queued, string) *lock { return l })
}

// Holders returns the participants that have the lock, in the order of the
// queue. Unlike Participants it reads only their nodes: it takes two round
// trips, however many wait.
func (l *LockInternals) Holders(ctx context.Context) ([]Participant, error) {
	return l.inspect(ctx, "holders", func(in queued, name string) *lock {
		if result, err := in.decide(l.lock, name); err != nil || !result.GetsTheLock {
			return nil
		}
		return l.lock
	})
}

// queued is the contenders in the order of the queue, and how many of them may hold.
type queued struct {
	names     []string
	maxLeases int
}

// decide asks the driver of the lock that a name contends for.
func (in queued) decide(l *lock, name string) (PredicateResults, error) {
	return l.driver.GetsTheLock(in.names, name, in.maxLeases)
}

// inspect lists the folder and reads the nodes of the contenders that choose returns a lock
// for, of several that share the folder and its order. What is its name in an error.
func (l *lock) inspect(
	ctx context.Context, what string, choose func(in queued, name string) *lock,
) (participants []Participant, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("locks: %s of %s: %w", what, l.path, err)
		}
	}()
	in := queued{}
	if in.names, err = l.queue(ctx); err != nil || len(in.names) == 0 {
		return nil, err
	}
	if in.maxLeases, err = l.currentMax(ctx, 1); err != nil {
		return nil, err
	}
	var nodes []*contender
	for i, name := range in.names {
		if of := choose(in, name); of != nil {
			nodes = append(nodes, &contender{l: of, name: name, position: i})
		}
	}
	for batch := range slices.Chunk(nodes, inspectBatch) {
		if err := l.readAll(ctx, batch); err != nil {
			return nil, err
		}
	}
	for _, c := range nodes {
		if c.isRead() {
			participants = append(participants, c.participant(in))
		}
	}
	return participants, nil
}

// inspectBatch is how many contenders are read in one write.
const inspectBatch = 256

// contender is a name in the queue and the content of its node.
type contender struct {
	l        *lock // the lock that it contends for
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
func (l *lock) readAll(ctx context.Context, contenders []*contender) error {
	unread := slices.Clone(contenders)
	for len(unread) > 0 {
		reads := make([]framework.Read, len(unread))
		for i, c := range unread {
			reads[i] = framework.ReadData(c.path(), &c.data, framework.StoringStatIn(&c.stat), framework.Undecompressed())
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

// participant describes a contender that was read, by its place in the queue.
func (c *contender) participant(in queued) Participant {
	p := ParticipantOf(c.path(), c.l.lockName, attempt.Plain(c.l.client, c.path(), c.data), c.stat)
	p.Position = c.position
	// A contender that is never admitted neither holds the lock nor waits for another.
	if result, err := in.decide(c.l, c.name); err == nil {
		p.Holds = result.GetsTheLock
		for _, before := range result.PathsToWatch {
			p.WaitsFor = append(p.WaitsFor, framework.JoinPath(c.l.path, before))
		}
	}
	return p
}

// Queue returns the names of the contenders in the order of the queue, without
// reading their nodes. A lock that was never used has none.
func (l *LockInternals) Queue(ctx context.Context, opts ...framework.ReadOption) ([]string, error) {
	names, err := l.queue(ctx, opts...)
	return names, attempt.Wrapf(err, "locks: queue of %s", l.path)
}

// queue lists the contenders in the order of the queue.
func (l *lock) queue(ctx context.Context, opts ...framework.ReadOption) ([]string, error) {
	children, err := l.client.Children(ctx, l.path, opts...)
	return l.sorted(children), absent(err)
}

// Participant reads the node of one contender, by its name in the queue. It is for code that
// follows a queue, and leaves out Position, Holds and WaitsFor. When the contender is gone
// the error matches [framework.ErrNoNode].
func (l *LockInternals) Participant(ctx context.Context, name string, opts ...framework.ReadOption) (Participant, error) {
	path, stat := framework.JoinPath(l.path, name), framework.Stat{}
	data, err := l.client.Get(ctx, path, append(opts, framework.StoringStatIn(&stat), framework.Undecompressed())...)
	if err != nil {
		return Participant{}, fmt.Errorf("locks: participant: %w", err)
	}
	return ParticipantOf(path, l.lockName, attempt.Plain(l.client, path, data), stat), nil
}
