package locks

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
)

// An acquisition watches its own node when that has waited for ownDelay, and a hold
// does when it has lasted for holdDelay. A turn that is shorter saves the requests, and
// is told by its release whether the node was there.
const (
	ownDelay  = 20 * time.Millisecond
	holdDelay = time.Millisecond
)

// awaited is one before us whose end we wait for: at the server, or in this process.
type awaited struct {
	watch *framework.Watch
	local *member
	stop  func() bool // of the word from local
	read  bool        // the server lets us read it
}

func (a awaited) cancel() {
	a.watch.Cancel()
	if a.stop != nil {
		a.stop()
	}
}

// await waits until there is a reason to ask the driver again: one of the contenders
// with these names has gone, or our own node, or there is another maximum. It brings
// what is known of the queue up to date. It may return early.
func (q *queued) await(ctx context.Context, contenders, names []string) error {
	if q.began.IsZero() {
		q.began = time.Now()
	}
	if len(names) == 0 {
		return q.awaitFolder(ctx)
	}
	if q.awaited == nil {
		q.awaited, q.wake = make(map[string]*awaited), make(chan struct{}, 1)
	}
	q.settle(q.andTheOneBefore(contenders, names))
	if err := q.watch(ctx, names); err != nil {
		return err
	}
	err := q.sleep(ctx, q.wake)
	q.collect()
	return err
}

// andTheOneBefore adds, where the one right before us is to be waited for, whom that one
// waits for. When that one goes we are next, and see to it beforehand that nobody else is
// before us. The others who wait for the same, as readers do for a writer, need not wake
// up: they will be let in together.
func (q *queued) andTheOneBefore(contenders, names []string) []string {
	ours := slices.Index(contenders, q.name)
	if len(names) != 1 || q.shrinking == nil || ours < 1 || contenders[ours-1] != names[0] {
		return names
	}
	result, err := q.l.driver.GetsTheLock(contenders, names[0], q.max.n)
	if err != nil || len(result.PathsToWatch) != 1 {
		return names
	}
	return append(result.PathsToWatch[:1:1], names...)
}

// settle makes the names those that are awaited.
func (q *queued) settle(names []string) {
	for name, a := range q.awaited {
		if !slices.Contains(names, name) {
			a.cancel()
			delete(q.awaited, name)
		}
	}
	for _, name := range names {
		local := q.companion(name)
		if a := q.awaited[name]; a != nil && a.local == local {
			continue
		} else if a != nil {
			a.cancel() // its word does not count any more: the server is asked
		}
		a := &awaited{local: local}
		if local != nil {
			a.stop = context.AfterFunc(local.over, q.poke)
		}
		q.awaited[strings.Clone(name)] = a // or it would keep all names of the list in memory
	}
}

// watch asks the server for what it is to tell us, in one round trip, and with one
// request for all who are awaited, or a few for a great many. Those who have gone already
// are told as those who go later.
//
// Some servers tell nothing of a node to those who may not read it, without refusing the
// watch. So those that are needed are each read once, when the wait is no short one: that
// is refused then, and tells of one whose end has been kept from us. What one acquisition
// of the client has read the others need not.
func (q *queued) watch(ctx context.Context, needed []string) error {
	names, unread := q.unwatched(), []string(nil)
	watches, absent := make([]*framework.Watch, len(names)), false
	reads := watchAll(q.l.pathsOf(names), watches)
	if !time.Now().Before(q.ownDue) {
		unread = q.unread(needed)
		if q.own == nil {
			reads = append(reads, framework.ReadData(q.node.Path, &q.data, framework.Watched(&q.own), framework.StoringAbsenceIn(&absent)))
		}
	}
	gone, data := make([]bool, len(unread)), make([][]byte, len(unread))
	for i, path := range q.l.pathsOf(unread) {
		reads = append(reads, framework.ReadData(path, &data[i], framework.StoringAbsenceIn(&gone[i])))
	}
	if err := q.l.client.Pipeline(ctx, reads...); err != nil {
		return err
	}
	for i, name := range names {
		q.awaited[name].watch = watches[i]
		watches[i].OnFired(func(framework.Event) { q.poke() })
	}
	for i, name := range unread {
		if q.awaited[name].read = true; gone[i] {
			q.gone(name)
			q.poke()
		} else {
			q.folder.noteRead(name, data[i])
		}
	}
	if absent { // after the watches have become ours, which close takes back
		return errOwnNodeGone
	}
	return nil
}

// watchBytes bounds the paths in one request for watches, far below what a server accepts.
const watchBytes = 256 << 10

// watchAll splits the request for a great many watches.
func watchAll(paths []string, into []*framework.Watch) (reads []framework.Read) {
	for first := 0; first < len(paths); {
		next, size := first, 0
		for next < len(paths) && (next == first || size+len(paths[next]) <= watchBytes) {
			size += len(paths[next]) + 4
			next++
		}
		reads = append(reads, framework.WatchData(paths[first:next], into[first:next]))
		first = next
	}
	return reads
}

