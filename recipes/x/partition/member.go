// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/listen"
	"github.com/gocurator/curator/recipes/internal/attempt"
)

// Member is a member of a group that divides partitions. Its [Member.Run] runs a function for
// each partition that this member has.
//
// Layout, below the path of the group:
//
//	members/<id>      ephemeral, one for each member, with its capacity; a persistent one is no member
//	plan              which members the last plan was made for
//	plan/<id>         the partitions of one member, as JSON
//	orders            what operators have ordered, as JSON
//	locks/<name>/...  the lock of a partition, a [locks.InterProcessMutex]
//
// The plan is deleted when the last member leaves in order. Its parents, and the folders of the
// locks, are containers.
//
// It is safe for concurrent use.
type Member struct {
	*group

	running atomic.Bool
	current atomic.Pointer[holdings]
}

// New returns a member of the group at path that divides the partitions. It checks its
// arguments and sends nothing.
func New(client *framework.Framework, path string, partitions Names, opts ...Option) (*Member, error) {
	switch err := attempt.Check(client, path); {
	case err != nil:
		return nil, fmt.Errorf("partition: %w", err)
	case partitions == nil:
		return nil, errors.New("partition: partitions nil, expected partition.Fixed or partition.Stored")
	case path == "/":
		return nil, errors.New("partition: path /, expected the path of a znode that can be created and deleted")
	}
	at := layout(path)
	if err := partitions.check(client); err != nil {
		return nil, wrap(at, err)
	}
	cfg, err := newConfig(opts)
	if err != nil {
		return nil, wrap(at, err)
	}
	g, err := newGroup(client, at, partitions, cfg)
	if err != nil {
		return nil, wrap(at, err)
	}
	return &Member{group: g}, nil
}

// ID returns the id of this member.
func (m *Member) ID() string { return m.cfg.id }

// Path returns the path of the group.
func (m *Member) Path() string { return string(m.at) }

// Run joins the group, and runs fn on a goroutine of its own for each partition that this member
// has, until ctx ends. Then it leaves the group. It returns when all functions have returned, with
// the error of ctx. If the server has not confirmed within ten seconds that the member is gone, the
// error also matches [framework.ErrCleanupPending]. The removal then goes on in the background.
//
// The context of fn is derived from ctx and from the lease. Its cause is
//
//   - [ErrMoved] when another member waits for the partition,
//   - [ErrRemoved] when the partition is no longer in the set,
//   - a [*locks.LostError] when the lease was lost,
//   - the cause of ctx, or another reason for the end of the Run.
//
// fn should then return soon, because the next member gets the partition when fn has returned. If
// it does not return for a time that [WithGrace] sets, the partition is reported as [Overdue], and
// stays where it is. After the loss of a lease the next member may begin before fn has returned;
// use the token to keep late writes out.
//
// When fn returns nil before its context ends, this member keeps the partition. It calls fn again
// only after it has lost the partition and got it back. When fn returns an error or panics before
// its context ends, this member keeps the partition, and calls fn again after a pause. The pauses
// grow from 100 ms to 30 s, and begin again after a call that has lasted for 30 s. Each failure is
// logged, counted, and reported as [Failed]. With [WithEndOnError] Run instead ends all functions,
// leaves, and returns that error. An error after the end of the context is logged, unless it is the
// context's.
//
// Run goes on over lost connections and sessions. It ends when the client is closed, and when the
// options of the locks do not fit the client's session. It also ends when the server refuses the
// member's znode for a reason that does not pass by itself, such as a missing permission. A
// persistent znode that has the member's name, as in a tree that was copied, is deleted. A Member
// runs once at a time, otherwise Run fails with [ErrRunning].
func (m *Member) Run(ctx context.Context, fn func(ctx context.Context, p Partition) error) error {
	switch {
	case ctx == nil:
		return wrap(m.at, attempt.ErrNilContext)
	case fn == nil:
		return wrap(m.at, errors.New("function nil, expected what to do with a partition"))
	case !m.running.CompareAndSwap(false, true):
		return wrap(m.at, ErrRunning)
	}
	defer m.running.Store(false)
	r, err := newRun(ctx, m.group, decide, fn)
	if err != nil {
		return wrap(m.at, err)
	}
	m.current.Store(r.held)
	defer m.current.Store(nil)
	return wrap(m.at, r.untilEnd(ctx))
}

// OnChange calls listener for each [Change] of a partition of this member, in order, on a goroutine
// of its own; see package listen.
func (m *Member) OnChange(listener func(Change)) *listen.Registration { return m.changes.Add(listener) }

// Drain has this member give its partitions up, one after the other, or as many at a time as [WithMoves] allows. It returns
// when all functions have returned and other members are to have the partitions. The member then stays in
// the group without partitions, and its program ends the context of [Member.Run]. Until the end of the Run the
// member gets no partition, also if the Drain fails. If no other member could have the partitions, Drain waits. It fails when ctx or the Run ends, and with
// [ErrNotRunning] before a Run.
func (m *Member) Drain(ctx context.Context) error {
	if ctx == nil {
		return wrap(m.at, attempt.ErrNilContext)
	}
	held := m.current.Load()
	if held == nil {
		return wrap(m.at, ErrNotRunning)
	}
	select {
	case <-held.drain():
		return nil
	case <-ctx.Done():
		return wrap(m.at, attempt.Interrupted(ctx))
	case <-held.ctx.Done():
		return wrap(m.at, context.Cause(held.ctx))
	}
}
