// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/internal/attempt"
	"github.com/gocurator/curator/recipes/nodes"
)

const (
	// leaveTimeout bounds the requests of a member that has left.
	leaveTimeout = 10 * time.Second

	// recheckEvery is how often a member looks whether a partition that has moved, and that no
	// other member has asked for, was removed.
	recheckEvery = 10 * time.Second

	// mostSettles is after how many times its settle time a group is balanced that does not
	// come to rest.
	mostSettles = 10
)

// run is one [Member.Run]. Its goroutine owns it, and what it knows of the group. The partitions have goroutines of their own.
type run struct {
	*group

	held     *holdings
	node     *nodes.PersistentNode // of this member
	own      chan nodes.Change     // what becomes of it
	reporter *reporter
	planner  *planner
	followed *followed
	agenda   agenda

	present  bool     // this member's znode exists
	share    share    // this member's, without a capacity if it is in no plan
	head     string   // of the plan at the last look
	settling settling // while balance is on the agenda
	weighs   bool     // the next plan is for the loads
	ordered  int64    // the mzxid of the orders at the last plan, 0 if there were none

	paces attempt.Pause // between looks at partitions that are under way
	retry attempt.Pause
}

// settling is how a group comes to rest.
type settling struct {
	folder int64 // the pzxid of the folder of the members at the last look
	looks  int   // how often the group has not been at rest
}

func newRun(ctx context.Context, g *group, p policy, fn func(context.Context, Partition) error) (*run, error) {
	node, err := nodes.NewPersistentNode(g.client, g.at.member(g.cfg.id), framework.Ephemeral, g.newRegistration().encode())
	if err != nil {
		return nil, err
	}
	held := newHoldings(ctx, g, fn)
	return &run{
		group: g, held: held, node: node, own: make(chan nodes.Change),
		reporter: &reporter{of: held, node: node, told: make(chan struct{}, 1)},
		planner:  &planner{group: g, policy: p},
		followed: &followed{client: g.client, ctx: held.ctx, running: &held.goroutines, events: make(chan event), znodes: make(map[role]follower)},
	}, nil
}

// untilEnd is the whole of [Member.Run]. It returns why it has ended, never nil.
func (r *run) untilEnd(ctx context.Context) error {
	defer r.held.cancel(nil)
	registration := r.node.OnChange(func(c nodes.Change) {
		select {
		case r.own <- c:
		case <-r.held.ctx.Done():
		}
	})
	defer registration.Remove()
	if r.cfg.returns == 0 {
		forgetBeforeJoining(r.held.ctx, r.group)
	}
	if err := r.node.Start(); err != nil {
		return err
	}
	r.followed.follow(ownShare, r.at.share(r.cfg.id))
	r.held.goroutines.Go(r.reporter.run)
	r.loop()
	r.held.cancel(nil)
	failed := r.leave(context.WithoutCancel(ctx))
	err := context.Cause(r.held.ctx)
	if ctx.Err() != nil && (errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx))) {
		err = attempt.Interrupted(ctx)
	}
	return errors.Join(err, failed)
}

func (r *run) loop() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-r.held.ctx.Done():
			return
		case c := <-r.own:
			r.nodeChanged(c)
		case <-r.reporter.told:
			r.settleThenBalance()
			r.apply()
		case e := <-r.followed.events:
			r.heed(e)
		case <-timer.C:
		}
		r.step()
		timer.Reset(r.agenda.rest())
	}
}

// nodeChanged reacts to what has become of this member's znode.
func (r *run) nodeChanged(c nodes.Change) {
	r.present = c.Present
	r.agenda.drop(clearName)
	switch {
	case c.Present:
		if c.Err == nil {
			r.agenda.held = time.Time{} // an outage is over, and with it the reason of the last failure
		}
		// While it was away it may have missed to balance what it has planned.
		r.settleThenBalance()
	case errors.Is(c.Err, nodes.ErrTaken):
		r.client.Logger().Error("another znode has the name of this member, waiting until it has gone", logPath, string(r.at), "member", r.cfg.id, "error", c.Err)
		r.agenda.now(clearName)
	case c.Err == nil || errors.Is(c.Err, nodes.ErrDeleted) || mayPass(c.Err): // the node comes back by itself
	default:
		r.held.cancel(c.Err)
	}
	r.apply()
}

