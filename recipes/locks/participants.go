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
	Identity string    // the node's data
	Sequence int32     // the number the server gave it
	Token    int64     // the fencing token it has or will have
	Session  int64     // the session that owns the node
	Since    time.Time // when it joined the queue, by the server's clock
}

// Participants returns the contenders in the order of the queue. It takes one
// round trip for the list and one for each of them; those that leave meanwhile
// are left out. A lock that nobody has used has none.
func (l *LockInternals) Participants(ctx context.Context) ([]Participant, error) {
	children, err := l.client.Children(ctx, l.path)
	if errors.Is(err, framework.ErrNoNode) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("locks: participants of %s: %w", l.path, err)
	}
	var participants []Participant
	for _, name := range l.sorted(children) {
		p, err := l.participant(ctx, name)
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

func (l *LockInternals) participant(ctx context.Context, name string) (Participant, error) {
	path := framework.JoinPath(l.path, name)
	var stat framework.Stat
	data, err := l.client.Get(ctx, path, framework.StoringStatIn(&stat))
	if err != nil {
		return Participant{}, err
	}
	_, lockName := framework.SplitPath(l.basePath)
	sequence, _ := StandardLockInternalsSorter{lockName}.Sequence(name)
	return Participant{
		Path: path, Identity: string(data), Sequence: sequence,
		Token: stat.Czxid, Session: stat.EphemeralOwner, Since: time.UnixMilli(stat.Ctime),
	}, nil
}
