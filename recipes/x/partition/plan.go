// SPDX-License-Identifier: Apache-2.0

package partition

// Safety comes from the locks alone. A plan only says which member queues for which lock. So a wrong
// or old plan moves partitions in vain, and never makes a second holder.
//
// Why there is a plan: no pure function of the members alone keeps the shares within one of each
// other and also moves only the partitions of a member that leaves. So the next assignment depends on
// the last one, and every member that plans must know the same last one. It is in ZooKeeper, and a
// member writes it on condition of its version. A member reads the plan before the list of
// members, so the list is never older, and a stale member cannot take a newcomer for dead.
//
// Why no leader plans, and members do not list each other: each member follows its own share, and the
// member before it in the ring, which the share names. If some members have died and one lives, at
// least one living member stands right after a dead one, and plans. A newcomer plans for itself. If
// all have gone, a newcomer notices, because it follows the head until it has a share. So a join
// or a leave costs one list. A hung member delays no plan but its own. The head is only the member
// that follows the set of names.
//
// A plan that is too long for a request takes several transactions. The first one writes the root, and
// the others depend on the root's version, so another planner ends the rest. The first one also has the
// share of the member that follows the planner, which completes the plan if the planner dies.
//
// The new owner of a partition queues for its lock, and then asks all contenders before it to give
// the lock back. The old owner ends its function when it is asked and the plan has given the partition
// away. A request alone may come from a member with an old plan. A plan alone may name a successor
// that never comes.

import (
	"context"
	"encoding/json"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/internal/attempt"
)

func (m *Member) newRegistration() registration {
	g := registration{Capacity: m.cfg.capacity, Return: m.cfg.returns.Milliseconds(), Zone: m.cfg.zone, Set: m.names.id()}
	if m.cfg.prepare != nil {
		g.Standbys = &m.cfg.standbys
	}
	return g
}

func (g registration) encode() []byte {
	data, err := json.Marshal(g)
	if err != nil {
		panic(err) // a number can be encoded
	}
	return data
}

// decodeShare returns what a plan says for a member, nil if it is in none.
func decodeShare(node framework.Node) *share {
	s, err := parseShare(node.Data) // none without data
	if err != nil {
		return nil // this member makes another plan
	}
	return &s
}

// look has a member without a share follow the head of the plan. The members of the plan notice
// when one of them has gone, but not when all of them have. If there is no plan, this member plans
// at once.
func (r *run) look() error {
	plan, folder, err := r.readRoot(r.ctx)
	if err != nil {
		return err
	}
	r.settled, r.head = folder, ""
	if plan != nil {
		r.head = plan.Head
	}
	if r.head == "" || r.share == nil && r.head == r.cfg.id {
		r.urgent = true
	}
	r.followOthers()
	return nil
}

// readRoot returns the root of the plan, nil if there is none, and the pzxid of the folder of
// the members, which every join and leave changes.
func (m *Member) readRoot(ctx context.Context) (plan *root, folder int64, err error) {
	err = readAll(ctx, m.client, []string{m.at.plan(), m.at.members()}, func(i int, node framework.Node) error {
		switch {
		case !node.Exists():
		case i == 0:
			r := parseRoot(node.Data)
			plan = &r
		default:
			folder = node.Stat.Pzxid
		}
		return nil
	})
	return plan, folder, err
}

// isSettled reports whether to balance now. If not, it has set the time of the next look, or
// found that another member has done it.
func (r *run) isSettled() (ready bool, err error) {
	plan, folder, err := r.readRoot(r.ctx)
	if err != nil {
		return false, err
	}
	if plan != nil && plan.Balanced && plan.Members == folder && r.share != nil && r.share.Capacity == r.cfg.capacity && !r.plansAgain(plan) {
		r.due = time.Time{}
		return false, nil
	}
	if r.cfg.settle > 0 && folder != r.settled && r.looks < mostSettles {
		r.settled = folder
		r.looks++
		r.due = time.Now().Add(r.cfg.settle)
		return false, nil
	}
	return true, nil
}

// plan makes the next plan, unless other members do so first. The server accepts one of
// several plans from the same state, and the members that made the other plans look again.
func (r *run) plan(rebalance bool) error {
	var balanced bool
	var s *state
	err := untilWritten(r.ctx, func() (err error) {
		balanced, s, err = r.planOnce(r.ctx, rebalance)
		return err
	})
	if err != nil {
		return err
	}
	r.urgent, r.weighs = false, false
	r.due, r.expiry, r.ordered = time.Time{}, time.Time{}, s.ordered
	if s.wait > 0 {
		r.expiry = time.Now().Add(s.wait)
	}
	if balanced || s.wrote {
		r.paces.Reset()
	}
	// While a return is awaited nothing moves but from drained members. The member that is back plans.
	if !balanced && (s.wait == 0 || s.drains()) {
		r.due = time.Now().Add(max(r.cfg.settle, r.paces.Next()))
		r.settled, r.looks = s.pzxid, 1
	}
	return nil
}

