// SPDX-License-Identifier: Apache-2.0

package locks

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/locks/internal/identity"
)

// predecessor is a contender whose departure an acquisition waits for. The news comes from
// the server, by a watch, or from an acquisition of this process.
type predecessor struct {
	watch *framework.Watch
	local *member
	read  bool   // the server lets us read its node
	asked uint64 // when it was asked for, in a.asked
}

// forget stops waiting for a contender.
func (a *acquisition) forget(p *predecessor) {
	p.watch.Cancel()
	if p.local != nil {
		p.local.place.Unwake(a.wake)
	}
}

// gone removes a contender whose node has been deleted.
func (a *acquisition) gone(name string) {
	a.forget(a.awaited[name])
	delete(a.awaited, name)
	switch {
	case a.shrinking == nil, !a.shrinking.Shrinks(name):
		// Another contender may have taken its place: only a new list shows that.
		a.requireNewList()
	case !a.l.line.Left(name): // whoever is in its place is not in our way
		a.departed = append(a.departed, name)
	}
}

// await waits for a reason to ask the driver again: one of the named contenders has left,
// our own node is gone, or the maximum has changed. It then removes the contenders that
// have left from what is known of the queue. It may return early.
func (a *acquisition) await(ctx context.Context, contenders, names []string) error {
	if a.began.IsZero() {
		a.began = time.Now()
	}
	if len(names) == 0 { // the driver knows no contender whose departure is enough
		return a.awaitFolder(ctx)
	}
	a.awaitOnly(a.andMore(contenders, names))
	if err := a.watch(ctx, names); err != nil {
		return err
	}
	err := a.sleep(ctx, a.wake)
	a.collect()
	return err
}

// andMore returns the names to wait for, and more contenders whose departure makes a list
// before our turn unnecessary.
//
// If few stand before us in a long queue, we wait for all of them. Otherwise, when the only
// name is the contender right before ours, we also wait for the contender that it waits for.
// When that one leaves, it is time for a new list, while our predecessor works. Until then our
// turn is far, if no other acquisition of this client is in the queue. Waiters that share a
// predecessor, such as readers behind one writer, enter together and need no list.
func (a *acquisition) andMore(contenders, names []string) []string {
	if a.far && len(a.awaited) == 2 && a.awaited[names[0]] != nil {
		return slices.Collect(maps.Keys(a.awaited)) // neither has left, however long the queue is now
	}
	a.far = false
	ours := slices.Index(contenders, a.name)
	if a.shrinking == nil || ours < 1 {
		return names
	}
	if ours <= maxAwaited && ours*namesPerNotification <= a.l.line.Len() {
		more := slices.DeleteFunc(slices.Clone(contenders[:ours]), func(name string) bool {
			return a.companion(name) != nil || slices.Contains(names, name)
		})
		return append(more, names...) // one of our own that has just left is not among the contenders
	}
	if len(names) != 1 || contenders[ours-1] != names[0] {
		return names
	}
	if a.companion(names[0]) != nil && !marks(a.driver) {
		return names // a holder of our own leaves after all contenders before it
	}
	result, err := a.driver.GetsTheLock(contenders, names[0], a.max.n)
	if err != nil || len(result.PathsToWatch) != 1 {
		return names
	}
	a.far = a.l.line.Crowd() == 1 // or it may wait for one of its client, which tells it in memory
	return append(result.PathsToWatch[:1:1], names...)
}

// awaitOnly waits for the contenders with these names and stops waiting for others.
func (a *acquisition) awaitOnly(names []string) {
	if a.awaited == nil && len(names) > 0 {
		a.awaited, a.wake = make(map[string]*predecessor), make(chan struct{}, 1)
	}
	a.asked++
	for _, name := range names {
		local := a.companion(name)
		if p := a.awaited[name]; p != nil && p.local == local {
			p.asked = a.asked
			continue
		} else if p != nil {
			a.forget(p) // its release proves nothing any more: ask the server
		}
		p := &predecessor{local: local, asked: a.asked}
		if local != nil {
			local.place.Wake(a.wake)
		}
		a.awaited[strings.Clone(name)] = p // a part of the reply would keep all of it in memory
	}
	for name, p := range a.awaited {
		if p.asked != a.asked {
			a.forget(p)
			delete(a.awaited, name)
		}
	}
}

// watch sets the watches that are missing, in one round trip. The first contender is read with a
// watch, as Curator does. This leaves no watch if its node is missing, every server knows the
// request, and the data says who is in the way. A second contender costs as much either way. More
// of them share one request, or a few for a great many, if the server is known to have that. Far
// from our turn two share one as well, and the first is read if it is still in the way later.
func (a *acquisition) watch(ctx context.Context, needed []string) error {
	names := a.unwatched(needed)
	reading := len(names)
	switch {
	case reading == 2 && a.far:
		reading = 0
	case reading > 2:
		reading = 1
	}
	err := a.watchNames(ctx, names, needed, reading)
	if !errors.Is(err, framework.ErrUnsupported) {
		return err
	}
	if len(names) > 2 {
		for _, name := range a.unwatched(needed) {
			if !slices.Contains(needed, name) {
				delete(a.awaited, name) // it only saves a list, which costs less than many reads
			}
		}
	}
	needed = slices.DeleteFunc(slices.Clone(needed), func(name string) bool { return a.awaited[name] == nil }) // gone by now
	names = a.unwatched(needed)
	return a.watchNames(ctx, names, needed, len(names))
}

