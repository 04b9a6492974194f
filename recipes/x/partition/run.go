// SPDX-License-Identifier: Apache-2.0

package partition

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
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

// run is one [Member.Run]. Its goroutine owns what mu does not guard.
type run struct {
	*Member

	fn     func(context.Context, Partition) error
	ctx    context.Context // of all functions
	cancel context.CancelCauseFunc

	node   *nodes.PersistentNode
	events chan event     // of what is followed
	others sync.WaitGroup // all goroutines but the run's own

	share    *share // this member's, nil if it is in no plan; written under mu, too
	head     string // of the plan at the last look
	taken    bool   // look what has the name of this member
	previous follower
	set      follower
	orders   follower

	lacking string // why there was no set at the last look, "" if there was one

	urgent  bool          // plan now
	recheck time.Time     // when to look whether partitions were removed; zero if there is no need
	due     time.Time     // when to balance; zero if there is no need
	settled int64         // the pzxid of the folder of the members at the last look
	looks   int           // how often the group has not been at rest
	ordered int64         // the mzxid of the orders at the last plan, 0 if there were none
	weighs  bool          // this look is for the loads
	expiry  time.Time     // when a member that is away is given up; zero if there is none
	weigh   time.Time     // when the head looks at the loads; zero if there are none
	paces   attempt.Pause // between looks at partitions that are under way
	retry   attempt.Pause
	retryAt time.Time // no request before this, after a failure

	mu      sync.Mutex
	pieces  map[string]*piece
	present bool          // this member's znode exists
	refused error         // the server's, of that znode
	loaded  bool          // the znode has loads
	drained chan struct{} // of Member.Drain, closed when this member has no partition; nil without it

	announced bool // the znode says that the member is drained
	wake      chan struct{}
	reports   chan struct{} // has room for one: a load was reported

	prepared chan struct{} // has room for one: a standby is prepared, or is one no more
}

// event is a new state of a znode that is followed.
type event struct {
	path string
	node framework.Node
	err  error // the client has ended
}

func newRun(ctx context.Context, m *Member, fn func(context.Context, Partition) error) (*run, error) {
	node, err := nodes.NewPersistentNode(m.client, m.at.member(m.cfg.id), framework.Ephemeral, m.newRegistration().encode())
	if err != nil {
		return nil, err
	}
	r := &run{
		Member: m, fn: fn, node: node, events: make(chan event), wake: make(chan struct{}, 1), pieces: make(map[string]*piece),
		reports: make(chan struct{}, 1), prepared: make(chan struct{}, 1),
	}
	r.ctx, r.cancel = context.WithCancelCause(ctx)
	return r, nil
}

// run is the whole of [Member.Run]. It returns why it has ended, never nil.
func (r *run) run(ctx context.Context) error {
	defer r.cancel(nil)
	registration := r.node.OnChange(r.nodeChanged)
	defer registration.Remove()
	if r.cfg.returns == 0 {
		r.forgetBeforeJoining()
	}
	if err := r.node.Start(); err != nil {
		return err
	}
	r.follow(r.ctx, r.at.share(r.cfg.id))
	r.others.Go(r.writeReports)
	r.loop()
	r.cancel(nil)
	left := r.leave(context.WithoutCancel(ctx))
	err := context.Cause(r.ctx)
	if ctx.Err() != nil && (errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx))) {
		err = attempt.Interrupted(ctx)
	}
	return errors.Join(err, left)
}

// nodeChanged notes what has become of this member's znode.
func (r *run) nodeChanged(c nodes.Change) {
	r.mu.Lock()
	r.present = c.Present
	r.refused = c.Err
	r.mu.Unlock()
	attempt.Signal(r.wake)
}

func (r *run) loop() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-r.ctx.Done():
			return
		case <-r.wake:
			r.nodeIs()
		case e := <-r.events:
			r.handle(e)
		case <-timer.C:
		}
		r.step()
		timer.Reset(r.rest())
	}
}

// rest returns how long the run may wait for events.
func (r *run) rest() time.Duration {
	if r.urgent || r.taken {
		return time.Until(r.retryAt)
	}
	next := r.due
	for _, other := range []time.Time{r.recheck, r.weigh, r.expiry} {
		if next.IsZero() || !other.IsZero() && other.Before(next) {
			next = other
		}
	}
	switch {
	case next.IsZero():
		return time.Hour
	case r.retryAt.After(next):
		next = r.retryAt
	}
	return time.Until(next)
}

