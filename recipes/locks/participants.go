package locks

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gocurator/curator/framework"
)

// Participant is one contender of a lock, as its znode shows it. A Java
// contender's identity is whatever its client puts there, by default an IP address.
type Participant struct {
	Path     string
	LockName string    // what its node is named for: "lock-", "__READ__", "__WRIT__", "lease-"
	Identity string    // the node's data
	Sequence int32     // the number the server gave it
	Token    int64     // the fencing token it has or will have; that of a downgraded reader's lease is its writer's
	Session  int64     // the session that owns the node
	Since    time.Time // when it joined the queue, by the server's clock

	// Holds says that the place in the queue is one that has the lock. Its owner may
	// not know yet.
	Holds bool

	// WaitsFor are otherwise the paths of the contenders whose end it waits for.
	WaitsFor []string
}

// Participants returns the contenders in the order of the queue. It takes one
// round trip for the list and one for each of them; those that leave meanwhile
// are left out. A lock that nobody has used has none.
func (l *LockInternals) Participants(ctx context.Context) ([]Participant, error) {
	return l.participants(ctx, func(string) *LockInternals { return l })
}

// participants returns the contenders for which side has an answer: the lock that
// a name contends for, of several that share the folder and its order.
func (l *LockInternals) participants(ctx context.Context, side func(name string) *LockInternals) ([]Participant, error) {
	children, err := l.client.Children(ctx, l.path)
	if errors.Is(err, framework.ErrNoNode) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("locks: participants of %s: %w", l.path, err)
	}
	maxLeases, err := l.currentMax(ctx)
	if err != nil {
		return nil, fmt.Errorf("locks: participants of %s: %w", l.path, err)
	}
	var participants []Participant
	contenders := l.sorted(children)
	for _, name := range contenders {
		of := side(name)
		if of == nil {
			continue
		}
		p, err := of.participant(ctx, contenders, name, maxLeases)
		if errors.Is(err, framework.ErrNoNode) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("locks: participants of %s: %w", l.path, err)
		}
		participants = append(participants, p)
	}
	return participants, nil
}

func (l *LockInternals) participant(ctx context.Context, contenders []string, name string, maxLeases int) (Participant, error) {
	path := framework.JoinPath(l.path, name)
	var stat framework.Stat
	data, err := l.client.Get(ctx, path, framework.StoringStatIn(&stat))
	if err != nil {
		return Participant{}, err
	}
	_, lockName := framework.SplitPath(l.basePath)
	sequence, _ := StandardLockInternalsSorter{lockName}.Sequence(name)
	p := Participant{
		Path: path, LockName: lockName, Identity: string(data), Sequence: sequence,
		Token: stat.Czxid, Session: stat.EphemeralOwner, Since: time.UnixMilli(stat.Ctime),
	}
	// One that will never be admitted neither holds nor waits for anybody.
	if result, err := l.driver.GetsTheLock(contenders, name, maxLeases); err == nil {
		p.Holds = result.GetsTheLock
		for _, before := range result.PathsToWatch {
			p.WaitsFor = append(p.WaitsFor, framework.JoinPath(l.path, before))
		}
	}
	return p, nil
}
