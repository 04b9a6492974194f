package locks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gocurator/curator/framework"
)

// queued is one acquisition that has its node in the queue. What it knows of the queue
// it shares with the other acquisitions of the client, see [folder].
type queued struct {
	l         *LockInternals
	shrinking ShrinkingQueue // the driver, nil if it is none
	session   *framework.Session
	node      LockNode
	name      string
	self      *member
	folder    *folder
	seen      *acquisition
	max       maximum

	number uint64    // what is known counts if it is from this list or a newer one
	began  time.Time // to wait; zero before the first wait

	suspended bool // an interruption was told to the telemetry
	behind    bool // others, when the driver was last asked

	awaited map[string]*awaited // nil before the first wait, as is wake
	wake    chan struct{}
	own     *framework.Watch // on node: tells of its deletion; nil while there is none
	ownDue  time.Time        // when there is to be one
	data    []byte           // of node, as read with own
	changes *framework.Watch // on the list of names, if the driver waits for that; may be nil
}

// newQueued returns the acquisition of a node that was created, maybe with a list.
func (l *LockInternals) newQueued(
	session *framework.Session, node LockNode, seen *acquisition, self *member, list *listing,
) *queued {
	q := &queued{
		l: l, session: session, node: node, self: self, folder: self.folder, name: self.name, seen: seen,
		ownDue: time.Now().Add(ownDelay),
	}
	q.shrinking, _ = l.driver.(ShrinkingQueue)
	if node.Children != nil {
		q.folder.learn(list, node.Children)
		q.number = list.number
		q.node.Children = nil // or each waiter would keep a list of all names
		// A list that was begun later may have been sent before the node was created.
		if contenders, known := q.known(); known && !slices.Contains(contenders, q.name) {
			q.demand()
		}
	} else {
		q.demand()
	}
	return q
}

// close ends all waiting. The watch on our own node is left to the hold.
func (q *queued) close() {
	q.settle(nil)
	q.changes.Cancel()
}

// demand has what is known replaced by a list that is newer than this moment.
func (q *queued) demand() { q.number = q.folder.question() }

// known returns the contenders that the driver is asked about, or false if they have to
// be listed: those up to ours where the queue shrinks, and all of them otherwise.
func (q *queued) known() ([]string, bool) {
	contenders, known := q.folder.queue(q.l, q.number)
	if known && q.shrinking != nil {
		i, found := slices.BinarySearchFunc(contenders, q.name, q.l.driver.Compare)
		if found {
			i++
		}
		contenders = contenders[:i:i]
	}
	return contenders, known
}

// look asks the driver about what is known, and about a new list if there is none or
// if a new one may know better.
func (q *queued) look(ctx context.Context) (PredicateResults, []string, error) {
	for listed := false; ; listed = true {
		if contenders, known := q.known(); known {
			result, err := q.decide(ctx, contenders)
			if err != nil || result.GetsTheLock || listed || !q.isOutdated(result) {
				return result, contenders, err
			}
			q.demand()
		}
		if err := q.folder.list(ctx, q.l, q.number); err != nil {
			return PredicateResults{}, nil, err
		}
	}
}

// isOutdated reports whether those to wait for may have gone unnoticed. An acquisition of
// this process would have said so.
func (q *queued) isOutdated(result PredicateResults) bool {
	if q.shrinking == nil || !q.folder.isStale(q.order()) {
		return false
	}
	for _, name := range result.PathsToWatch {
		if q.companion(name) == nil {
			return true
		}
	}
	return false
}

func (q *queued) order() *order { return q.folder.orderOf(q.l) }

// companion returns the acquisition of this process with that name if its word that it
// has let go is enough.
func (q *queued) companion(name string) *member {
	if q.shrinking == nil {
		return nil
	}
	m := q.folder.member(name)
	if m == nil || m == q.self || m.unproven.Load() || !q.order().hears(name) {
		return nil
	}
	return m
}

// decide asks the driver, and does not believe everything.
func (q *queued) decide(ctx context.Context, contenders []string) (PredicateResults, error) {
	// After the list, in which others leave but nobody gets before ours: it is an
	// answer as of this moment. A change of either is a reason to look again.
	if err := q.max.read(ctx, q.l); err != nil {
		return PredicateResults{}, err
	}
	if err := q.session.Err(); err != nil {
		return PredicateResults{}, nodeGone(err)
	}
	// After the contenders: whoever took one out of them knew of the end of ours before.
	if err := q.heedOwn(); err != nil {
		return PredicateResults{}, err
	}
	result, err := q.l.driver.GetsTheLock(contenders, q.name, q.max.n)
	if errors.Is(err, framework.ErrNoNode) {
		return PredicateResults{}, nodeGone(err)
	}
	if err != nil {
		return PredicateResults{}, err
	}
	if err := q.check(result, contenders); err != nil {
		return PredicateResults{}, fmt.Errorf("driver %T: %w", q.l.driver, err)
	}
	if q.behind = !result.GetsTheLock; q.behind {
		q.seen.queued(ctx, contenders, q.name)
	}
	return result, nil
}

// check returns an error if the decision of a driver cannot be right.
func (q *queued) check(result PredicateResults, contenders []string) error {
	if result.GetsTheLock {
		return q.checkHolders(contenders)
	}
	for i, name := range result.PathsToWatch {
		switch {
		case name == q.name:
			return fmt.Errorf("%s has to wait for itself, expected others", name)
		case slices.Contains(result.PathsToWatch[:i], name):
			return fmt.Errorf("%s has to wait for %s twice, expected names that differ", q.name, name)
		case !slices.Contains(contenders, name):
			return fmt.Errorf("%s has to wait for %q, expected one of the contenders", q.name, name)
		}
	}
	return nil
}

// checkHolders returns an error if the driver lets ours in before an acquisition of this
// process that holds the lock, and would not let that one in any more.
func (q *queued) checkHolders(contenders []string) error {
	if o, ok := q.l.driver.(OvertakingQueue); ok && o.Overtakes() {
		return nil
	}
	i := slices.Index(contenders, q.name)
	for _, name := range contenders[i+1:] {
		m := q.folder.member(name)
		if m == nil || !m.granted.isSet() || m.over.Err() != nil {
			continue
		}
		result, err := q.l.driver.GetsTheLock(contenders, name, q.max.n)
		if err != nil || !result.GetsTheLock {
			return fmt.Errorf("%s is let in before %s, which holds the lock: expected the queue to let in those first that stood there first",
				q.name, name)
		}
	}
	return nil
}

// gone takes a contender out whose node is not there any more.
func (q *queued) gone(name string) {
	q.awaited[name].cancel()
	delete(q.awaited, name)
	if q.shrinking == nil || !q.shrinking.Shrinks(name) {
		q.demand()
		return
	}
	q.folder.remove(q.order(), name)
}

// refusal is the error of an acquisition that others are before, nil for a context that
// has not ended.
func (q *queued) refusal(cause error) error {
	contenders := q.folder.lastKnown(q.l)
	if i := slices.Index(contenders, q.name); i >= 0 {
		contenders = contenders[:i]
	}
	return q.l.notAcquired(q.folder, contenders, cause)
}

func nodeGone(err error) error { return fmt.Errorf("%w: %w", errOwnNodeGone, err) }