// planOnce reads the state of the group and writes the next plan. It returns whether that is
// balanced, and the state.
func (r *run) planOnce(ctx context.Context, rebalance bool) (balanced bool, s *state, err error) {
	s, err = readState(ctx, r.client, r.at)
	if err != nil {
		return false, s, err
	}
	if _, isMember := s.members[r.cfg.id]; !isMember {
		return true, s, nil // the other members plan, and this member when it is back
	}
	set, known, err := r.loadSet()
	if err != nil {
		return false, s, err
	}
	if _, mixed := s.sets(r.names.id()); !known || mixed {
		set = s.together(set)
	}
	t, err := s.terms(ctx, r.client, r.at, r.cfg, rebalance)
	if err != nil {
		return false, s, err
	}
	out, data, changes, err := s.next(r.at, r.cfg.id, set, t, r.cfg)
	if err != nil || data == nil {
		return out.Balanced, s, err
	}
	if err := s.write(ctx, r.client, r.at, data, changes); err != nil {
		return false, s, err
	}
	s.wrote = true
	r.telemetry.moves.Add(int64(len(out.Moved)))
	r.client.Logger().Info("planned the partitions", logPath, r.Path(),
		"members", len(s.members), "partitions", len(set), "moves", len(out.Moved), "balanced", out.Balanced)
	return out.Balanced, s, nil
}

// Forget deletes the plan of the group at path if the group has no member, as members leave it behind that were killed. A
// member that joins meanwhile makes a new plan. Forget does nothing where there is no plan.
func Forget(ctx context.Context, client *framework.Framework, path string) error {
	err := attempt.CheckCall(ctx, client, path)
	if err == nil {
		err = (&Member{client: client, at: layout(path)}).cleanUp(ctx)
	}
	return wrap(layout(path), err)
}

// cleanUp deletes the plan if no member is left. A member that leaves after others have planned
// without it finds the head of the plan, which is cheaper than a look at all members.
func (m *Member) cleanUp(ctx context.Context) error {
	return untilWritten(ctx, func() error {
		plan, _, err := m.readRoot(ctx)
		if err != nil || plan == nil {
			return err
		}
		if plan.Head != "" {
			stat, err := m.client.Exists(ctx, m.at.member(plan.Head))
			if err != nil || isMember(framework.Node{Stat: stat}) {
				return err
			}
		}
		s, err := readState(ctx, m.client, m.at)
		if err == nil && len(s.members) == 0 && len(s.away) == 0 && s.exists {
			_, err = m.client.Transact(ctx, s.removal(m.at)...)
		}
		return err
	})
}

// forgetBeforeJoining goes on without success if the server refuses it for a reason that does not
// pass. The znode of this member is then refused, too, or the settle time does not count.
func (r *run) forgetBeforeJoining() {
	loop := attempt.Loop{Client: r.client, Path: r.Path(), Warning: "the share of an earlier member could not be deleted"}
	_ = loop.Do(r.ctx, func(ctx context.Context) error {
		err := r.forget(ctx)
		if err != nil && !mayPass(err) {
			return backoff.Permanent(err)
		}
		return err
	})
}

// forget deletes the share of a member that has this id and has left, before this member joins.
// Otherwise the partitions of the share would move without a settle time, as often as a member
// comes and goes. If the znode of that member is there, its session goes on, and nothing moves.
func (r *run) forget(ctx context.Context) error {
	var member, left *framework.Stat
	err := r.client.Pipeline(ctx, framework.ReadStat(r.at.member(r.cfg.id), &member), framework.ReadStat(r.at.share(r.cfg.id), &left))
	if err != nil || left == nil || isMember(framework.Node{Stat: member}) {
		return err
	}
	return r.client.Delete(ctx, r.at.share(r.cfg.id), framework.WithVersion(left.Version), framework.Quietly())
}

// clearName deletes a persistent znode that has the name of this member. A member's own znode is
// ephemeral, so nothing else would make room.
func (r *run) clearName() error {
	path := r.at.member(r.cfg.id)
	stat, err := r.client.Exists(r.ctx, path)
	if err == nil && stat != nil && stat.EphemeralOwner == 0 {
		r.client.Logger().Warn("a persistent znode has the name of a member, deleting it", logPath, path)
		err = r.client.Delete(r.ctx, path, framework.WithVersion(stat.Version), framework.Quietly())
	}
	if err == nil {
		r.taken = false
	}
	return err
}
