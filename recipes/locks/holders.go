package locks

import (
	"context"
	"fmt"

	"github.com/gocurator/curator/framework"
)

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
	children, err := l.client.Children(ctx, l.path)
	if err != nil {
		return nil, absent(err)
	}
	maxLeases, err := l.currentMax(ctx)
	if err != nil {
		return nil, err
	}
	contenders := l.sorted(children)
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
