// SPDX-License-Identifier: Apache-2.0

package locks

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/internal/attempt"
	"github.com/gocurator/curator/recipes/locks/internal/heldnode"
)

// internalLockLoop looks and waits until the node has the lock.
func (a *acquisition) internalLockLoop(ctx context.Context) (*hold, error) {
	if err := a.checkOwner(); err != nil {
		return nil, err
	}
	if _, fixed := a.l.maxLeases.(FixedLeases); !fixed {
		var done context.CancelFunc
		ctx, done = context.WithCancel(ctx) // of the watch on the maximum
		defer done()
	}
	defer a.close()
	for {
		h, err := a.step(ctx)
		switch {
		case h != nil:
			return h, nil
		case err == nil:
		case ctx.Err() != nil && a.behind:
			return nil, a.refusal(ended(ctx))
		case !a.began.IsZero() && !startsAgain(err) && framework.Retryable(err):
			// The node keeps its place. Look again when there is a connection.
			a.requireNewList()
			attempt.Sleep(ctx, ownDelay)
			if err := a.l.client.BlockUntilConnected(ctx); err != nil && ctx.Err() == nil {
				return nil, err
			}
		default:
			return nil, err
		}
	}
}

// checkOwner returns an error if the driver has created the node of another session, which would
// outlive ours or vanish before it (CURATOR-604), or one that is not ephemeral.
func (a *acquisition) checkOwner() error {
	owner := a.node.Stat.EphemeralOwner
	if owner == a.session.ID() {
		return nil
	}
	if err := a.session.Err(); err != nil { // the driver has created it in the session after ours
		return nodeGone(err)
	}
	return fmt.Errorf("driver %T: the node %s has owner 0x%x, must be ephemeral, of the given session, 0x%x",
		a.driver, a.node.Path, uint64(owner), uint64(a.session.ID()))
}

// step looks once, and then takes the lock or waits for a reason to look again. It returns
// no hold and no error when it has waited.
func (a *acquisition) step(ctx context.Context) (*hold, error) {
	result, contenders, err := a.look(ctx)
	switch {
	case err != nil:
		return nil, err
	case result.GetsTheLock && a.far: // all before it have left at once
		a.far = false
		return nil, a.watch(ctx, nil) // our own node, if it is due; then look again
	case result.GetsTheLock:
		if ready, err := a.mark(ctx); !ready {
			return nil, err // after a delay, look again
		}
		h, err := a.grant(ctx)
		if h == nil && err == nil {
			// The connection was lost after the look. Look again over the next one.
			a.interrupted()
			a.requireNewList()
		}
		return h, err
	case !a.wait:
		return nil, a.refusal(nil)
	default:
		return nil, a.await(ctx, contenders, result.PathsToWatch)
	}
}

// grant makes the hold. It returns nil when the error policy would have ended the hold
// already. Under QuorumErrorPolicy the first hold of a session takes a round trip.
func (a *acquisition) grant(ctx context.Context) (*hold, error) {
	held, release, err := a.session.Hold(ctx, a.l.cfg.policy)
	if err != nil {
		return nil, err
	}
	// In a process that was paused the clock knows before the context does.
	if held.Err() != nil || !time.Now().Before(a.session.HoldDeadline(a.l.cfg.policy)) {
		release()
		return nil, nil //nolint:nilerr // the caller looks again
	}
	a.self.holds()
	return a.newHold(held, release), nil
}

// newHold returns the hold of the node. endUse ends its use of the session.
func (a *acquisition) newHold(parent context.Context, endUse func()) *hold {
	h := &hold{
		l: a.l, session: a.session, parent: parent, endUse: endUse, token: a.node.token(), self: a.self, row: 1, marked: a.marked,
		node: heldnode.Node{Client: a.l.client, Path: a.node.Path, Czxid: a.node.Stat.Czxid, Own: a.own, Due: time.Now().Add(holdDelay)},
	}
	h.grantedTo(a.span)
	h.begin()
	if a.own != nil {
		h.noteRequest(a.data)
	}
	h.node.Start()
	return h
}

