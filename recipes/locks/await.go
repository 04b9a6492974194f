package locks

import (
	"context"
	"fmt"
	"slices"
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
func (q *queued) await(ctx context.Context, names []string) error {
	if len(names) == 0 {
		return q.awaitFolder(ctx)
	}
	if q.awaited == nil {
		q.awaited, q.wake = make(map[string]*awaited), make(chan struct{}, 1)
	}
	q.settle(q.andTheOneBefore(names))
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
func (q *queued) andTheOneBefore(names []string) []string {
	ours := slices.Index(q.names, q.name)
	if len(names) != 1 || q.shrinking == nil || ours < 1 || q.names[ours-1] != names[0] {
		return names
	}
	result, err := q.l.driver.GetsTheLock(q.names, names[0], q.max.n)
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
		local := q.companions[name]
		if a := q.awaited[name]; a != nil && a.local == local {
			continue
		} else if a != nil {
			a.cancel() // its word does not count any more: the server is asked
		}
		a := &awaited{local: local}
		if local != nil {
			a.stop = context.AfterFunc(local.over, q.poke)
		}
		q.awaited[name] = a
	}
}

// watch asks the server for what it is to tell us, in one round trip, and with one
// request for all who are awaited. Those who have gone already are told as those who
// go later.
//
// Some servers tell nothing of a node to those who may not read it, without refusing the
// watch. So those that are needed are each read once, when the wait is no short one: that
// is refused then, and tells of one whose end has been kept from us.
func (q *queued) watch(ctx context.Context, needed []string) error {
	names, unread := q.unwatched(), []string(nil)
	var reads []framework.Read
	watches, absent := make([]*framework.Watch, len(names)), false
	if len(names) > 0 {
		reads = append(reads, framework.WatchData(q.l.pathsOf(names), watches))
	}
	if !time.Now().Before(q.ownDue) {
		unread = q.unread(needed)
		if q.own == nil {
			reads = append(reads, framework.ReadData(q.node.Path, &q.data, framework.Watched(&q.own), framework.StoringAbsenceIn(&absent)))
		}
	}
	gone := make([]bool, len(unread))
	for i, path := range q.l.pathsOf(unread) {
		reads = append(reads, framework.ReadData(path, nil, framework.StoringAbsenceIn(&gone[i])))
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
		}
	}
	if absent { // after the watches have become ours, which close takes back
		return errOwnNodeGone
	}
	return nil
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
		if a := q.awaited[name]; a.local == nil && !a.read {
			unread = append(unread, name)
		}
	}
	return unread
}

// collect brings what is known of the queue up to date with what has been told.
func (q *queued) collect() {
	for name, a := range q.awaited {
		switch {
		case a.local != nil && a.local.over.Err() != nil && a.local.replaced.Load():
			delete(q.companions, name)
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

// interrupted has the names listed again, as the watches have gone with a connection.
func (q *queued) interrupted() {
	if q.names != nil {
		q.seen.suspended()
	}
	q.names = nil
}

// awaitFolder waits for any change of the folder. The first time it does not wait,
// as nobody has watched the list that the driver has decided on.
func (q *queued) awaitFolder(ctx context.Context) error {
	q.settle(nil)
	if err := q.watch(ctx, nil); err != nil { // our own node
		return err
	}
	if q.folder != nil {
		if err := q.sleep(ctx, q.folder.Fired()); err != nil || !fired(q.folder) {
			return err
		}
	}
	children, err := q.list(ctx, framework.Watched(&q.folder))
	if err == nil {
		q.learn(children)
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
	select {
	case <-wake:
	case <-own:
	case <-due:
	case <-q.max.changed:
	case <-q.session.Done():
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrNotAcquired, context.Cause(ctx))
	}
	return nil
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
