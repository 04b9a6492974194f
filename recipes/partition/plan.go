// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"context"
	"encoding/json"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/internal/attempt"
)

func (g registration) encode() []byte {
	data, err := json.Marshal(g)
	if err != nil {
		panic(err) // a number can be encoded
	}
	return data
}

// decodeShare returns what a plan says for a member, nil if it is in none.
func decodeShare(node framework.Node) *share {
	if !node.Exists() {
		return nil
	}
	s, err := parseShare(node.Data)
	if err != nil {
		return nil // this member makes another plan
	}
	return &s
}

// look finds out, with small requests, whether any member of the plan is there to notice
// departures. If the head is gone, or there is no plan, this member plans at once.
func (r *run) look() error {
	plan, folder, err := r.readRoot()
	if err != nil {
		return err
	}
	r.settled = folder
	if plan == nil || plan.Head == "" {
		r.urgent = true
		return nil
	}
	head, err := r.client.Exists(r.ctx, r.at.member(plan.Head))
	if err != nil {
		return err
	}
	r.urgent = r.urgent || head == nil
	return nil
}

// readRoot returns the root of the plan, nil if there is none, and the pzxid of the folder of
// the members, which every join and leave changes.
func (r *run) readRoot() (plan *root, folder int64, err error) {
	var data []byte
	var noPlan bool
	var stat *framework.Stat
	err = r.client.Pipeline(r.ctx,
		framework.ReadData(r.at.plan(), &data, framework.StoringAbsenceIn(&noPlan)),
		framework.ReadStat(r.at.members(), &stat))
	if err != nil {
		return nil, 0, err
	}
	if stat != nil {
		folder = stat.Pzxid
	}
	if noPlan {
		return nil, folder, nil
	}
	plan = new(root)
	if json.Unmarshal(data, plan) != nil {
		plan = nil // written by hand
	}
	return plan, folder, nil
}

// isSettled reports whether to balance now. If not, it has set the time of the next look, or
// found that another member has done it.
func (r *run) isSettled() (ready bool, err error) {
	plan, folder, err := r.readRoot()
	if err != nil {
		return false, err
	}
	if plan != nil && plan.Balanced && plan.Members == folder && r.share != nil && r.share.Capacity == r.cfg.capacity {
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
	for {
		balanced, folder, err := r.planOnce(r.ctx, rebalance)
		switch {
		case err == nil:
			r.urgent = false
			r.due = time.Time{}
			if !balanced {
				r.due = time.Now().Add(r.cfg.settle)
				r.settled, r.looks = folder, 1
			}
			return nil
		case !isOvertaken(err):
			return err
		}
		// Members that plan at the same time keep apart.
		if err := attempt.Part(r.ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}

// planOnce reads the state of the group and writes the next plan. It reports whether that is
// balanced, and the pzxid of the folder of the members.
func (r *run) planOnce(ctx context.Context, rebalance bool) (balanced bool, folder int64, err error) {
	s, err := readState(ctx, r.client, r.at)
	if err != nil {
		return false, 0, err
	}
	if _, isMember := s.members[r.cfg.id]; !isMember {
		return true, s.pzxid, nil // the other members plan, and this member when it is back
	}
	s.members[r.cfg.id] = r.cfg.capacity
	names, known, err := r.names.load(ctx, r.client)
	if err != nil {
		return false, 0, err
	}
	if !known {
		names = s.planned()
	}
	out, ops, err := s.next(r.at, names, rebalance)
	if err != nil || len(ops) == 0 {
		return out.balanced, s.pzxid, err
	}
	if _, err := r.client.Transact(ctx, ops...); err != nil {
		return false, 0, err
	}
	r.telemetry.moves.Add(int64(out.moves))
	r.client.Logger().Info("planned the partitions", logPath, r.Path(),
		"members", len(s.members), "partitions", len(names), "moves", out.moves, "balanced", out.balanced)
	return out.balanced, s.pzxid, nil
}

// cleanUp deletes the plan if no member is left.
func (r *run) cleanUp(ctx context.Context) error {
	for {
		stat, err := r.client.Exists(ctx, r.at.members())
		if err != nil || stat != nil && stat.NumChildren > 0 {
			return err
		}
		s, err := readState(ctx, r.client, r.at)
		if err == nil && len(s.members) == 0 && s.exists {
			_, err = r.client.Transact(ctx, s.removal(r.at)...)
		}
		if err == nil || !isOvertaken(err) {
			return err
		}
		if err := attempt.Part(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}