// watchNames reads the first names with watches, as many as reading says, and only watches the
// others. If the server may be unable to do that, they have no watch afterwards, and the error
// matches [framework.ErrUnsupported].
//
// Some servers accept a watch on a node that the client may not read, and then do not
// notify it. So once the wait is no short one, each needed contender is read once. The read
// fails if it is not allowed, and finds out about a contender whose departure was not
// notified. Contenders that another acquisition of this client has read are left out. Holds
// of this client are looked at, too.
func (a *acquisition) watchNames(ctx context.Context, names, needed []string, reading int) error {
	var unsupported error
	watches, read, held, absent := make([]*framework.Watch, len(names)), names[:reading:reading], []string(nil), false
	isLong := a.own != nil || !time.Now().Before(a.ownDue())
	own := a.own == nil && isLong
	if isLong {
		read = append(read, a.unread(needed, read)...)
	}
	gone, data := make([]bool, len(read)), make([][]byte, len(read))
	var reads []framework.Read
	for i, path := range a.l.pathsOf(read) {
		opts := []framework.ReadOption{framework.Undecompressed(), framework.StoringAbsenceIn(&gone[i])}
		if i < reading {
			opts = append(opts, framework.Watched(&watches[i]))
		}
		contender := framework.ReadData(path, &data[i], opts...)
		if !slices.Contains(needed, read[i]) {
			contender = contender.StoringErrorIn(new(error)) // we can do without it
		}
		reads = append(reads, contender)
	}
	reads = append(reads, watchAll(a.l.pathsOf(names[reading:]), watches[reading:], &unsupported)...)
	if own {
		reads = append(reads, framework.ReadData(a.node.Path, &a.data, framework.Watched(&a.own), framework.StoringAbsenceIn(&absent), framework.Undecompressed()))
		held = a.heldHere(needed)
	}
	holds := make([]*framework.Stat, len(held))
	for i, path := range a.l.pathsOf(held) {
		reads = append(reads, framework.ReadStat(path, &holds[i]))
	}
	if err := a.l.client.Pipeline(ctx, reads...); err != nil {
		return err
	}
	for i, name := range names {
		if a.awaited[name].watch = watches[i]; watches[i] != nil {
			watches[i].OnFired(func(framework.Event) { a.poke() })
		}
	}
	for i, name := range read {
		switch {
		case gone[i]:
			a.gone(name)
			a.poke() // do not sleep: nothing else would wake us for it
		case slices.Contains(needed, name): // another one is read again when it is needed: it may be unreadable then
			a.awaited[name].read = true
			a.l.line.NoteData(name, data[i])
		}
	}
	for i, name := range held {
		if holds[i] == nil { // its node was deleted, and it does not know
			a.awaited[name].local.unproven.Store(true)
			a.poke()
		}
	}
	if absent { // checked last, when the watches are in awaited and close can cancel them
		return errOwnNodeGone
	}
	return unsupported
}

// watchAll returns the reads that set the watches, split so that no request is too large.
//
//nolint:gocritic // the place for an error is a pointer to an interface
func watchAll(paths []string, into []*framework.Watch, unsupported *error) (reads []framework.Read) {
	for first := 0; first < len(paths); {
		next, size := first, 0
		for next < len(paths) && (next == first || size+len(paths[next]) <= watchBytes) {
			size += len(paths[next]) + 4
			next++
		}
		reads = append(reads, framework.WatchData(paths[first:next], into[first:next]).StoringErrorIn(unsupported))
		first = next
	}
	return reads
}

// unwatched returns the awaited contenders of other processes that have no watch yet, the needed
// ones first.
func (a *acquisition) unwatched(needed []string) []string {
	var names []string
	for _, name := range needed {
		if p := a.awaited[name]; p != nil && p.local == nil && p.watch == nil {
			names = append(names, name)
		}
	}
	for name, p := range a.awaited {
		if p.local == nil && p.watch == nil && !slices.Contains(needed, name) {
			names = append(names, name)
		}
	}
	return names
}

// heldHere returns the contenders among these names that are holds of this process. A hold
// whose node the client may no longer read does not learn that it was deleted.
func (a *acquisition) heldHere(names []string) []string {
	var held []string
	for _, name := range names {
		if p := a.awaited[name]; p.local != nil && p.local.granted.isSet() {
			held = append(held, name)
		}
	}
	return held
}

// unread returns the contenders of other processes that this client has not read and does not read now.
func (a *acquisition) unread(names, now []string) []string {
	var unread []string
	for _, name := range names {
		_, known := a.l.line.Data(name)
		if p := a.awaited[name]; p.local == nil && !p.read && !known && !slices.Contains(now, name) {
			unread = append(unread, name)
		}
	}
	return unread
}