// heed takes the new state of a znode that is followed.
func (r *run) heed(e event) {
	switch {
	case r.followed.isOld(e):
	case e.err != nil:
		r.held.cancel(e.err)
	case e.role == ownShare:
		r.shareChanged(decodeShare(e.node))
	case e.role == previous && isMember(e.node): // it lives
	case e.role == theOrders && mzxidOf(e.node) == r.ordered: // the last plan of this member knows them
	default:
		r.agenda.now(planNow) // the previous member has gone, or the set or the orders may have changed
	}
}

// shareChanged takes what a new plan says for this member.
func (r *run) shareChanged(now share) {
	r.share = now
	r.followOthers()
	switch {
	case !r.share.Weighs:
		r.agenda.drop(weighLoads)
	case !r.agenda.has(weighLoads):
		r.agenda.after(weighLoads, LoadPeriod)
	}
	r.apply()
	if r.share.Capacity != r.cfg.capacity || r.mustDrain() {
		r.settleThenBalance() // the plan knows too little of this member
	}
}

// apply hands the share of this member to its pieces.
func (r *run) apply() {
	if r.held.assign(r.share, r.present) {
		r.agenda.now(recheck)
	}
}

// mustDrain reports whether the plan has something for this member, although it is drained.
func (r *run) mustDrain() bool {
	return r.held.isDraining() && len(r.share.Partitions)+len(r.share.Standbys) > 0
}

// followOthers follows the previous member in the ring, or the head of a plan without this member,
// and the set and the orders if this member is the head.
func (r *run) followOthers() {
	before, orders := r.head, ""
	if r.share.Capacity > 0 {
		before = r.share.Watches
	}
	if before != "" {
		before = r.at.member(before)
	}
	if r.share.Head {
		orders = r.at.orders()
	}
	r.followed.follow(previous, before)
	r.followed.follow(theOrders, orders)
	for i, set := range r.names.paths() {
		if !r.share.Head {
			set = ""
		}
		r.followed.follow(theSets+role(i), set)
	}
}

// settleThenBalance has the group balanced when it has been at rest for the settle time.
func (r *run) settleThenBalance() {
	if r.present && !r.agenda.has(balance) {
		r.agenda.after(balance, r.cfg.settle)
		r.agenda.now(meet)
		r.settling = settling{}
	}
}

// step makes the requests that are due.
func (r *run) step() {
	if r.agenda.isHeld() || r.held.ctx.Err() != nil {
		return
	}
	err := attempt.Guard(r.client, r.work)
	switch {
	case err == nil:
		r.retry.Reset()
		r.agenda.held = time.Time{}
	case attempt.Ended(r.client) != nil:
		r.held.cancel(attempt.Ended(r.client))
	case r.held.ctx.Err() == nil:
		r.agenda.held = time.Now().Add(r.retry.Next())
		r.client.Logger().Warn("the partitions could not be planned, trying again", logPath, string(r.at), "error", err)
	}
}

// work goes through the agenda. A request that fails leaves its entry there.
func (r *run) work() error {
	if r.agenda.isDue(recheck) {
		if err := r.findRemoved(); err != nil {
			return err
		}
	}
	if r.agenda.isDue(clearName) {
		if err := makeRoom(r.held.ctx, r.group); err != nil {
			return err
		}
		r.agenda.drop(clearName)
	}
	if r.agenda.isDue(weighLoads) {
		r.agenda.after(weighLoads, LoadPeriod)
		r.weighs = true
		r.settleThenBalance()
	}
	if r.agenda.isDue(giveUp) {
		r.agenda.drop(giveUp)
		r.agenda.now(planNow)
	}
	if !r.present {
		r.agenda.drop(planNow, meet, balance) // this member rejoins when it is there
		return nil
	}
	if r.agenda.isDue(meet) {
		if err := r.findHead(); err != nil {
			return err
		}
		r.agenda.drop(meet)
	}
	rebalance, err := r.isSettled()
	if err != nil || !rebalance && !r.agenda.isDue(planNow) {
		return err
	}
	return r.plan(rebalance)
}