// refusal returns the error of an acquisition that stands behind others. The cause is the
// end of its context, nil for a try.
func (a *acquisition) refusal(cause error) error {
	ahead := a.listed
	if a.shrinking != nil {
		ahead, _ = a.before()
	}
	if i := slices.Index(ahead, a.name); i >= 0 {
		ahead = ahead[:i]
	}
	if len(ahead) == 0 {
		ahead = slices.Collect(maps.Keys(a.awaited))
	}
	return a.l.notAcquired(ahead, cause)
}

// close cancels the watches, except the one on our own node, which the hold takes over.
func (a *acquisition) close() {
	a.awaitOnly(nil)
	a.changes.Cancel()
}

// requireNewList makes the next look use a list that is sent after this moment.
func (a *acquisition) requireNewList() { a.outdated = true }

// known returns the contenders for a decision, or false if they must be listed first.
func (a *acquisition) known() ([]string, bool) {
	// Over another connection the watches that would report changes are gone.
	link := linkOf(a.l.client)
	switch {
	case a.outdated || link.Err() != nil:
		return nil, false
	case a.shrinking == nil:
		return a.listed, a.listed != nil && a.link == link
	case !a.l.line.Seen(link):
		return nil, false
	default:
		return a.before()
	}
}

// before returns the contenders up to ours, without those that have left. It reports false if
// some may be unknown.
func (a *acquisition) before() ([]string, bool) {
	contenders, known := a.place.Before()
	if len(a.departed) > 0 {
		contenders = slices.DeleteFunc(slices.Clone(contenders), func(name string) bool { return slices.Contains(a.departed, name) })
	}
	return contenders, known
}

// list lists the folder, or shares a list that is under way. A fresh one is sent after this
// moment.
func (a *acquisition) list(ctx context.Context, fresh bool) error {
	before := a.l.instant()
	contenders, err := a.l.line.List(ctx, fresh, lister{a.l})
	if errors.Is(err, framework.ErrNoNode) {
		return nodeGone(err)
	}
	if err != nil {
		return err
	}
	if fresh {
		a.outdated, a.grants = false, before.grants
	}
	if a.shrinking == nil {
		a.listed, a.link = contenders, before.link
		return nil
	}
	if !fresh {
		return nil
	}
	// A list that was sent after our node was created shows it, if it exists.
	if _, known := a.place.Before(); !known {
		return errOwnNodeGone
	}
	a.shown = time.Now()
	return nil
}

// look asks the driver, and returns its decision with the contenders that it is about: those up to
// ours, of a queue that shrinks. While an acquisition of this process keeps ours out, ours waits for
// that one and needs no list.
func (a *acquisition) look(ctx context.Context) (PredicateResults, []string, error) {
	for lists := 0; ; lists++ {
		var result PredicateResults
		var err error
		contenders, known := a.known()
		if known {
			result, err = a.decide(ctx, contenders)
		} else if lists == 0 {
			err = a.checkOwnNode(ctx)
		}
		switch {
		case errors.Is(err, errOlderThanAHold): // whose acquirer has seen a newer list
			a.requireNewList()
		case err != nil:
			return PredicateResults{}, nil, err
		case known && a.outdated, !known && lists > 0: // the connection was lost
		case known && (result.GetsTheLock || !a.waitsForAnotherClient(result)):
			return result, contenders, nil
		default:
			if own := a.ownAhead(); own != "" {
				if !known {
					contenders, a.behind = []string{own, a.name}, true
					a.span.Waits() // at a position that is not known yet
				}
				return PredicateResults{PathsToWatch: []string{own}}, contenders, nil
			}
			if known && (lists > 0 || !a.isOutdated()) {
				return result, contenders, nil
			}
			a.outdated = a.outdated || known
		}
		// Of a queue that shrinks, a list may do that was sent before our node was created.
		if err := a.list(ctx, lists > 0 || a.outdated || a.shrinking == nil); err != nil {
			return PredicateResults{}, nil, err
		}
	}
}

// waitsForAnotherClient reports whether the driver waits for a contender of another process.
// Acquisitions of this process always report that they leave.
func (a *acquisition) waitsForAnotherClient(result PredicateResults) bool {
	return slices.ContainsFunc(result.PathsToWatch, func(name string) bool { return a.companion(name) == nil })
}

