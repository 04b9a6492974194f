package locks

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/internal/attempt"
	"github.com/gocurator/curator/recipes/locks/internal/line"
	"github.com/gocurator/curator/retry"
)

// acquisition is one call to acquire whose node stands in the queue. What it knows about
// the queue it shares with the other acquisitions of the client; see package line.
type acquisition struct {
	entry

	l         *LockInternals
	shrinking ShrinkingQueue // the driver, or nil if it makes no such promise
	session   *framework.Session
	node      LockNode
	name      string
	self      *member
	place     *line.Place
	max       maximum

	outdated bool            // what is known must not be used: list first
	listed   []string        // the contenders by the last list, if the queue does not shrink; nil before
	grants   uint64          // of this process, before the last list was sent
	link     context.Context // the connection over which the place is known; see linkOf

	began time.Time // when the first wait began; zero before

	suspended bool // the span has recorded an interruption
	behind    bool // the driver's last answer was to wait

	awaited map[string]*predecessor // nil before the first wait, as is wake
	asked   uint64                  // how often awaited was brought up to date
	wake    chan struct{}
	own     *framework.Watch // on node; nil until it is set
	ownDue  time.Time        // when to set own
	data    []byte           // of node, read together with setting own
	changes *framework.Watch // on the folder, for drivers that wait for any change; may be nil
}

// enter joins the queue and returns when it has the lock. When its node or its session is
// gone it joins again: within the retry policy, and without limit once a node of it has
// waited, so that only the context ends a wait.
func (l *LockInternals) enter(ctx context.Context, e entry) (*hold, error) {
	var rejoins rejoining
	for {
		if ctx.Err() != nil {
			return nil, l.overtaken(ctx, e, withCause(ctx, rejoins.after))
		}
		h, a, err := l.enterByPolicy(ctx, e)
		switch {
		case err == nil:
			return h, nil
		case ctx.Err() != nil:
			return nil, l.overtaken(ctx, e, err)
		case !rejoins.allow(a.waitedSince(), err):
			return nil, err
		}
		attempt.Sleep(ctx, rejoins.pause(a.waitedSince()))
	}
}

// rejoining is what a caller that waits remembers of its attempts.
type rejoining struct {
	queued   bool  // an attempt has stood in the queue
	after    error // of the last attempt; nil before the first
	failures attempt.Pause
}

// allow reports whether another attempt follows one that has failed with this error, and has
// waited in the queue since then, or not at all if that is zero.
func (r *rejoining) allow(since time.Time, err error) bool {
	r.queued = r.queued || !since.IsZero()
	r.after = err
	return r.queued && outlasted(err)
}

// maxRejoinPause bounds the pause after an attempt that could not queue, as at a server without
// a quorum. It is how much later than the others a waiter may queue again.
const maxRejoinPause = time.Second

// pause returns the pause before the next attempt.
func (r *rejoining) pause(since time.Time) time.Duration {
	if since.IsZero() {
		return min(r.failures.Next(), maxRejoinPause)
	}
	r.failures.Reset()
	// A node that was deleted right after its creation is not created again at once:
	// whatever deletes it would spin with us.
	return time.Until(since.Add(ownDelay))
}

// outlasted reports whether a wait outlasts the error: its place in the queue is gone, or there
// is an outage.
func outlasted(err error) bool {
	return startsAgain(err) || errors.Is(err, errTurnLost) || framework.Retryable(err) || errors.Is(err, framework.ErrNotReadOnly)
}

// withCause returns why the context has ended, with the last error, if there was one.
func withCause(ctx context.Context, last error) error {
	if last == nil {
		return context.Cause(ctx)
	}
	return fmt.Errorf("%w; last error: %w", context.Cause(ctx), last)
}

// enterByPolicy makes attempts within the retry policy, until one gets a hold, has waited, or
// fails for another reason than the loss of its node. It does what retry.Do would do, and
// allocates nothing: nearly every acquisition needs one attempt.
func (l *LockInternals) enterByPolicy(ctx context.Context, e entry) (h *hold, a *acquisition, err error) {
	run := retry.Begin(l.client.RetryPolicy())
	for {
		h, a, err = l.enterOnce(ctx, e)
		// The requests of an attempt that fails otherwise have been repeated already.
		if !startsAgain(err) || a.hasWaited() || !pauseAgain(ctx, &run, err) {
			break
		}
	}
	if startsAgain(err) && ctx.Err() != nil {
		err = withCause(ctx, err)
	}
	run.Done(err)
	return h, a, err
}

// pauseAgain waits as the policy says. It reports whether another attempt may follow.
func pauseAgain(ctx context.Context, run *retry.Run, err error) bool {
	if ctx.Err() != nil || !run.AllowRetry(err, true) {
		return false
	}
	wait, allowed := run.Next(err)
	if allowed {
		attempt.Sleep(ctx, wait)
	}
	return allowed && ctx.Err() == nil
}