// findHead has a member without a share follow the head of the plan. The members of the plan notice
// when one of them has gone, but not when all of them have. If there is no plan, this member plans
// at once.
func (r *run) findHead() error {
	plan, folder, err := readRoot(r.held.ctx, r.client, r.at)
	if err != nil {
		return err
	}
	r.settling.folder, r.head = folder, ""
	if plan != nil {
		r.head = plan.Head
	}
	if r.head == "" || r.share.Capacity == 0 && r.head == r.cfg.id {
		r.agenda.now(planNow)
	}
	r.followOthers()
	return nil
}

// isSettled reports whether to balance now. If not, it is not time yet, or isSettled has set the time of the next look, or
// found that another member has done it.
func (r *run) isSettled() (ready bool, err error) {
	if !r.agenda.isDue(balance) {
		return false, nil
	}
	plan, folder, err := readRoot(r.held.ctx, r.client, r.at)
	if err != nil {
		return false, err
	}
	if plan != nil && plan.Balanced && plan.Members == folder && !r.isMissingIn(*plan) {
		r.agenda.drop(balance)
		return false, nil
	}
	if r.cfg.settle > 0 && folder != r.settling.folder && r.settling.looks < mostSettles {
		r.settling = settling{folder, r.settling.looks + 1}
		r.agenda.after(balance, r.cfg.settle)
		return false, nil
	}
	return true, nil
}

// isMissingIn reports whether a plan that is balanced lacks something of this member.
func (r *run) isMissingIn(plan root) bool {
	switch {
	case r.share.Capacity != r.cfg.capacity || r.mustDrain():
		return true
	case !slices.Contains(plan.Sets, r.names.id()):
		return true
	default: // its loads, or the new loads of any member
		return r.reporter.hasLoads.Load() && !plan.Weighs || r.weighs
	}
}

// plan has the planner make the next plan, and notes what is to be done after it.
func (r *run) plan(rebalance bool) error {
	made, err := r.planner.plan(r.held.ctx, rebalance)
	if err != nil {
		r.agenda.now(planNow) // if a part of it was written, the plan says that it is balanced
		return err
	}
	r.weighs, r.ordered = false, made.ordered
	r.agenda.drop(planNow, meet, balance, giveUp)
	if made.wait > 0 {
		r.agenda.after(giveUp, made.wait)
	}
	if made.isBalanced || made.isNew {
		r.paces.Reset()
	}
	// While a return is awaited nothing moves but from drained members. The member that is back plans.
	if !made.isBalanced && (made.wait == 0 || made.drains()) {
		r.agenda.after(balance, max(r.cfg.settle, r.paces.Next()))
		r.settling = settling{made.pzxid, 1}
	}
	return nil
}

// findRemoved ends the pieces that no member will ask for: they are excluded, or the set does not have them.
func (r *run) findRemoved() error {
	o, err := readOrders(r.held.ctx, r.client, r.at)
	if err != nil {
		return err
	}
	// Orders count whether there is a set or not.
	r.held.endRemoved(func(name string) bool { return slices.Contains(o.Excluded, name) })
	inForce, err := r.planner.inForce(r.held.ctx)
	if err != nil {
		return err
	}
	mayRemove := !r.share.Mixed // otherwise other members may have it in their sets
	r.agenda.drop(recheck)
	if r.held.endRemoved(func(name string) bool { return mayRemove && !inForce[name] }) {
		r.agenda.after(recheck, recheckEvery) // they may be removed before another member asks for them
	}
	return nil
}

// leave leaves the group and waits until all functions have returned. The last member takes
// the plan along.
func (r *run) leave(ctx context.Context) error {
	err := r.node.Close()
	if err != nil && !errors.Is(err, framework.ErrCleanupPending) {
		// A member that is left behind is given partitions, so one refusal is not taken for
		// an answer.
		err = r.node.Close()
	}
	r.held.goroutines.Wait()
	if err != nil {
		return fmt.Errorf("leave: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, leaveTimeout)
	defer cancel()
	err = attempt.Guard(r.client, func() error { return cleanUp(ctx, r.client, r.at) })
	if err != nil && attempt.Ended(r.client) == nil {
		// The next member that joins finds the plan and uses it.
		r.client.Logger().Warn("the plan of the partitions was left behind", logPath, string(r.at), "error", err)
	}
	return nil
}
