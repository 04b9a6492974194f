// SPDX-License-Identifier: Apache-2.0

package locks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/internal/attempt"
	"github.com/gocurator/curator/recipes/locks/internal/contexts"
	"github.com/gocurator/curator/recipes/locks/internal/heldnode"
)

// This file is the way of an acquisition, from the top to the bottom: from the call of Acquire to the hold.

// entry is what one acquisition asks of a lock.
type entry struct {
	driver LockInternalsDriver // the lock's, or one with the same order for this acquisition
	wants  int                 // leases that one owner acquires together; the maximum may not be less
	wait   bool
}

// attemptLock re-enters, or joins the queue until it gets through.
func (l *lock) attemptLock(ctx context.Context, wait bool) (*Lease, error) {
	if ctx == nil {
		return nil, fmt.Errorf("locks: acquire %s: %w", l.path, attempt.ErrNilContext)
	}
	e := entry{driver: l.driver, wants: 1, wait: wait}
	err := l.refuseReentry(ctx)
	if err == nil && l.driverFor != nil {
		e.driver, err = l.driverFor(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("locks: acquire %s: %w", l.path, err)
	}
	if h := l.owned(ctx); h != nil && l.reenters {
		// Even when the hold has ended: to queue instead would hide the loss from its owner.
		lease, err := h.reenter(l)
		if err != nil {
			return nil, fmt.Errorf("locks: acquire %s again: %w", l.path, err)
		}
		return lease, nil
	}
	var lease *Lease
	err = l.observed(ctx, l.path, func(ctx context.Context) error {
		h, err := l.enter(ctx, e)
		if err == nil {
			lease = h.newLease(h.l)
		}
		return err
	})
	return lease, err
}

// observed makes an acquisition, tells the observers of it, and gives its error a prefix.
func (l *lock) observed(ctx context.Context, path string, acquire func(context.Context) error) error {
	for _, o := range l.observers {
		ctx = o.begins(ctx) //nolint:fatcontext // one for each is meant
	}
	outcome := errPanicked
	defer func() {
		l.tell(func(o observer) { o.returns(ctx, outcome) })
	}()
	if outcome = acquire(ctx); outcome != nil {
		return fmt.Errorf("locks: acquire %s: %w", path, l.whyNot(ctx, outcome))
	}
	return nil
}

// errPanicked is what observers hear of an acquisition that does not return, because user code has panicked.
var errPanicked = errors.New("panicked")

// whyNot returns the reason for a failed acquisition: err, the end of the context if it has
// ended, and the missing connection if there is none.
func (l *lock) whyNot(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	end := ended(ctx)
	// Without a connection it is unknown which contenders are in the way now.
	if health := l.client.Health().Err; errors.Is(health, framework.ErrNotConnected) {
		return fmt.Errorf("%w: %w", health, end)
	}
	switch {
	case err == context.Cause(ctx): //nolint:errorlint // this very error
		return end
	case !errors.Is(err, ctx.Err()) || !errors.Is(err, context.Cause(ctx)):
		return fmt.Errorf("%w: %w", end, err)
	default:
		return err
	}
}

// enter waits at the gate, joins the queue, and returns when it has the lock. When its node or its
// session is gone it joins again, as rejoining allows.
func (l *lock) enter(ctx context.Context, e entry) (h *hold, err error) {
	if h, err = l.gate.enter(ctx, l, e.wait); h != nil || err != nil {
		if h != nil {
			h.start(ctx)
		}
		return h, err
	}
	defer func() {
		if h == nil { // a hold gives its place back when it ends; a failure, or a driver's panic, does it here
			l.gate.leave()
		}
	}()
	again := rejoin(l.client.RetryPolicy())
	defer func() { again.run.Done(err) }()
	for err = context.Cause(ctx); err == nil; {
		var waited time.Time
		if h, waited, err = l.enterOnce(ctx, e); err == nil {
			return h, nil
		}
		err = again.after(ctx, waited, err)
	}
	return nil, err
}

// enterOnce creates one node and takes it through the queue. If it fails in any way, it deletes the node.
func (l *lock) enterOnce(ctx context.Context, e entry) (h *hold, waited time.Time, err error) {
	switch {
	case e.wait:
		err = l.client.BlockUntilConnected(ctx)
	case !l.client.State().IsConnected() || l.client.Session() == nil:
		// A read waits for a connection as long as any verb, and its error says what is wrong.
		_, err = l.client.Children(ctx, l.path)
		err = absent(err)
	case l.isFull != nil && l.failed.Load() && e.driver == l.driver: // another driver may stand before others, as a reader that was the writer does
		err = look(ctx, l)
	}
	if err != nil {
		return nil, time.Time{}, err
	}
	a := &acquisition{entry: e, l: l, session: l.client.Session()}
	if _, fixed := l.maxLeases.(FixedLeases); !fixed {
		var done context.CancelFunc
		ctx, done = context.WithCancel(ctx) // of the watch on the maximum
		defer done()
	}
	defer func() {
		a.stopWatching()
		if h == nil { // even if the driver has panicked: no node must stand in the way of others
			waited, err = a.began, a.leave(ctx, err)
		}
	}()
	h, err = a.internalLockLoop(ctx)
	if !e.wait {
		l.noteTry(err)
	}
	return h, a.began, err
}

// look makes a try fail before it creates a node, if a contender of one of these locks is in the way. A node that cannot get
// the lock would be in the way of other tries. The locks are of one client, and it lists their folders in one round trip.
func look(ctx context.Context, locks ...*lock) error {
	names, missing, maxLeases := make([][]string, len(locks)), make([]error, len(locks)), make([]int, len(locks))
	reads := make([]framework.Read, len(locks))
	var err error
	for i, l := range locks {
		if maxLeases[i], err = l.currentMax(ctx, 1); err != nil {
			return err
		}
		reads[i] = framework.ReadChildren(l.path, &names[i]).StoringErrorIn(&missing[i])
	}
	if err := locks[0].client.Pipeline(ctx, reads...); err != nil {
		return err
	}
	for i, l := range locks {
		contenders, err := l.sorted(names[i]), absent(missing[i]) // no folder, no contenders
		if err == nil && l.isFull(contenders, maxLeases[i]) {
			err = l.notAcquired(contenders, nil, nil)
		}
		l.noteTry(err)
		if err != nil {
			return err
		}
	}
	return nil
}

// noteTry remembers whether the last try has failed.
func (l *lock) noteTry(err error) {
	if refused := errors.Is(err, ErrNotAcquired); refused || err == nil {
		l.failed.Store(refused)
	}
}

// acquisition is one call to acquire whose node stands in the queue.
type acquisition struct {
	entry

	l       *lock
	session *framework.Session
	path    string         // of the node
	stat    framework.Stat // as of its creation
	token   int64          // 0 for the czxid
	self    *place         // nil before the node was created
	max     maximum
	seen    instant   // before the last list, or the creation of the node, was sent
	shown   time.Time // when the newest request was sent whose reply has shown the node
	began   time.Time // when the first wait began; zero before
	told    int       // one more than the position that observers know; 0 before
	ahead   []string  // the contenders before ours by the last list
	watches []awaited
	wake    chan struct{}    // gets a value when one of several watches fires; nil before
	changes *framework.Watch // on the folder, for drivers that wait for any change; may be nil
}

// awaited is a contender whose departure an acquisition waits for.
type awaited struct {
	name  string
	watch *framework.Watch
	data  []byte
}

// internalLockLoop creates the node, and looks and waits until it has the lock.
func (a *acquisition) internalLockLoop(ctx context.Context) (*hold, error) {
	contenders, err := a.create(ctx)
	if err != nil {
		return nil, err
	}
	if a.l.exclusive {
		first, waited, err := a.follow(ctx, contenders)
		if err != nil {
			return nil, err
		}
		if first {
			if h, err := a.grant(ctx); h != nil || err != nil {
				return h, err
			}
		}
		if first || waited {
			contenders = nil
		}
	}
	for {
		h, next, err := a.step(ctx, contenders)
		contenders = next
		switch {
		case h != nil:
			return h, nil
		case err == nil:
		case ctx.Err() != nil && len(a.ahead) > 0 && !errors.Is(err, ErrNotAcquired):
			return nil, a.refusal(ended(ctx))
		case ctx.Err() == nil && !a.began.IsZero() && !startsAgain(err) && framework.Retryable(err):
			// The node keeps its place. Look again when there is a connection.
			contenders = nil
			attempt.Sleep(ctx, lookDelay)
			if err := a.l.client.BlockUntilConnected(ctx); err != nil && ctx.Err() == nil {
				return nil, err
			}
		default:
			return nil, err
		}
	}
}

// step looks once, and then takes the lock or waits for a reason to look again. It returns
// the contenders that the next step may use, nil if they must be listed.
func (a *acquisition) step(ctx context.Context, contenders []string) (h *hold, next []string, err error) {
	before, shown := len(a.ahead), a.shown
	if contenders == nil {
		if contenders, err = a.list(ctx); err != nil {
			return nil, nil, err
		}
		a.l.gate.notePace(before-slices.Index(contenders, a.self.name), a.shown.Sub(shown))
	}
	result, err := a.decide(ctx, contenders)
	if err != nil {
		return nil, nil, err
	}
	if result.GetsTheLock {
		// If it is not granted, the connection was lost after the look, or a delay has passed.
		h, err = a.grant(ctx)
		return h, nil, err
	}
	ours := slices.Index(contenders, a.self.name)
	a.ahead = contenders[:max(ours, 0)]
	if !a.wait {
		return nil, nil, a.refusal(nil)
	}
	a.waits(ctx, ours)
	switch {
	case len(result.PathsToWatch) == 0: // the driver knows no contender whose departure is enough
		next, err = a.awaitFolder(ctx, contenders)
	case a.l.exclusive:
		var early <-chan time.Time
		if ours != before { // otherwise the queue stands still, and another look would show the same
			early = a.earlyLook()
		}
		next, err = a.awaitOwn(ctx, contenders, result.PathsToWatch[0], early)
	default:
		err = a.await(ctx, result.PathsToWatch, nil, nil)
	}
	return nil, next, err
}

// create creates the node. The driver may list the folder in the same round trip; otherwise there are no contenders.
func (a *acquisition) create(ctx context.Context) (contenders []string, err error) {
	l := a.l
	a.seen = l.instant()
	var self *place
	l.gate.begin()
	defer func() { l.gate.end(self) }() // even if the driver panics
	sent := time.Now()
	if l.exclusive && l.gate.expectsNeighbour(a.seen.link) {
		a.path, err = createNode(ctx, l.client, a.session, l.basePath, l.cfg.data, &a.stat)
	} else {
		var node LockNode
		node, err = a.driver.CreatesTheLock(ctx, l.client, a.session, l.basePath, l.cfg.data)
		a.path, a.stat, a.token, contenders = node.Path, node.Stat, node.Token, node.Children
	}
	if errors.Is(err, framework.ErrSessionEnded) { // between the look at it and the create
		return nil, nodeGone(err)
	}
	if err != nil {
		return nil, err
	}
	_, name := framework.SplitPath(a.path)
	self = &place{l: l, name: name, czxid: a.stat.Czxid, created: time.Now()}
	if l.exclusive {
		// The server gives the last number to each further node, so it says nothing about neighbours.
		if number, ok := (StandardLockInternalsSorter{l.lockName}).Sequence(name); ok && number != math.MaxInt32 && l.isUnchanged(a.seen) {
			self.number, self.at = number, a.seen
		}
	}
	a.self, a.shown = self, sent
	if contenders != nil {
		contenders = l.sorted(contenders)
		l.gate.noteList(l, contenders, sent)
	}
	return contenders, a.checkOwner()
}

// checkOwner returns an error if the driver has created the node of another session, which would
// outlive ours or vanish before it (CURATOR-604), or one that is not ephemeral.
func (a *acquisition) checkOwner() error {
	owner := a.stat.EphemeralOwner
	if owner == a.session.ID() {
		return nil
	}
	if owner != 0 { // the driver has found it, or created it in the session after ours
		return fmt.Errorf("%w: %s belongs to session 0x%x, ours is %v", errOwnNodeGone, a.path, uint64(owner), a.session)
	}
	return fmt.Errorf("driver %T: the node %s has owner 0x%x, must be ephemeral, of the given session, 0x%x",
		a.driver, a.path, uint64(owner), uint64(a.session.ID()))
}

// leave deletes the node after a failure, and returns the failure.
func (a *acquisition) leave(ctx context.Context, cause error) error {
	if a.self == nil { // it has none
		return cause
	}
	a.self.leave() // first, as waiters of this client need not wait for the deletion
	if limit := a.l.cfg.cleanup; limit > 0 {
		var done context.CancelFunc
		ctx, done = context.WithTimeout(contexts.WithValues(a.session.LossContext(), ctx), limit)
		defer done()
	}
	return attempt.TakeBack(ctx, a.l.client, a.path, cause)
}

// follow waits until the place of this client before ours has left, if there is one. It reports whether ours is the first in
// the queue now, without a list, and whether it has waited. A try does not wait.
func (a *acquisition) follow(ctx context.Context, contenders []string) (first, waited bool, err error) {
	g := a.l.gate
	before, pending := g.neighbour(a.self, a.wait)
	for n := g.underWay(); pending != nil; n-- {
		select {
		case <-pending:
		case <-a.session.Done():
			return false, false, nodeGone(a.session.Err())
		case <-ctx.Done():
			return false, false, a.refusal(ended(ctx))
		}
		// Those that began later are behind ours, and need not be waited for.
		before, pending = g.neighbour(a.self, n > 0)
	}
	if before == nil || !a.wait && !before.hasLeft() {
		return false, false, nil
	}
	if !before.hasLeft() {
		position := slices.Index(contenders, a.self.name)
		a.ahead = contenders[:max(position, 0)]
		if len(a.ahead) == 0 {
			a.ahead = []string{before.name}
		}
		a.waits(ctx, position)
		if left, err := a.awaitPlace(ctx, before); !left || err != nil {
			return false, true, err
		}
		waited = true
	}
	return a.self.follows(before) && before.wasFirst() && a.isProof(), waited, nil
}

// isProof reports whether the departure of a place of this client, which had the lock, proves that the next node is
// the first. It must have been shown lately, by a request of this connection: on a silent link both nodes may have been deleted by
// hand, and another client may hold the lock. A chain of neighbours lists once a second, so that it does not pass a node for ever
// that was made by hand with a number of its own.
func (a *acquisition) isProof() bool {
	return a.isConnectedAsSeen() && time.Since(a.shown) < proofAge && a.l.gate.wasListedLately()
}

// isConnectedAsSeen reports whether the connection is the one of the last list.
func (a *acquisition) isConnectedAsSeen() bool {
	link := linkOf(a.l.client)
	return link == a.seen.link && link.Err() == nil
}

// list lists the contenders, in order.
func (a *acquisition) list(ctx context.Context, opts ...framework.ReadOption) ([]string, error) {
	sent := time.Now()
	a.seen = a.l.instant()
	names, err := a.l.client.Children(ctx, a.l.path, opts...)
	if errors.Is(err, framework.ErrNoNode) {
		return nil, nodeGone(err)
	}
	if err != nil {
		return nil, err
	}
	a.shown = sent // or the driver says that it is not listed
	contenders := a.l.sorted(names)
	a.l.gate.noteList(a.l, contenders, sent)
	return contenders, nil
}

// decide asks the driver and checks its answer.
func (a *acquisition) decide(ctx context.Context, contenders []string) (PredicateResults, error) {
	// The maximum is read after the list. Since then contenders may have left, but none
	// has come before ours, so both together are an answer as of this moment.
	if err := a.max.read(ctx, a.l.maxLeases, a.wants); err != nil {
		return PredicateResults{}, err
	}
	if err := a.session.Err(); err != nil {
		return PredicateResults{}, nodeGone(err)
	}
	result, err := a.driver.GetsTheLock(contenders, a.self.name, a.max.n)
	if errors.Is(err, framework.ErrNoNode) {
		return PredicateResults{}, nodeGone(err)
	}
	if err != nil {
		return PredicateResults{}, err
	}
	if !result.GetsTheLock {
		err = checkNames(contenders, a.self.name, result.PathsToWatch)
	}
	if err != nil {
		return PredicateResults{}, fmt.Errorf("driver %T: %w", a.driver, err)
	}
	return result, nil
}

// grant makes the hold. It returns nil when an entrance has waited, or when the connection was lost since the
// last list: then the caller looks again. Under QuorumErrorPolicy the first hold of a session takes a round trip.
func (a *acquisition) grant(ctx context.Context) (*hold, error) {
	if err := a.session.Err(); err != nil {
		return nil, nodeGone(err)
	}
	for _, e := range a.l.entrances {
		if admitted, err := e.admit(ctx, a); !admitted || err != nil {
			return nil, err
		}
	}
	held, release, err := a.session.Hold(ctx, a.l.cfg.policy)
	if err != nil {
		return nil, err
	}
	// In a process that was paused the clock knows before the context does.
	if held.Err() != nil || !time.Now().Before(a.session.HoldDeadline(a.l.cfg.policy)) || !a.isConnectedAsSeen() {
		release()
		a.l.tell(func(o observer) { o.suspended(ctx) })
		return nil, nil //nolint:nilerr // the caller looks again
	}
	a.self.holds(a.l.exclusive)
	h := &hold{
		l: a.l, session: a.session, parent: held, endUse: release, token: cmp.Or(a.token, a.stat.Czxid), self: a.self, row: 1,
		node: heldnode.Node{Client: a.l.client, Path: a.path, Czxid: a.stat.Czxid},
	}
	h.start(ctx)
	return h, nil
}

// refusal returns the error of an acquisition that stands behind others. The cause is the
// end of its context, nil for a try.
func (a *acquisition) refusal(cause error) error { return a.l.notAcquired(a.ahead, a.watches, cause) }

// identified is how many contenders ahead an error describes. A crowd of waiters that give up
// together would take much memory with more.
const identified = 100

// notAcquired returns the error of an acquisition behind these contenders. Some of them may be known: places of this client, and
// those that the acquisition waits for.
func (l *lock) notAcquired(ahead []string, waitsFor []awaited, cause error) error {
	e := &NotAcquiredError{Position: len(ahead), path: l.path, lockName: l.lockName, ahead: ahead, cause: cause}
	e.local = l.exclusive && len(ahead) == 0 // behind a creation of this client, see acquisition.follow
	for _, name := range ahead[:min(len(ahead), identified)] {
		var data []byte
		if i := slices.IndexFunc(waitsFor, func(w awaited) bool { return w.name == name }); i >= 0 {
			data = waitsFor[i].data
		} else if own := l.gate.own(name); own != nil {
			data = own.l.cfg.data
		}
		e.identities = append(e.identities, string(attempt.Plain(l.client, framework.JoinPath(l.path, name), data)))
	}
	return e
}

// waits notes that the acquisition is about to wait, at a position that is negative if it is not known.
func (a *acquisition) waits(ctx context.Context, position int) {
	if a.began.IsZero() {
		a.began = time.Now()
	}
	if a.told != position+1 || position < 0 {
		a.told = position + 1
		a.l.tell(func(o observer) { o.queued(ctx, a.path, position) })
	}
}

// awaitOwn waits until the contender before ours has left. If it is a place of this client, it says so in memory, and if it had the
// lock, the names from ours on are the queue. Otherwise they must be listed again, as well as when early has a value.
func (a *acquisition) awaitOwn(ctx context.Context, contenders []string, before string, early <-chan time.Time) ([]string, error) {
	own := a.l.gate.own(before)
	if own == nil || own.hasLeft() { // its node still stands: the server tells when it goes
		err := a.await(ctx, []string{before}, nil, early)
		if err == nil && len(a.ahead) == 1 && a.hasGone() && a.isProof() { // a node that came meanwhile has a higher number
			return contenders[1:], nil
		}
		return nil, err
	}
	left, err := a.awaitPlace(ctx, own)
	switch {
	case err != nil:
		return nil, err
	case !left:
		return nil, a.await(ctx, []string{before}, own.whenGone(), nil)
	case own.wasFirst() && a.isProof():
		return contenders[len(a.ahead):], nil
	}
	return nil, nil
}

// earlyLook returns a channel that has a value a little before the contender before ours is the first, if the queue goes on at its
// pace. A list that shows it as the only one before ours saves the list after its departure, and the round trip between two holds.
// In a slow queue the list would be too old by then. In a long one the guess is too rough for what a list costs.
func (a *acquisition) earlyLook() <-chan time.Time {
	n, pace := len(a.ahead), a.l.gate.paceOfTurns()
	if n < 2 || n > earlyMost || pace == 0 || pace > proofAge/2 {
		return nil
	}
	return time.After(time.Until(a.shown) + pace*time.Duration(n) - pace*earlyLead/100)
}

// hasGone reports whether the only contender that is watched has been deleted.
func (a *acquisition) hasGone() bool {
	return len(a.watches) == 0 || fired(a.watches[0].watch) && a.watches[0].watch.Event().Type == framework.EventNodeDeleted
}

// awaitPlace waits in memory until a place of this client has left. It reports false when the acquisition has waited for
// a second in all: the node may have been deleted by hand without a word to this client, as it may not be readable.
func (a *acquisition) awaitPlace(ctx context.Context, own *place) (left bool, err error) {
	if own.hasLeft() {
		return true, nil
	}
	timer := time.NewTimer(time.Until(a.began.Add(chainDelay)))
	defer timer.Stop()
	err = a.sleep(ctx, own.whenGone(), nil, timer.C)
	return own.hasLeft(), err
}

// await waits until one of the named contenders has left, gone is closed, timer has a value, or something else is a reason to look again.
func (a *acquisition) await(ctx context.Context, names []string, gone <-chan struct{}, timer <-chan time.Time) error {
	if err := a.watch(ctx, names); err != nil {
		return err
	}
	switch {
	case len(a.watches) < len(names): // one has left already
		return nil
	case a.wake == nil:
		return a.sleep(ctx, a.watches[0].watch.Fired(), gone, timer)
	default:
		return a.sleep(ctx, a.wake, gone, timer)
	}
}

// watch reads the named contenders with watches, as Curator does, unless they are watched already. It leaves no watch
// on a node that is missing.
func (a *acquisition) watch(ctx context.Context, names []string) error {
	a.watches = slices.DeleteFunc(a.watches, func(w awaited) bool {
		if fired(w.watch) && w.watch.Event().Err != nil {
			a.l.tell(func(o observer) { o.suspended(ctx) })
		}
		if slices.Contains(names, w.name) && !fired(w.watch) {
			return false
		}
		w.watch.Cancel()
		return true
	})
	kept := len(a.watches)
	a.watches = slices.Grow(a.watches, len(names)) // reads point into it
	reads := make([]framework.Read, 0, len(names))
	for _, name := range names {
		if slices.ContainsFunc(a.watches[:kept], func(w awaited) bool { return w.name == name }) {
			continue
		}
		a.watches = append(a.watches, awaited{name: name})
		w := &a.watches[len(a.watches)-1]
		reads = append(reads, framework.ReadData(framework.JoinPath(a.l.path, name), &w.data,
			framework.Watched(&w.watch), framework.StoringAbsenceIn(new(bool)), framework.Undecompressed()))
	}
	if len(reads) == 0 {
		return nil
	}
	err := a.l.client.Pipeline(ctx, reads...)
	if a.wake == nil && !a.l.exclusive { // there may be several
		a.wake = make(chan struct{}, 1)
	}
	a.watches = slices.DeleteFunc(a.watches, func(w awaited) bool { return w.watch == nil })
	if a.wake != nil {
		for _, w := range a.watches[kept:] {
			w.watch.OnFired(func(framework.Event) { attempt.Signal(a.wake) })
		}
	}
	return err
}

// stopWatching cancels the watches.
func (a *acquisition) stopWatching() {
	for _, w := range a.watches {
		w.watch.Cancel()
	}
	a.changes.Cancel()
}

// awaitFolder waits for any change of the folder. The first time it returns at once, with a
// watch and a new list: the list that the driver has decided on came without a watch. After a change it asks for a list
// without one, as most changes let ours in, and the watch would then have to be removed.
func (a *acquisition) awaitFolder(ctx context.Context, contenders []string) ([]string, error) {
	if a.changes == nil {
		return a.list(ctx, framework.Watched(&a.changes))
	}
	if err := a.sleep(ctx, a.changes.Fired(), nil, nil); err != nil || !fired(a.changes) {
		return contenders, err
	}
	if a.changes.Event().Err != nil {
		a.l.tell(func(o observer) { o.suspended(ctx) })
	}
	a.changes = nil
	return nil, nil
}

// sleep waits until one of the channels is closed or has a value, the maximum changes, or the session ends. Channels may be nil. It
// returns an error when the context or the session has ended.
func (a *acquisition) sleep(ctx context.Context, wake, gone <-chan struct{}, timer <-chan time.Time) error {
	if g := a.l.gate; g.unwarnedHolder() != nil {
		warning := time.AfterFunc(time.Until(a.began.Add(ownWait)), func() { g.warnOfHolder(a.l) })
		defer warning.Stop()
	}
	select {
	case <-wake:
	case <-gone:
	case <-timer:
	case <-a.max.changed:
	case <-a.session.Done():
		return nodeGone(a.session.Err())
	case <-ctx.Done():
		return a.refusal(ended(ctx))
	}
	return nil
}

// fired reports whether the watch exists and has fired.
func fired(w *framework.Watch) bool { return w != nil && attempt.IsClosed(w.Fired()) }