func startsAgain(err error) bool {
	return errors.Is(err, errOwnNodeGone) || errors.Is(err, ErrSequenceExhausted)
}

// waitedSince returns when the acquisition began to wait behind others, zero if it has not.
func (a *acquisition) waitedSince() time.Time {
	if a == nil {
		return time.Time{}
	}
	return a.began
}

func (a *acquisition) hasWaited() bool { return !a.waitedSince().IsZero() }

// enterOnce creates one node and takes it through the queue. If it fails in any way, it
// deletes the node. It returns the acquisition that had the node, if any.
func (l *LockInternals) enterOnce(ctx context.Context, e entry) (*hold, *acquisition, error) {
	defer l.line.Enter()()
	var t *line.Try
	defer func() { l.line.Withdraw(t) }() // if it has not become an acquisition
	var err error
	if e.wait {
		err = l.client.BlockUntilConnected(ctx)
	} else {
		t, err = l.lookFirst(ctx, e.driver)
	}
	if err != nil {
		return nil, nil, err
	}
	session := l.client.Session()
	before := l.moment()
	node, err := l.create(ctx, session, e)
	if err != nil {
		// The session has ended between the look at it and the create.
		if errors.Is(err, framework.ErrSessionEnded) {
			err = nodeGone(err)
		}
		return nil, nil, err
	}
	a := l.newAcquisition(session, node, e, before)
	returned := false
	defer func() {
		if !returned { // the driver has panicked: the node must not stand in the way of others
			_ = a.leave(ctx, nil) // the panic is the error
		}
	}()
	a.join(before)
	l.line.Withdraw(t)
	h, err := a.internalLockLoop(ctx)
	returned = true
	if !e.wait {
		l.noteTry(err)
	}
	if err != nil {
		return nil, a, a.leave(ctx, err)
	}
	return h, a, nil
}

// crowd is the number of acquisitions of this client in one queue from which on a newcomer
// does not list the folder with its create: it will wait for one of them in any case. One
// that waits counts as two.
const crowd = 32

// create has the driver create the node. The driver may list the folder in the same round trip.
func (l *LockInternals) create(ctx context.Context, session *framework.Session, e entry) (LockNode, error) {
	driver, ok := e.driver.(newcomerDriver)
	if ok && driver.standsLast() && (l.line.Alone() || e.wait && l.line.Crowd() >= crowd) {
		return driver.createsWithoutList(ctx, l.client, session, l.basePath, l.cfg.data)
	}
	return e.driver.CreatesTheLock(ctx, l.client, session, l.basePath, l.cfg.data)
}

// newAcquisition returns the acquisition of a new node.
func (l *LockInternals) newAcquisition(session *framework.Session, node LockNode, e entry, before instant) *acquisition {
	_, name := framework.SplitPath(node.Path)
	place := l.line.NewPlace(name)
	self := &member{place: place, session: session, proves: l.hears(l.driver, name)}
	place.Owner, place.Data = self, string(l.cfg.data)
	a := &acquisition{
		l: l, session: session, node: node, self: self, name: name, entry: e, ownDue: time.Now().Add(ownDelay),
		grants: before.grants, link: before.link, place: place,
	}
	a.shrinking, _ = e.driver.(ShrinkingQueue)
	return a
}

// join takes a place in the line.
func (a *acquisition) join(before instant) {
	_, numbered := a.driver.(newcomerDriver)
	a.place.Join(line.Node{
		Czxid: a.node.Stat.Czxid, History: a.l.unchanged(before), Moved: numbered && !standsLast(a.driver),
		List: a.node.Children, Link: before.link,
	})
	if a.shrinking == nil && a.node.Children != nil {
		a.listed = a.l.sorted(a.node.Children)
	}
	a.node.Children = nil // or each waiter would keep a list of all names in memory
}

// instant is what to know about the moment before a request, to judge its answer.
type instant struct {
	history int64
	link    context.Context // see linkOf
	grants  uint64
}

func (q *queue) moment() instant {
	return instant{q.client.History(), linkOf(q.client), grants.Load()}
}

// unchanged returns the history of an answer, or 0 if it may be of either of two.
func (q *queue) unchanged(before instant) int64 {
	if history := q.client.History(); history == before.history {
		return history
	}
	return 0
}

// grants counts the holds of this process.
var grants atomic.Uint64

// linkOf returns a context that ends with the connection. Each connection has its own.
func linkOf(client *framework.Framework) context.Context {
	if session := client.Session(); session != nil {
		return session.Context(framework.StandardErrorPolicy)
	}
	return context.Background()
}

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
	if a.shrinking != nil && a.l.line.Seen(link) {
		a.link = link
	}
	switch {
	case a.outdated || a.link.Err() != nil || a.link != link:
		return nil, false
	case a.shrinking == nil:
		return a.listed, a.listed != nil
	default:
		return a.place.Before()
	}
}

