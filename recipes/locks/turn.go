// SPDX-License-Identifier: Apache-2.0

package locks

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gocurator/curator/framework"
)

// close cancels the watches, except the one on our own node, which the hold takes over.
func (a *acquisition) close() {
	a.awaitOnly(nil)
	a.changes.Cancel()
}

// requireNewList makes the next look use a list that is sent after this moment.
func (a *acquisition) requireNewList() { a.outdated = true }

// known returns the contenders up to ours, or false if they must be listed first.
func (a *acquisition) known() ([]string, bool) {
	// Over another connection the watches that would report changes are gone.
	link := linkOf(a.l.client)
	if a.outdated || link.Err() != nil || !a.l.line.Seen(link) {
		return nil, false
	}
	return a.before()
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
	// A list that was sent after our node was created shows it, if it exists.
	if _, known := a.place.Before(); fresh && !known {
		return errOwnNodeGone
	}
	return nil
}

// look asks the driver, and returns its decision with the contenders that it is about: those up to
// ours, of a queue that shrinks. While an acquisition of this process keeps ours out, ours waits for
// that one and needs no list.
func (a *acquisition) look(ctx context.Context) (PredicateResults, []string, error) {
	if a.shrinking == nil {
		return a.lookAtAll(ctx)
	}
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
		// The first list may have been sent before our node was created.
		if err := a.list(ctx, lists > 0 || a.outdated); err != nil {
			return PredicateResults{}, nil, err
		}
	}
}

// lookAtAll asks about all contenders, of a queue in which newcomers may stand before others.
func (a *acquisition) lookAtAll(ctx context.Context) (PredicateResults, []string, error) {
	for {
		// Over another connection the watches that would report changes are gone.
		if a.outdated || a.listed == nil || a.link.Err() != nil || a.link != linkOf(a.l.client) {
			if err := a.list(ctx, true); err != nil {
				return PredicateResults{}, nil, err
			}
		}
		result, err := a.decide(ctx, a.listed)
		if errors.Is(err, errOlderThanAHold) {
			a.requireNewList()
		} else if err != nil || !a.outdated {
			return result, a.listed, err
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