// nodeIs reacts to what has become of this member's znode.
func (r *run) nodeIs() {
	r.mu.Lock()
	present, refused := r.present, r.refused
	r.mu.Unlock()
	if present && refused == nil {
		r.retryAt = time.Time{} // an outage is over, and with it the reason of the last failure
	}
	r.taken = errors.Is(refused, nodes.ErrTaken)
	switch {
	case present:
		// While it was away it may have missed to balance what it has planned.
		r.settleThenBalance()
	case refused == nil || errors.Is(refused, nodes.ErrDeleted) || mayPass(refused):
	case r.taken:
		r.client.Logger().Error("another znode has the name of this member, waiting until it has gone", logPath, r.Path(), "member", r.cfg.id, "error", refused)
	default:
		r.cancel(refused)
	}
	r.apply()
}

// handle takes the new state of a znode.
func (r *run) handle(e event) {
	switch {
	case e.err != nil:
		r.cancel(e.err)
	case e.path == r.at.share(r.cfg.id):
		now := decodeShare(e.node)
		r.mu.Lock() // pieces that end look at it
		r.share = now
		r.mu.Unlock()
		r.followOthers()
		r.followLoads()
		r.apply()
		if r.share == nil || r.share.Capacity != r.cfg.capacity || r.mustDrain() {
			r.settleThenBalance() // the plan knows too little of this member
		}
	case e.path == r.previous.path && !isMember(e.node):
		r.urgent = true // it has left or died
	case e.path == r.orders.path && (!e.node.Exists() && r.ordered == 0 || e.node.Exists() && e.node.Stat.Mzxid == r.ordered):
		// the last plan of this member knows them
	case e.path == r.set.path, e.path == r.orders.path:
		r.urgent = true // the set or the orders may have changed
	}
}

// settleThenBalance has the group balanced when it has been at rest for the settle time.
func (r *run) settleThenBalance() {
	if r.due.IsZero() && r.isPresent() {
		r.due = time.Now().Add(r.cfg.settle)
		r.looks, r.settled = 0, 0
	}
}

func (r *run) isPresent() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.present
}

// followOthers follows the previous member in the ring, or the head of a plan without this member,
// and the set if this member is the head.
func (r *run) followOthers() {
	previous, set, orders := r.head, "", ""
	if r.share != nil {
		previous = r.share.Watches
	}
	if previous != "" {
		previous = r.at.member(previous)
	}
	if r.share != nil && r.share.Head {
		set, orders = r.names.path(), r.at.orders()
	}
	r.refollow(&r.previous, previous)
	r.refollow(&r.set, set)
	r.refollow(&r.orders, orders)
}

// follower is a znode that is followed.
type follower struct {
	path string
	stop context.CancelFunc
}

func (r *run) refollow(f *follower, path string) {
	if f.path == path {
		return
	}
	if f.stop != nil {
		f.stop()
	}
	*f = follower{path: path}
	if path != "" {
		ctx, cancel := context.WithCancel(r.ctx)
		f.stop = cancel
		r.follow(ctx, path)
	}
}

// follow sends the states of a znode to events, until ctx ends.
func (r *run) follow(ctx context.Context, path string) {
	r.others.Go(func() {
		loop := attempt.Loop{Client: r.client, Path: path, Warning: "a znode of the partitions cannot be followed, trying again"}
		err := loop.Follow(ctx, func(node framework.Node) { r.send(ctx, event{path: path, node: node}) })
		if ctx.Err() == nil {
			r.send(ctx, event{path: path, err: err})
		}
	})
}

func (r *run) send(ctx context.Context, e event) {
	select {
	case r.events <- e:
	case <-ctx.Done():
	}
}

// step makes the requests that are due.
func (r *run) step() {
	if time.Now().Before(r.retryAt) || r.ctx.Err() != nil {
		return
	}
	err := attempt.Guard(r.client, r.work)
	switch {
	case err == nil:
		r.retry.Reset()
		r.retryAt = time.Time{}
	case attempt.Ended(r.client) != nil:
		r.cancel(attempt.Ended(r.client))
	case r.ctx.Err() == nil:
		r.retryAt = time.Now().Add(r.retry.Next())
		r.client.Logger().Warn("the partitions could not be planned, trying again", logPath, r.Path(), "error", err)
	}
}

func (r *run) work() error {
	if !r.recheck.IsZero() && !time.Now().Before(r.recheck) {
		if err := r.findRemoved(); err != nil {
			return err
		}
	}
	if r.taken {
		if err := r.clearName(); err != nil {
			return err
		}
	}
	if !r.weigh.IsZero() && !time.Now().Before(r.weigh) {
		r.weigh, r.weighs = time.Now().Add(LoadPeriod), true
		r.settleThenBalance()
	}
	if !r.expiry.IsZero() && !time.Now().Before(r.expiry) {
		r.urgent, r.expiry = true, time.Time{}
	}
	if !r.isPresent() {
		r.urgent, r.due = false, time.Time{} // this member rejoins when it is there
		return nil
	}
	if !r.due.IsZero() && r.looks == 0 && r.settled == 0 {
		if err := r.look(); err != nil {
			return err
		}
	}
	rebalance := false
	if !r.due.IsZero() && !time.Now().Before(r.due) {
		ready, err := r.isSettled()
		if err != nil {
			return err
		}
		rebalance = ready
	}
	if !r.urgent && !rebalance {
		return nil
	}
	return r.plan(rebalance)
}