// list lists the folder, or shares a list that is under way. A fresh one is sent after this
// moment.
func (a *acquisition) list(ctx context.Context, fresh bool) error {
	before := a.l.moment()
	contenders, err := a.l.line.List(ctx, fresh, a.l)
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
	case err != nil || result.GetsTheLock || !a.heedsForeign(result):
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
	if err := a.stands(ctx); err != nil {
		return PredicateResults{}, nil, false, err
	}
	own := a.ownAhead()
	if own == "" {
		return PredicateResults{}, nil, false, nil
	}
	a.behind = true
	a.span.waits(ctx) // at a position that is not known yet
	return PredicateResults{PathsToWatch: []string{own}}, []string{own, a.name}, true, nil
}

// heedsForeign reports whether the driver waits for a contender of another process.
// Acquisitions of this process always report that they leave.
func (a *acquisition) heedsForeign(result PredicateResults) bool {
	return a.shrinking == nil || slices.ContainsFunc(result.PathsToWatch, func(name string) bool { return a.companion(name) == nil })
}

// ownAhead returns the nearest acquisition of this process that stands before ours, if it
// alone keeps ours out and will report that it leaves, or "". Drivers of other packages are
// not asked about a part of the queue, and the departure of a contender whose place may be
// taken says too little.
func (a *acquisition) ownAhead() string {
	if _, ok := a.driver.(newcomerDriver); !ok || a.shrinking == nil || marks(a.driver) {
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
	if m == nil || m == a.self || m.unproven.Load() || !a.l.hears(a.driver, name) {
		return nil
	}
	return m
}

// stands reads the maximum, and returns an error if our node is known to be gone. It is called
// after the contenders were read.
func (a *acquisition) stands(ctx context.Context) error {
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
	return a.heedOwn()
}

// decide asks the driver and checks its answer.
func (a *acquisition) decide(ctx context.Context, contenders []string) (PredicateResults, error) {
	if err := a.stands(ctx); err != nil {
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
		a.span.queued(ctx, contenders, a.name)
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
		m := ownerOf(a.l.line.Place(name))
		holds := m != nil && m.granted.isSet() && !m.place.Over()
		newer = holds && m.grant.Load() > a.grants
		return holds
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

// gone removes a contender whose node has been deleted.
func (a *acquisition) gone(name string) {
	a.forget(a.awaited[name])
	delete(a.awaited, name)
	// Another contender may have taken its place: only a new list shows that.
	if a.shrinking == nil || !a.shrinking.Shrinks(name) {
		a.requireNewList()
		return
	}
	a.l.line.Left(name)
}

// refusal returns the error of an acquisition that stands behind others. The cause is the
// end of its context, nil for a try.
func (a *acquisition) refusal(cause error) error {
	ahead := a.listed
	if a.shrinking != nil {
		ahead = a.place.Known()
	} else if i := slices.Index(ahead, a.name); i >= 0 {
		ahead = ahead[:i]
	}
	if len(ahead) == 0 {
		ahead = slices.Collect(maps.Keys(a.awaited))
	}
	return a.l.notAcquired(ahead, cause)
}

// internalLockLoop looks and waits until the node has the lock.
func (a *acquisition) internalLockLoop(ctx context.Context) (*hold, error) {
	// A node of another session would outlive ours, or vanish before it (CURATOR-604).
	if owner := a.node.Stat.EphemeralOwner; owner != a.session.ID() && !a.node.Persistent {
		return nil, fmt.Errorf("%w: %s belongs to session 0x%x, ours is %v",
			errOwnNodeGone, a.node.Path, uint64(owner), a.session)
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
		case a.hasWaited() && !startsAgain(err) && framework.Retryable(err):
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

// step looks once, and then takes the lock or waits for a reason to look again. It returns
// no hold and no error when it has waited.
func (a *acquisition) step(ctx context.Context) (*hold, error) {
	result, contenders, err := a.look(ctx)
	switch {
	case err != nil:
		return nil, err
	case result.GetsTheLock:
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
	over := !time.Now().Before(a.session.HoldDeadline(a.l.cfg.policy))
	select {
	case <-held.Done():
		over = true
	default:
	}
	if over {
		release()
		return nil, nil
	}
	a.self.grant.Store(grants.Add(1))
	a.self.granted.set()
	return newHold(held, release, a), nil
}

// leave deletes the node after a failure, and returns the failure.
func (a *acquisition) leave(ctx context.Context, cause error) error {
	a.self.letGo() // first, as waiters of this process need not wait for the deletion
	defer a.own.Cancel()
	ctx, done := patient(ctx, a.session)
	defer done()
	return attempt.TakeBack(ctx, a.l.client, a.node.Path, cause)
}

// patient returns a context for the deletion of a node: ctx or, for a caller that waits even when
// that ends, one that ends with the session. See [attempt.Patiently].
func patient(ctx context.Context, session *framework.Session) (context.Context, context.CancelFunc) {
	limit := attempt.Patience(ctx)
	if limit == 0 {
		return ctx, func() {}
	}
	timed, done := context.WithTimeout(session.LossContext(), limit)
	return withValues(timed, ctx), done
}
