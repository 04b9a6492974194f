package locks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gocurator/curator/framework"
)

// Participant is one contender of a lock, as its znode shows it. A Java
// contender's identity is whatever its client puts there, by default an IP address.
type Participant struct {
	Path     string
	LockName string // what its node is named for: "lock-", "__READ__", "__WRIT__", "lease-", "wait-"
	Identity string // the node's data, until AttemptRevoke replaces it

	// Host and PID are those of the owner's process and Label is that of [WithLabel], if
	// they are in Identity: all of them in our default data, the address as the Host in
	// Curator's, none in data of one's own.
	Host  string
	PID   int
	Label string

	Position int       // in the queue, from 0; both sides of a read/write lock stand in one
	Sequence int32     // the number the server gave it
	Token    int64     // the fencing token it has or will have; that of a downgraded reader's lease is its writer's
	Session  int64     // the session that owns the node; 0 if that is not ephemeral
	Since    time.Time // when it joined the queue, by the server's clock

	// Holds says that the place in the queue is one that has the lock. Its owner may
	// not know yet.
	Holds bool

	// WaitsFor are otherwise the paths of the contenders whose end it waits for.
	WaitsFor []string
}

// Participants returns the contenders in the order of the queue. It takes one
// round trip for the list and one for each 256 contenders, so that it can be asked
// often; those that leave meanwhile are left out. A lock that nobody has used has none.
func (l *LockInternals) Participants(ctx context.Context) ([]Participant, error) {
	return l.participants(ctx, func(string) *LockInternals { return l })
}

// participants returns the contenders for which side has an answer: the lock that
// a name contends for, of several that share the folder and its order.
func (l *LockInternals) participants(ctx context.Context, side func(name string) *LockInternals) ([]Participant, error) {
	participants, err := l.inspect(ctx, side)
	if err != nil {
		return nil, fmt.Errorf("locks: participants of %s: %w", l.path, err)
	}
	return participants, nil
}

func (l *LockInternals) inspect(ctx context.Context, side func(name string) *LockInternals) ([]Participant, error) {
	children, err := l.client.Children(ctx, l.path)
	if err != nil {
		return nil, absent(err)
	}
	maxLeases, err := l.currentMax(ctx)
	if err != nil {
		return nil, err
	}
	contenders := l.sorted(children, l.driver.Contends)
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

// contender is a name in the queue and what is read under it.
type contender struct {
	l        *LockInternals // for which it contends
	name     string
	position int
	data     []byte
	stat     framework.Stat
}

func (c *contender) path() string { return framework.JoinPath(c.l.path, c.name) }

func (c *contender) isRead() bool { return c.stat.Czxid != 0 }

// readAll reads those that are still there. When one is not, the others may have been
// read all the same.
func (l *LockInternals) readAll(ctx context.Context, contenders []*contender) error {
	unread := slices.Clone(contenders)
	for len(unread) > 0 {
		reads := make([]framework.Read, len(unread))
		for i, c := range unread {
			reads[i] = framework.ReadData(c.path(), &c.data, framework.StoringStatIn(&c.stat))
		}
		err := l.client.Pipeline(ctx, reads...)
		var gone *framework.OpError
		if err == nil || !errors.Is(err, framework.ErrNoNode) || !errors.As(err, &gone) {
			return err
		}
		unread = slices.DeleteFunc(unread, func(c *contender) bool { return c.isRead() || c.path() == gone.Path })
	}
	return nil
}

func (c *contender) participant(contenders []string, maxLeases int) Participant {
	_, lockName := framework.SplitPath(c.l.basePath)
	p := ParticipantOf(c.path(), lockName, c.data, c.stat)
	p.Position = c.position
	// One that will never be admitted neither holds nor waits for anybody.
	if result, err := c.l.driver.GetsTheLock(contenders, c.name, maxLeases); err == nil {
		p.Holds = result.GetsTheLock
		for _, before := range result.PathsToWatch {
			p.WaitsFor = append(p.WaitsFor, framework.JoinPath(c.l.path, before))
		}
	}
	return p
}

// ParticipantOf returns what a contender's znode shows by itself, for code that has read it
// as part of something larger. Position, Holds and WaitsFor depend on the queue and are not
// set. It sends nothing.
func ParticipantOf(path, lockName string, data []byte, stat framework.Stat) Participant {
	_, name := framework.SplitPath(path)
	sequence, _ := StandardLockInternalsSorter{lockName}.Sequence(name)
	p := Participant{
		Path: path, LockName: lockName, Identity: string(data), Sequence: sequence,
		Token: stat.Czxid, Session: stat.EphemeralOwner, Since: time.UnixMilli(stat.Ctime),
	}
	p.Host, p.PID, p.Label = parseIdentity(p.Identity)
	return p
}