// apply hands the share of this member to its pieces.
func (r *run) apply() {
	r.mu.Lock()
	defer r.mu.Unlock()
	wanted, standby := r.rolesLocked()
	for name := range wanted {
		r.pieceLocked(name).wantLocked()
	}
	for name := range standby {
		r.pieceLocked(name)
	}
	for name, p := range r.pieces {
		p.standByLocked(standby[name])
		if !wanted[name] && p.unwantLocked() {
			r.recheck = time.Now()
		}
	}
	r.notifyDrainedLocked()
}

// rolesLocked returns which partitions this member is to have, and for which it stands by.
func (r *run) rolesLocked() (wanted, standby map[string]bool) {
	wanted, standby = make(map[string]bool), make(map[string]bool)
	if r.share == nil {
		return wanted, standby
	}
	mine := wanted
	if !r.present {
		mine = standby // it may get them again, and they stay warm
	}
	for _, name := range r.share.Partitions {
		mine[name] = true
	}
	for _, name := range r.share.Standbys {
		standby[name] = true
	}
	if r.cfg.prepare == nil {
		clear(standby)
	}
	return wanted, standby
}

// pieceLocked returns the piece of a partition, which it starts if there is none.
func (r *run) pieceLocked(name string) *piece {
	p, found := r.pieces[name]
	if !found {
		p = &piece{r: r, name: name, wake: make(chan struct{}, 1)}
		r.pieces[name] = p
		r.others.Go(p.run)
	}
	return p
}

// loadSet returns the set. known is false if there is none at present, which is logged once for each reason.
func (r *run) loadSet() (set []entry, known bool, err error) {
	set, lacking, err := r.names.load(r.ctx, r.client)
	if err != nil {
		return nil, false, err
	}
	reason := ""
	if lacking != nil {
		reason = lacking.Error()
	}
	if lacking != nil && reason != r.lacking {
		r.client.Logger().Error("there is no valid set of partitions, the last one stays in force", logPath, r.names.path(), "error", lacking)
	}
	r.lacking = reason
	return set, lacking == nil, nil
}

// findRemoved ends the pieces that no member will ask for: they are excluded, or the set does not have them.
func (r *run) findRemoved() error {
	var o orders
	err := readAll(r.ctx, r.client, []string{r.at.orders()}, func(_ int, node framework.Node) error {
		o = ordersOf(r.client, r.at, node.Data)
		return nil
	})
	if err != nil {
		return err
	}
	// Orders count whether there is a set or not.
	r.removeUnwanted(func(name string) bool { return slices.Contains(o.Excluded, name) })
	set, known, err := r.loadSet()
	if err != nil {
		return err
	}
	if !known { // the last one is in force, which the plan has
		s, err := readState(r.ctx, r.client, r.at)
		if err != nil {
			return err
		}
		set = entriesOf(s.planned())
	}
	inSet := make(map[string]bool, len(set))
	for _, e := range set {
		inSet[e.name] = true
	}
	mayRemove := r.share == nil || !r.share.Mixed // otherwise other members may have it in their sets
	r.recheck = time.Time{}
	if r.removeUnwanted(func(name string) bool { return mayRemove && !inSet[name] }) {
		r.recheck = time.Now().Add(recheckEvery) // they may be removed before another member asks for them
	}
	return nil
}

// removeUnwanted ends those of the pieces that are held and not wanted. It reports whether others stay.
func (r *run) removeUnwanted(isRemoved func(name string) bool) (others bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, p := range r.pieces {
		switch {
		case p.wanted || !p.holds || p.removed:
		case isRemoved(name):
			p.removeLocked()
		default:
			others = true
		}
	}
	return others
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
	r.others.Wait()
	if err != nil {
		return fmt.Errorf("leave: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, leaveTimeout)
	defer cancel()
	err = attempt.Guard(r.client, func() error { return r.cleanUp(ctx) })
	if err != nil && attempt.Ended(r.client) == nil {
		// The next member that joins finds the plan and uses it.
		r.client.Logger().Warn("the plan of the partitions was left behind", logPath, r.Path(), "error", err)
	}
	return nil
}

// notifyDrainedLocked ends a Drain when this member has no partition any more.
func (r *run) notifyDrainedLocked() {
	if r.announced && len(r.pieces) == 0 && (r.share == nil || len(r.share.Partitions) == 0) && !attempt.IsClosed(r.drained) {
		close(r.drained)
	}
}
