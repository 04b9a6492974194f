package locks

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/gocurator/curator/framework"
)

// queued is one acquisition that has its node in the queue, and what it knows of
// the queue: the names of the last list, less those that have gone since. While
// nobody can come to stand before it (see [ShrinkingQueue]) everybody whom it has to
// wait for is among them. So if the driver lets it in by them, it would by a new list.
type queued struct {
	l         *LockInternals
	shrinking ShrinkingQueue // the driver, nil if it is none
	session   *framework.Session
	node      LockNode
	name      string
	self      *member
	seen      *acquisition
	max       maximum

	names      []string           // nil: to be listed
	companions map[string]*member // those among the names who tell us themselves when they let go
	passed     bool               // somebody who has gone was not the first: those before may have gone unnoticed

	awaited map[string]*awaited // nil before the first wait, as is wake
	wake    chan struct{}
	own     *framework.Watch // on node: tells of its deletion; nil while there is none
	ownDue  time.Time        // when there is to be one
	data    []byte           // of node, as read with own
	folder  *framework.Watch // on the list of names, if the driver waits for that; may be nil
}

func (l *LockInternals) newQueued(session *framework.Session, node LockNode, seen *acquisition) *queued {
	q := &queued{l: l, session: session, node: node, self: l.join(node.Path), seen: seen, ownDue: time.Now().Add(ownDelay)}
	_, q.name = framework.SplitPath(node.Path)
	q.shrinking, _ = l.driver.(ShrinkingQueue)
	if node.Children != nil {
		q.learn(node.Children)
	}
	return q
}

// close ends all waiting. The watch on our own node is left to who comes next.
func (q *queued) close() {
	q.settle(nil)
	q.folder.Cancel()
}

// learn takes over a list of names. Where the queue shrinks those behind ours play no part.
func (q *queued) learn(children []string) {
	contends := q.l.driver.Contends
	if q.shrinking != nil {
		contends = func(name string) bool { return q.l.driver.Contends(name) && q.l.driver.Compare(name, q.name) <= 0 }
	}
	q.names = q.l.sorted(children, contends)
	q.companions, q.passed = nil, false
	// A maximum that may change is to be heard of first: what the server tells comes in order.
	if _, fixed := q.l.maxLeases.(FixedLeases); fixed && q.shrinking != nil {
		q.companions = q.self.companions(q.names)
		maps.DeleteFunc(q.companions, func(name string, _ *member) bool { return name == q.name || !q.hearsOf(name) })
	}
}

// hearsOf tells whether the word of a companion that it has let go proves that its
// place is free: where the driver says so, and among writers, of which those whose place
// a reader may have taken are marked as replaced.
func (q *queued) hearsOf(name string) bool {
	_, marked := q.l.driver.(writeDriver)
	return marked || q.shrinking.Shrinks(name)
}

// list returns the names in the folder.
func (q *queued) list(ctx context.Context, opts ...framework.ChildrenOption) ([]string, error) {
	children, err := q.l.client.Children(ctx, q.l.path, opts...)
	if errors.Is(err, framework.ErrNoNode) {
		return nil, fmt.Errorf("%w: %w", errOwnNodeGone, err)
	}
	return children, err
}

// look asks the driver about what is known, and about a new list if there is none or
// if it may let us in by a new one only.
func (q *queued) look(ctx context.Context) (PredicateResults, error) {
	if err := q.heedOwn(); err != nil {
		return PredicateResults{}, err
	}
	if q.names != nil {
		result, err := q.decide(ctx)
		if err != nil || result.GetsTheLock || !q.passed {
			return result, err
		}
	}
	children, err := q.list(ctx)
	if err != nil {
		return PredicateResults{}, err
	}
	q.learn(children)
	result, err := q.decide(ctx)
	q.passed = false
	return result, err
}

// decide asks the driver about what is known.
func (q *queued) decide(ctx context.Context) (PredicateResults, error) {
	// After the list, in which others leave but nobody gets before ours: it is an
	// answer as of this moment. A change of either is a reason to look again.
	if err := q.max.read(ctx, q.l); err != nil {
		return PredicateResults{}, err
	}
	if err := q.session.Err(); err != nil {
		return PredicateResults{}, fmt.Errorf("%w: %w", errOwnNodeGone, err)
	}
	q.dropCompanions()
	result, err := q.l.driver.GetsTheLock(q.names, q.name, q.max.n)
	if errors.Is(err, framework.ErrNoNode) {
		return PredicateResults{}, fmt.Errorf("%w: %w", errOwnNodeGone, err)
	}
	if err == nil && !result.GetsTheLock {
		q.seen.queued(ctx, q.names, q.name)
	}
	return result, err
}

// dropCompanions takes those out who have let go. Their nodes may still be there: but
// whoever waits for one of them waits for ours too, or stands before it.
func (q *queued) dropCompanions() {
	if len(q.companions) == 0 {
		return
	}
	kept := 0
	q.names = slices.DeleteFunc(q.names, func(name string) bool {
		if other := q.companions[name]; other == nil || !other.hasLetGo() {
			kept++
			return false
		}
		delete(q.companions, name)
		q.passed = q.passed || kept > 0
		return true
	})
}

// gone takes a name out whose node is not there any more.
func (q *queued) gone(name string) {
	q.awaited[name].cancel()
	delete(q.awaited, name)
	i := slices.Index(q.names, name)
	switch {
	case q.shrinking == nil || !q.shrinking.Shrinks(name):
		q.names = nil
	case i >= 0:
		q.names = slices.Delete(q.names, i, i+1)
		q.passed = q.passed || i > 0
	}
}
