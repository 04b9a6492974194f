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

// predecessor is one before us whose end we wait for: at the server, or in this process.
type predecessor struct {
	watch *framework.Watch
	local *member
	stop  func() bool // of the word from local
	read  bool        // the server lets us read it
}

func (p *predecessor) cancel() {
	p.watch.Cancel()
	if p.stop != nil {
		p.stop()
	}
}

// await waits until there is a reason to ask the driver again: one of the contenders
// with these names has gone, or our own node, or there is another maximum. It brings
// what is known of the queue up to date. It may return early.
func (a *acquisition) await(ctx context.Context, contenders, names []string) error {
	if a.began.IsZero() {
		a.began = time.Now()
	}
	if len(names) == 0 {
		return a.awaitFolder(ctx)
	}
	if a.awaited == nil {
		a.awaited, a.wake = make(map[string]*predecessor), make(chan struct{}, 1)
	}
	a.settle(a.andTheOneBefore(contenders, names))
	if err := a.watch(ctx, names); err != nil {
		return err
	}
	err := a.sleep(ctx, a.wake)
	a.collect()
	return err
}

// andTheOneBefore adds, where the one right before us is to be waited for, whom that one
// waits for. When that one goes we are next, and see to it beforehand that nobody else is
// before us. The others who wait for the same, as readers do for a writer, need not wake
// up: they will be let in together.
func (a *acquisition) andTheOneBefore(contenders, names []string) []string {
	ours := slices.Index(contenders, a.name)
	if len(names) != 1 || a.shrinking == nil || ours < 1 || contenders[ours-1] != names[0] {
		return names
	}
	result, err := a.driver.GetsTheLock(contenders, names[0], a.max.n)
	if err != nil || len(result.PathsToWatch) != 1 {
		return names
	}
	return append(result.PathsToWatch[:1:1], names...)
}

// settle makes the names those that are awaited.
func (a *acquisition) settle(names []string) {
	for name, p := range a.awaited {
		if !slices.Contains(names, name) {
			p.cancel()
			delete(a.awaited, name)
		}
	}
	for _, name := range names {
		local := a.companion(name)
		if p := a.awaited[name]; p != nil && p.local == local {
			continue
		} else if p != nil {
			p.cancel() // its word does not count any more: the server is asked
		}
		p := &predecessor{local: local}
		if local != nil {
			p.stop = context.AfterFunc(local.over, a.poke)
		}
		a.awaited[strings.Clone(name)] = p // or it would keep all names of the list in memory
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
func (a *acquisition) watch(ctx context.Context, needed []string) error {
	names, unread := a.unwatched(), []string(nil)
	watches, absent := make([]*framework.Watch, len(names)), false
	reads := watchAll(a.l.pathsOf(names), watches)
	if !time.Now().Before(a.ownDue) {
		unread = a.unread(needed)
		if a.own == nil {
			reads = append(reads, framework.ReadData(a.node.Path, &a.data, framework.Watched(&a.own), framework.StoringAbsenceIn(&absent)))
		}
	}
	gone, data := make([]bool, len(unread)), make([][]byte, len(unread))
	for i, path := range a.l.pathsOf(unread) {
		reads = append(reads, framework.ReadData(path, &data[i], framework.StoringAbsenceIn(&gone[i])))
	}
	if err := a.l.client.Pipeline(ctx, reads...); err != nil {
		return err
	}
	for i, name := range names {
		a.awaited[name].watch = watches[i]
		watches[i].OnFired(func(framework.Event) { a.poke() })
	}
	for i, name := range unread {
		if a.awaited[name].read = true; gone[i] {
			a.gone(name)
			a.poke()
		} else {
			a.folder.noteRead(name, data[i])
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
func (a *acquisition) unwatched() []string {
	var names []string
	for name, p := range a.awaited {
		if p.local == nil && p.watch == nil {
			names = append(names, name)
		}
	}
	return names
}

// unread returns those of the names whose end only the server can tell, and that have
// not been read.
func (a *acquisition) unread(names []string) []string {
	var unread []string
	for _, name := range names {
		if p := a.awaited[name]; p.local == nil && !p.read && !a.folder.hasRead(name) {
			unread = append(unread, name)
		}
	}
	return unread
}

// collect brings what is known of the queue up to date with what has been told.
func (a *acquisition) collect() {
	for name, p := range a.awaited {
		switch {
		case p.local != nil && p.local.hasLetGo():
			a.folder.remove(a.order(), name)
		case p.local != nil || !fired(p.watch):
		case p.watch.Event().Err != nil:
			delete(a.awaited, name)
			a.interrupted()
		case p.watch.Event().Type == zk.EventNodeDeleted:
			a.gone(name)
		default:
			p.watch = nil // its data has changed
		}
	}
}

// heedOwn looks at what the watch on our own node has told.
func (a *acquisition) heedOwn() error {
	if !fired(a.own) {
		return nil
	}
	event := a.own.Event()
	if event.Type == zk.EventNodeDeleted {
		return errOwnNodeGone
	}
	a.own, a.ownDue = nil, time.Time{}
	if event.Err != nil {
		a.interrupted()
	}
	return nil
}

// interrupted says that the watches have gone with a connection. The names are listed
// again over the next, see folder.queue.
func (a *acquisition) interrupted() {
	if !a.suspended {
		a.suspended = true
		a.span.suspended()
	}
}

// awaitFolder waits for any change of the folder. The first time it does not wait,
// as nobody has watched the list that the driver has decided on.
func (a *acquisition) awaitFolder(ctx context.Context) error {
	a.settle(nil)
	if err := a.watch(ctx, nil); err != nil { // our own node
		return err
	}
	if a.changes != nil {
		if err := a.sleep(ctx, a.changes.Fired()); err != nil || !fired(a.changes) {
			return err
		}
	}
	list := a.folder.begin(a.l.client)
	names, err := a.l.client.Children(ctx, a.l.path, framework.Watched(&a.changes))
	if errors.Is(err, framework.ErrNoNode) {
		return nodeGone(err)
	}
	if err == nil {
		a.folder.learn(list, names)
		a.number = list.number
	}
	return err
}

// sleep waits for the signal, an event of our own node or that this is due to be
// watched, another maximum, or an end.
func (a *acquisition) sleep(ctx context.Context, wake <-chan struct{}) error {
	var own <-chan struct{}
	var due <-chan time.Time
	if a.own != nil {
		own = a.own.Fired()
	} else {
		timer := time.NewTimer(time.Until(a.ownDue))
		defer timer.Stop()
		due = timer.C
	}
	warn, stop := a.warning()
	defer stop()
	select {
	case <-wake:
	case <-own:
	case <-due:
	case <-warn:
		a.warn()
	case <-a.max.changed:
	case <-a.session.Done():
	case <-ctx.Done():
		return ended(ctx)
	}
	return nil
}

// poke wakes the acquisition, now or when it next sleeps. It does not block.
func (a *acquisition) poke() {
	select {
	case a.wake <- struct{}{}:
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
