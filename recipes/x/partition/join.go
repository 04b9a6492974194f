// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"context"

	"github.com/cenkalti/backoff/v4"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/internal/attempt"
)

// What a member does before it joins, and the last one after it has left.

// Forget deletes the plan of the group at path if the group has no member, as members leave it behind that were killed. A
// member that joins meanwhile makes a new plan. Forget does nothing where there is no plan.
func Forget(ctx context.Context, client *framework.Framework, path string) error {
	err := attempt.CheckCall(ctx, client, path)
	if err == nil {
		err = cleanUp(ctx, client, layout(path))
	}
	return wrap(layout(path), err)
}

// cleanUp deletes the plan if no member is left. A member that leaves after others have planned
// without it finds the head of the plan, which is cheaper than a look at all members.
func cleanUp(ctx context.Context, client *framework.Framework, at layout) error {
	return untilWritten(ctx, func() error {
		plan, _, err := readRoot(ctx, client, at)
		if err != nil || plan == nil {
			return err
		}
		if plan.Head != "" {
			stat, err := client.Exists(ctx, at.member(plan.Head))
			if err != nil || isMember(framework.Node{Stat: stat}) {
				return err
			}
		}
		s, err := readState(ctx, client, at)
		if err == nil && len(s.members) == 0 && len(s.away) == 0 && s.exists {
			_, err = client.Transact(ctx, s.removal(at)...)
		}
		return err
	})
}

// removal deletes the plan of a group without members.
func (s *state) removal(at layout) []framework.Op {
	ops := []framework.Op{framework.CheckOp(at.plan(), s.version)}
	for id := range s.shares {
		ops = append(ops, framework.DeleteOp(at.share(id)))
	}
	return append(ops, framework.DeleteOp(at.plan()))
}

// forgetBeforeJoining goes on without success if the server refuses it for a reason that does not
// pass. The znode of this member is then refused, too, or the settle time does not count.
func forgetBeforeJoining(ctx context.Context, g *group) {
	loop := attempt.Loop{Client: g.client, Path: string(g.at), Warning: "the share of an earlier member could not be deleted"}
	_ = loop.Do(ctx, func(ctx context.Context) error {
		err := forgetShare(ctx, g)
		if err != nil && !mayPass(err) {
			return backoff.Permanent(err)
		}
		return err
	})
}

// forgetShare deletes the share of a member that has this id and has left, before this member joins.
// Otherwise the partitions of the share would move without a settle time, as often as a member
// comes and goes. If the znode of that member is there, its session goes on, and nothing moves.
func forgetShare(ctx context.Context, g *group) error {
	member, share := g.at.member(g.cfg.id), g.at.share(g.cfg.id)
	var alive, planned *framework.Stat
	err := g.client.Pipeline(ctx, framework.ReadStat(member, &alive), framework.ReadStat(share, &planned))
	if err != nil || planned == nil || isMember(framework.Node{Stat: alive}) {
		return err
	}
	return g.client.Delete(ctx, share, framework.WithVersion(planned.Version), framework.Quietly())
}

// makeRoom deletes a persistent znode that has the name of this member. A member's own znode is
// ephemeral, so nothing else would make room.
func makeRoom(ctx context.Context, g *group) error {
	path := g.at.member(g.cfg.id)
	stat, err := g.client.Exists(ctx, path)
	if err != nil || stat == nil || stat.EphemeralOwner != 0 {
		return err
	}
	g.client.Logger().Warn("a persistent znode has the name of a member, deleting it", logPath, path)
	return g.client.Delete(ctx, path, framework.WithVersion(stat.Version), framework.Quietly())
}