// collect applies the news about awaited contenders to what is known of the queue.
func (a *acquisition) collect() {
	for name, p := range a.awaited {
		switch {
		case p.local != nil || !fired(p.watch):
		case p.watch.Event().Err != nil:
			delete(a.awaited, name) // the watch has gone with its connection
			a.interrupted()
		case p.watch.Event().Type == zk.EventNodeDeleted:
			a.gone(name)
		default:
			p.watch = nil // its data has changed: it needs another watch
		}
	}
}

// ownDue returns when to watch our own node. Far from its turn a waiter need not know soon that its
// node is gone, and a list is likely to show the node before the turn comes.
func (a *acquisition) ownDue() time.Time {
	if a.far {
		return a.shown.Add(farDelay)
	}
	return a.shown.Add(ownDelay)
}

// checkOwnWatch returns an error if the watch on our own node has reported its deletion.
func (a *acquisition) checkOwnWatch() error {
	if !fired(a.own) {
		return nil
	}
	event := a.own.Event()
	if event.Type == zk.EventNodeDeleted {
		return errOwnNodeGone
	}
	a.own, a.shown = nil, time.Time{} // the watch was for one event: set another at once
	if event.Err != nil {
		a.interrupted()
	}
	return nil
}

// interrupted notes that watches have gone with their connection. The names are listed
// again over the next connection.
func (a *acquisition) interrupted() {
	if !a.suspended {
		a.suspended = true
		a.span.Suspended()
	}
}

// awaitFolder waits for any change of the folder. The first time it returns at once, with a
// watch and a new list: the list that the driver has decided on came without a watch.
func (a *acquisition) awaitFolder(ctx context.Context) error {
	a.awaitOnly(nil)
	if err := a.watch(ctx, nil); err != nil { // only our own node
		return err
	}
	if a.changes != nil {
		if err := a.sleep(ctx, a.changes.Fired()); err != nil || !fired(a.changes) {
			return err
		}
	}
	before := a.l.instant()
	names, err := a.l.client.Children(ctx, a.l.path, framework.Watched(&a.changes))
	if errors.Is(err, framework.ErrNoNode) {
		return nodeGone(err)
	}
	if err == nil {
		a.listed, a.outdated, a.grants, a.link = a.l.line.Sorted(names), false, before.grants, before.link
	}
	return err
}

// sleep waits until wake has a value, the own watch fires or is due, the maximum changes,
// or the session ends. It returns an error only when the context has ended.
func (a *acquisition) sleep(ctx context.Context, wake <-chan struct{}) error {
	var own <-chan struct{}
	var due <-chan time.Time
	if a.own != nil {
		own = a.own.Fired()
	} else {
		timer := time.NewTimer(time.Until(a.ownDue()))
		defer timer.Stop()
		due = timer.C
	}
	holder := a.companionAwaited()
	warn, stop := holder.warning(a.began)
	defer stop()
	select {
	case <-wake:
	case <-own:
	case <-due:
	case <-warn:
		holder.warn(a.l.client.Logger(), a.l.path, a.began)
	case <-a.max.changed:
	case <-a.session.Done():
	case <-ctx.Done():
		return ended(ctx)
	}
	return nil
}

// companionAwaited returns an acquisition of this process that holds the lock and that a
// waits for, or nil.
func (a *acquisition) companionAwaited() *member {
	for _, p := range a.awaited {
		if p.local != nil && p.local.granted.isSet() {
			return p.local
		}
	}
	return nil
}

// poke wakes the acquisition, or keeps it from its next sleep. It does not block.
func (a *acquisition) poke() {
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// fired reports whether the watch exists and has fired.
func fired(w *framework.Watch) bool {
	if w == nil {
		return false
	}
	select {
	case <-w.Fired():
		return true
	default:
		return false
	}
}

// ownWait is how long an acquisition waits for a hold of its own process before it logs
// that: the caller may have meant to re-enter the lock.
const ownWait = 10 * time.Second

// warning returns a channel that gets a value when the wait for this hold, which began at
// that time, should be logged. The member may be nil: then there is nothing to log.
func (m *member) warning(began time.Time) (due <-chan time.Time, stop func()) {
	if m == nil || m.warned.Load() {
		return nil, func() {}
	}
	timer := time.NewTimer(max(time.Until(began.Add(ownWait)), 0))
	return timer.C, func() { timer.Stop() }
}

// warn logs that this process waits for its own hold of the lock at path, once for each hold.
func (m *member) warn(logger *slog.Logger, path string, began time.Time) {
	if m.warned.Swap(true) {
		return
	}
	_, _, label := identity.Parse(string(m.place.Data))
	logger.Warn("waiting for a lock that this process holds itself: to re-enter it, "+
		"acquire it with the context of its lease",
		string(keyPath), path, "holder", framework.JoinPath(path, m.place.Name()), "label", label,
		"waiting", time.Since(began).Round(time.Second), "held", m.granted.ago().Round(time.Second))
}
