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

// known returns the contenders to ask the driver about, or false if they must be listed
// first. For a shrinking queue these are the contenders up to ours, otherwise all.
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

// look asks the driver about the contenders that are known, and lists them first if none
// are. It returns the decision with the contenders that it is about.
func (a *acquisition) look(ctx context.Context) (PredicateResults, []string, error) {
	for lists := 0; ; lists++ {
		contenders, known := a.known()
		var result PredicateResults
		var decided bool
		var err error
		switch {
		case known:
			result, decided, err = a.lookAt(ctx, contenders, lists > 0)
		case lists == 0:
			result, contenders, decided, err = a.lookAtOwn(ctx)
		}
		if decided || err != nil {
			return result, contenders, err
		}
		// The first list may have been sent before our node was created.
		if err := a.list(ctx, lists > 0 || a.outdated || a.shrinking == nil); err != nil {
			return PredicateResults{}, nil, err
		}
	}
}

// lookAt asks the driver about contenders. It decides nothing, and demands a new list, if
// that could change the answer. While an acquisition of this process stands between, it
// waits for that one and needs no list.
func (a *acquisition) lookAt(ctx context.Context, contenders []string, listed bool) (result PredicateResults, decided bool, err error) {
	result, err = a.decide(ctx, contenders)
	switch {
	case errors.Is(err, errOlderThanAHold): // whose acquirer has seen a newer list
		a.requireNewList()
		return result, false, nil
	case err == nil && a.outdated: // the connection was lost
		return result, false, nil
	case err != nil || result.GetsTheLock || !a.waitsForAnotherClient(result):
		return result, true, err
	}
	if own := a.ownAhead(); own != "" {
		return PredicateResults{PathsToWatch: []string{own}}, true, nil
	}
	if !listed && a.isOutdated() {
		a.requireNewList()
		return result, false, nil
	}
	return result, true, nil
}

// lookAtOwn waits for an acquisition of this process, before any contender is known. It
// decides nothing if none stands before ours.
func (a *acquisition) lookAtOwn(ctx context.Context) (result PredicateResults, contenders []string, decided bool, err error) {
	if err := a.checkOwnNode(ctx); err != nil {
		return PredicateResults{}, nil, false, err
	}
	own := a.ownAhead()
	if own == "" {
		return PredicateResults{}, nil, false, nil
	}
	a.behind = true
	a.span.Waits() // at a position that is not known yet
	return PredicateResults{PathsToWatch: []string{own}}, []string{own, a.name}, true, nil
}

// waitsForAnotherClient reports whether the driver waits for a contender of another process.
// Acquisitions of this process always report that they leave.
func (a *acquisition) waitsForAnotherClient(result PredicateResults) bool {
	return a.shrinking == nil || slices.ContainsFunc(result.PathsToWatch, func(name string) bool { return a.companion(name) == nil })
}

// ownAhead returns the nearest acquisition of this process that stands before ours, if it
// alone keeps ours out and will report that it leaves, or "". Drivers of other packages are
// not asked about a part of the queue, and the departure of a contender whose place may be
// taken says too little.
func (a *acquisition) ownAhead() string {
	if _, ok := a.driver.(numberingDriver); !ok || a.shrinking == nil || marks(a.driver) {
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
	if a.shrinking == nil {
		return false
	}
	return slices.ContainsFunc(a.l.line.Unsure(), func(name string) bool {
		return a.awaited[name] == nil && a.driver.Compare(name, a.name) < 0
	})
}

// companion returns the acquisition of this process with that name, or nil. It returns nil
// too when an in-process release of that acquisition would not prove that its place is free.
func (a *acquisition) companion(name string) *member {
	if a.shrinking == nil {
		return nil
	}
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
		a.span.Queued(contenders, a.name)
	}
	return result, nil
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
