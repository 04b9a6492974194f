// SPDX-License-Identifier: Apache-2.0

package locks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/locks/internal/identity"
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
	p.Host, p.PID, p.Label = identity.Parse(p.Identity)
	return p
}

// participantJSON is the form of a Participant in JSON.
type participantJSON struct {
	Path     string    `json:"path"`
	LockName string    `json:"lockName"`
	Identity string    `json:"identity"`
	Host     string    `json:"host"`
	PID      int       `json:"pid"`
	Label    string    `json:"label"`
	Position int       `json:"position"`
	Sequence int32     `json:"sequence"`
	Token    int64     `json:"token"`
	Session  string    `json:"session"`
	Since    time.Time `json:"since"`
	Holds    bool      `json:"holds"`
	WaitsFor []string  `json:"waitsFor"`
}

// MarshalJSON writes all fields under their names in lower camel case. The session is text,
// "0x" and hexadecimal digits: ZooKeeper logs it so, and no JSON reader rounds it. since is
// in RFC 3339, in UTC. waitsFor is an array, empty for a participant that waits for none.
// Bytes of the identity that are not UTF-8 are replaced.
func (p Participant) MarshalJSON() ([]byte, error) {
	return json.Marshal(participantJSON{
		Path: p.Path, LockName: p.LockName, Identity: p.Identity, Host: p.Host, PID: p.PID, Label: p.Label,
		Position: p.Position, Sequence: p.Sequence, Token: p.Token, Session: fmt.Sprintf("0x%x", uint64(p.Session)),
		Since: p.Since.UTC(), Holds: p.Holds, WaitsFor: append([]string{}, p.WaitsFor...),
	})
}

// UnmarshalJSON reads what MarshalJSON writes.
func (p *Participant) UnmarshalJSON(data []byte) error {
	var read participantJSON
	if err := json.Unmarshal(data, &read); err != nil {
		return fmt.Errorf("locks: participant: %w", err)
	}
	session, err := strconv.ParseUint(read.Session, 0, 64)
	if err != nil {
		return fmt.Errorf("locks: participant: session %.40q, expected 0x and hexadecimal digits", read.Session)
	}
	if len(read.WaitsFor) == 0 {
		read.WaitsFor = nil
	}
	*p = Participant{
		Path: read.Path, LockName: read.LockName, Identity: read.Identity, Host: read.Host, PID: read.PID, Label: read.Label,
		Position: read.Position, Sequence: read.Sequence, Token: read.Token, Session: int64(session),
		Since: read.Since, Holds: read.Holds, WaitsFor: read.WaitsFor,
	}
	return nil
}

// RevocationRequested reports whether a client has asked this contender to give the lock
// back; see [AttemptRevoke]. The request has replaced the contender's Identity.
func (p Participant) RevocationRequested() bool { return p.Identity == revokeMessage }

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
	children, err := l.client.Children(ctx, l.path)
	if err != nil {
		return nil, absent(err)
	}
	in := queued{names: l.line.Sorted(children)}
	if in.maxLeases, err = l.currentMax(ctx); err != nil {
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

// participant describes a contender that was read, by its place in the queue.
func (c *contender) participant(in queued) Participant {
	p := ParticipantOf(c.path(), c.l.lockName, c.data, c.stat)
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
	children, err := l.client.Children(ctx, l.path, opts...)
	if absent(err) != nil {
		return nil, fmt.Errorf("locks: queue of %s: %w", l.path, err)
	}
	return l.line.Sorted(children), nil
}

// Participant reads the node of one contender, by its name in the queue. It is for code that
// follows a queue, and leaves out Position, Holds and WaitsFor. When the contender is gone
// the error matches [framework.ErrNoNode].
func (l *LockInternals) Participant(ctx context.Context, name string, opts ...framework.ReadOption) (Participant, error) {
	path, stat := framework.JoinPath(l.path, name), framework.Stat{}
	data, err := l.client.Get(ctx, path, append(opts, framework.StoringStatIn(&stat))...)
	if err != nil {
		return Participant{}, fmt.Errorf("locks: participant: %w", err)
	}
	return ParticipantOf(path, l.lockName, data, stat), nil
}