// ownAhead returns the nearest acquisition of this process that stands before ours, if it
// alone keeps ours out and will report that it leaves, or "". Drivers of other packages are
// not asked about a part of the queue, and the departure of a contender whose place may be
// taken says too little.
func (a *acquisition) ownAhead() string {
	if _, ok := a.driver.(numberingDriver); !ok || marks(a.driver) {
		return ""
	}
	p := a.l.line.Previous(a.name)
	for p != nil && !a.willReport(p.Name()) {
		p = a.l.line.Previous(p.Name())
	}
	if p == nil {
		return ""
	}
	// As the queue shrinks, a contender that keeps ours out alone does so among others.
	result, err := a.driver.GetsTheLock([]string{p.Name(), a.name}, a.name, a.max.n)
	if err != nil || result.GetsTheLock {
		return ""
	}
	return p.Name()
}

// willReport reports whether the name is an acquisition of this process that will report
// that it leaves.
func (a *acquisition) willReport(name string) bool {
	m := a.companion(name)
	return m != nil && !m.place.Over()
}

// isOutdated reports whether a contender ahead may have left unnoticed.
func (a *acquisition) isOutdated() bool {
	return slices.ContainsFunc(a.l.line.Unsure(), func(name string) bool {
		return a.awaited[name] == nil && a.driver.Compare(name, a.name) < 0
	})
}

// companion returns the acquisition of this process with that name, or nil. It returns nil
// too when an in-process release of that acquisition would not prove that its place is free.
func (a *acquisition) companion(name string) *member {
	m := ownerOf(a.l.line.Place(name))
	if m == nil || m == a.self || m.unproven.Load() || !a.l.localReleaseProves(a.driver, name) {
		return nil
	}
	return m
}

// checkOwnNode reads the maximum, and returns an error if our node is known to be gone. It is called
// after the contenders were read.
func (a *acquisition) checkOwnNode(ctx context.Context) error {
	// The maximum is read after the list. Since then contenders may have left, but none
	// has come before ours, so both together are an answer as of this moment.
	if err := a.max.read(ctx, a.l.maxLeases, a.wants); err != nil {
		return err
	}
	if err := a.session.Err(); err != nil {
		return nodeGone(err)
	}
	// If another goroutine has removed a contender for its deletion, an earlier deletion of
	// our node has been delivered by now.
	return a.checkOwnWatch()
}

// decide asks the driver and checks its answer.
func (a *acquisition) decide(ctx context.Context, contenders []string) (PredicateResults, error) {
	if err := a.checkOwnNode(ctx); err != nil {
		return PredicateResults{}, err
	}
	result, err := a.driver.GetsTheLock(contenders, a.name, a.max.n)
	if errors.Is(err, framework.ErrNoNode) {
		return PredicateResults{}, nodeGone(err)
	}
	if err != nil {
		return PredicateResults{}, err
	}
	if err := a.check(result, contenders); err != nil {
		return PredicateResults{}, fmt.Errorf("driver %T: %w", a.driver, err)
	}
	if a.behind = !result.GetsTheLock; a.behind {
		a.noteQueued(slices.Index(contenders, a.name))
	}
	return result, nil
}

// noteQueued tells the span and the listener at which position ours is about to wait, if that has
// changed. The acquisition has learned it anyway.
func (a *acquisition) noteQueued(position int) {
	if a.told == position+1 {
		return
	}
	a.told = position + 1
	a.span.Queued(position)
	if a.wait && a.l.queued != nil {
		a.l.queued.Notify(queuePlace{a.node.Path, position})
	}
}

// check returns an error if a decision of the driver cannot be right.
func (a *acquisition) check(result PredicateResults, contenders []string) error {
	if !result.GetsTheLock {
		return checkNames(contenders, a.name, result.PathsToWatch)
	}
	// A maximum that was lowered takes no lease away, so a holder may be beyond it.
	if _, fixed := a.l.maxLeases.(FixedLeases); !fixed {
		return nil
	}
	var newer bool
	err := checkHolders(a.driver, contenders, a.name, a.max.n, func(name string) bool {
		m := holderOf(a.l.nodeKey(name))
		newer = m != nil && m.grant.Load() > a.grants
		return m != nil
	})
	if err != nil && newer {
		return errOlderThanAHold
	}
	return err
}

// errOlderThanAHold is the error of a decision that contradicts a hold of this process, but
// by a list that began before the hold. Contenders may have left in between, so that both
// may have the lock: only a newer list tells.
var errOlderThanAHold = errors.New("locks: the list is older than a hold")