// pathsOf returns the paths of nodes in the folder.
func (l *LockInternals) pathsOf(names []string) []string {
	paths := make([]string, len(names))
	for i, name := range names {
		paths[i] = framework.JoinPath(l.path, name)
	}
	return paths
}

// unwatched returns those awaited whose end only the server can tell, and has not
// been asked to.
func (q *queued) unwatched() []string {
	var names []string
	for name, a := range q.awaited {
		if a.local == nil && a.watch == nil {
			names = append(names, name)
		}
	}
	return names
}

// unread returns those of the names whose end only the server can tell, and that have
// not been read.
func (q *queued) unread(names []string) []string {
	var unread []string
	for _, name := range names {
		if a := q.awaited[name]; a.local == nil && !a.read && !q.folder.hasRead(name) {
			unread = append(unread, name)
		}
	}
	return unread
}

// collect brings what is known of the queue up to date with what has been told.
func (q *queued) collect() {
	for name, a := range q.awaited {
		switch {
		case a.local != nil && a.local.hasLetGo():
			q.folder.remove(q.order(), name)
		case a.local != nil || !fired(a.watch):
		case a.watch.Event().Err != nil:
			delete(q.awaited, name)
			q.interrupted()
		case a.watch.Event().Type == zk.EventNodeDeleted:
			q.gone(name)
		default:
			a.watch = nil // its data has changed
		}
	}
}

// heedOwn looks at what the watch on our own node has told.
func (q *queued) heedOwn() error {
	if !fired(q.own) {
		return nil
	}
	event := q.own.Event()
	if event.Type == zk.EventNodeDeleted {
		return errOwnNodeGone
	}
	q.own, q.ownDue = nil, time.Time{}
	if event.Err != nil {
		q.interrupted()
	}
	return nil
}

// interrupted says that the watches have gone with a connection. The names are listed
// again over the next, see folder.queue.
func (q *queued) interrupted() {
	if !q.suspended {
		q.suspended = true
		q.seen.suspended()
	}
}

// awaitFolder waits for any change of the folder. The first time it does not wait,
// as nobody has watched the list that the driver has decided on.
func (q *queued) awaitFolder(ctx context.Context) error {
	q.settle(nil)
	if err := q.watch(ctx, nil); err != nil { // our own node
		return err
	}
	if q.changes != nil {
		if err := q.sleep(ctx, q.changes.Fired()); err != nil || !fired(q.changes) {
			return err
		}
	}
	list := q.folder.begin(q.l.client)
	names, err := q.l.client.Children(ctx, q.l.path, framework.Watched(&q.changes))
	if errors.Is(err, framework.ErrNoNode) {
		return nodeGone(err)
	}
	if err == nil {
		q.folder.learn(list, names)
		q.number = list.number
	}
	return err
}

// sleep waits for the signal, an event of our own node or that this is due to be
// watched, another maximum, or an end.
func (q *queued) sleep(ctx context.Context, wake <-chan struct{}) error {
	var own <-chan struct{}
	var due <-chan time.Time
	if q.own != nil {
		own = q.own.Fired()
	} else {
		timer := time.NewTimer(time.Until(q.ownDue))
		defer timer.Stop()
		due = timer.C
	}
	warn, stop := q.warning()
	defer stop()
	select {
	case <-wake:
	case <-own:
	case <-due:
	case <-warn:
		q.warn()
	case <-q.max.changed:
	case <-q.session.Done():
	case <-ctx.Done():
		return ended(ctx)
	}
	return nil
}

// ownWait is how long an acquisition waits for a hold of its own process before that is
// logged: it may be a lock that was meant to be re-entered.
const ownWait = 10 * time.Second

// warning returns a channel that gets a value when it is time to warn.
func (q *queued) warning() (due <-chan time.Time, stop func()) {
	if holder := q.companionAwaited(); holder == nil || holder.warned.Load() {
		return nil, func() {}
	}
	timer := time.NewTimer(max(time.Until(q.began.Add(ownWait)), 0))
	return timer.C, func() { timer.Stop() }
}

// companionAwaited returns an acquisition of this process that is waited for and holds
// the lock, or nil.
func (q *queued) companionAwaited() *member {
	for _, a := range q.awaited {
		if a.local != nil && a.local.granted.isSet() {
			return a.local
		}
	}
	return nil
}

// warn logs once for each hold that this process waits for itself.
func (q *queued) warn() {
	holder := q.companionAwaited()
	if holder == nil || holder.warned.Swap(true) {
		return
	}
	_, _, label := parseIdentity(string(holder.data))
	q.l.client.Logger().Warn("waiting for a lock that this process holds itself: to re-enter it, "+
		"acquire it with the context of its lease",
		string(keyPath), q.l.path, "holder", framework.JoinPath(q.l.path, holder.name), "label", label,
		"waiting", time.Since(q.began).Round(time.Second), "held", holder.granted.ago().Round(time.Second))
}

// poke wakes the acquisition, now or when it next sleeps. It does not block.
func (q *queued) poke() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

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
