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
	LockName string // the part of the node's name before the number: "lock-", "__READ__", "__WRIT__", "lease-", "wait-"
	Identity string // the node's data, until AttemptRevoke replaces it

	// Host, PID and Label describe the owner's process, as far as Identity shows them. This
	// package's default data has all of them, with the label of [WithLabel]. Curator's
	// default data is an address, shown as Host. Other data shows none.
	Host  string
	PID   int
	Label string

	Position int       // in the queue, from 0; both sides of a read/write lock share a queue
	Sequence int32     // the number the server gave it
	Token    int64     // the fencing token it has or will have; but a downgraded reader's lease has its writer's token
	Session  int64     // the session that owns the node; 0 if the node is not ephemeral
	Since    time.Time // when it joined the queue, by the server's clock

	// Holds says that its place in the queue has the lock. Its owner may not know yet.
	Holds bool

	// WaitsFor has the paths of the contenders that it waits for. It is empty for a holder.
	WaitsFor []string
}

// Participants returns the contenders in the order of the queue. It takes one round trip
// for the list and one for each 256 contenders, and no lock, so it can be called often.
// Contenders that leave during the call are left out. A lock that was never used has none.
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

// inspect lists the folder and reads the nodes.
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

// contender is a name in the queue and the content of its node.
type contender struct {
	l        *LockInternals // the lock that it contends for
	name     string
	position int
	data     []byte
	stat     framework.Stat
}

func (c *contender) path() string { return framework.JoinPath(c.l.path, c.name) }

func (c *contender) isRead() bool { return c.stat.Czxid != 0 }

// readAll reads the nodes of the contenders that are still there. When one is gone, the
// pipeline fails, but it may have read the others.
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

// participant describes a contender that was read, by its place among the contenders.
func (c *contender) participant(contenders []string, maxLeases int) Participant {
	_, lockName := framework.SplitPath(c.l.basePath)
	p := ParticipantOf(c.path(), lockName, c.data, c.stat)
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
