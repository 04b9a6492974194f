package cache

import (
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/listen"
)

// pause is how long the engine waits after reads that the client's retry policy has given up
// on.
const pause = time.Second

// work is what must be read about a path.
type work uint8

const (
	readData work = 1 << iota // data and stat
	compare                   // the stat, and the data only when that shows a change
	list                      // the children
)

// task is work, with what it is part of.
type task struct {
	work  work
	era   uint64 // in which it was caused; Fresh waits for the end of all eras up to its own
	sweep uint32 // the walk through the whole tree that it belongs to, 0 for none
}

// node is what the engine knows of one path. There is one for each path that is in the
// picture or has work, so it is kept small.
type node struct {
	path         string
	czxid, mzxid int64 // of what is in the picture
	swept        uint32
	known        bool // it is in the picture
	folder       bool // it had children when it was last read
	isTooLarge   bool // there is a reply that cannot be had, see engine.tooLarge
	jobs         *jobs
	armed        armed
}

// jobs is the work of a node that has any.
type jobs struct {
	queued task
	flying task // sent; at most one, so that what is read of a path is applied in order
}

// tooLarge remembers replies above the client's limit, each of which has cost the connection.
type tooLarge struct {
	list bool
	data bool
	of   int64 // the mzxid of such data; 0 while it is not known
}

// engine follows a tree for one cache. All of it belongs to the goroutine of run.
//
// An event is only a reason to read: what is in the picture was read, and the reads of one
// path follow one another. ARCHITECTURE.md has the argument.
type engine struct {
	cache *CuratorCache
	nodes map[string]*node
	queue queue

	tooLarge map[string]*tooLarge
	spare    []*batch

	flights []*batch // in the order in which they were sent, and are applied
	paused  <-chan time.Time
	size    int // of data that was read lately, in bytes

	watch    *framework.PersistentWatch
	listener *listen.Registration
	oneShot  bool // there are no persistent watches
	fired    framework.WatchQueue

	era     uint64
	tasks   map[uint64]int // by era: those that are queued or flying, and sweeps
	asking  []barrier      // whose era goes on until what was sent before has landed
	waiting []barrier      // whose era is over
	sent    int            // batches
	applied int            // of these

	sweep    uint32 // number of the newest
	sweeping bool
	left     int    // tasks of the newest sweep
	sweepEra uint64 // that it holds
	began    time.Time
	swept    bool // the first one is done
}

// barrier is a caller of Fresh.
type barrier struct {
	sent    int    // batches at the time of the call
	era     uint64 // that must have no task any more
	reached chan struct{}
}

func newEngine(c *CuratorCache) *engine {
	e := &engine{
		cache: c, nodes: make(map[string]*node), tasks: make(map[uint64]int),
		tooLarge: make(map[string]*tooLarge), size: 1,
	}
	e.hold() // until the first sweep is done
	return e
}

// run follows the tree until the context ends or the client is closed, and says which.
func (e *engine) run(ctx context.Context) error {
	defer e.cache.telemetry.ended()
	defer e.release()
	if err := e.arm(ctx); err != nil {
		return err
	}
	for {
		e.drain()
		e.endEras()
		e.settle()
		e.issue(ctx)
		var err error
		select {
		case <-e.cache.inbox.wake:
		case <-e.fired.Wake():
		case <-e.landed():
			e.drain() // what came before the replies
			err = e.land()
		case <-e.ended():
			err = e.arm(ctx)
		case <-e.paused:
			e.paused = nil
		case <-ctx.Done():
			err = ErrClosed
		}
		if err != nil {
			return err
		}
	}
}

// release leaves nothing: no request under way, no watch, no call of a listener.
func (e *engine) release() {
	for _, b := range e.flights {
		<-b.done // their context has ended, or the client
		for i := range b.visits {
			b.visits[i].cancelWatches()
		}
	}
	e.unwatch()
	for _, n := range e.nodes {
		n.armed.cancel()
	}
}

func (e *engine) unwatch() {
	if e.watch == nil {
		return
	}
	e.cache.inbox.feedFrom(nil)
	e.watch.Cancel()
	e.listener.Remove()
	<-e.listener.Done()
	e.watch = nil
}

// ended is closed when the persistent watch has been refused on a new connection.
func (e *engine) ended() <-chan struct{} {
	if e.watch == nil {
		return nil
	}
	return e.watch.Done()
}

// arm sets the persistent watch, or finds that there are none, and begins a sweep.
func (e *engine) arm(ctx context.Context) error {
	e.hold()
	e.unwatch()
	mode := framework.WatchPersistentRecursive
	if e.cache.cfg.single {
		mode = framework.WatchPersistent
	}
	for {
		watch, err := e.cache.client.AddWatch(ctx, e.cache.path, mode)
		switch {
		case err == nil:
			e.watch = watch
			e.listener = watch.OnEvent(e.cache.onEvent)
			e.cache.inbox.feedFrom(watch)
		case ctx.Err() != nil:
			return ErrClosed
		case errors.Is(err, framework.ErrClosed), errors.Is(err, framework.ErrAuthFailed):
			return err
		case framework.Retryable(err), errors.Is(err, framework.ErrNotStarted):
			e.cache.log().Warn("cache cannot watch yet", logPath, e.cache.path, logError, err)
			if !rest(ctx) {
				return ErrClosed
			}
			continue
		default:
			e.cache.log().Info("cache uses one-shot watches", logPath, e.cache.path, logError, err)
			e.oneShot = true
		}
		e.beginSweep()
		return nil
	}
}

// rest waits for the length of a pause and reports whether the context lives.
func rest(ctx context.Context) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// drain turns news into work. Watches are taken last: what had ended when a message was put
// into the inbox is among them, and dealt with before the message.
func (e *engine) drain() {
	messages := e.cache.inbox.take()
	for _, w := range e.fired.Take() {
		e.watchEnded(w)
	}
	for _, m := range messages {
		switch {
		case m.reached != nil:
			e.holdIfUnwatched()
			e.asking = append(e.asking, barrier{sent: e.sent, reached: m.reached})
		case m.resync:
			e.paused = nil
			e.beginSweep()
		default:
			e.add(e.node(m.path), task{work: m.work, era: e.era})
		}
	}
}

// holdIfUnwatched has callers wait for the sweep that arm begins, if the watch has ended.
func (e *engine) holdIfUnwatched() {
	select {
	case <-e.ended():
		e.hold()
	default:
	}
}

// watchEnded deals with the end of a one-shot watch.
func (e *engine) watchEnded(w *framework.Watch) {
	event := w.Event()
	n := e.nodes[event.Path]
	if n == nil {
		return // what is gone is found again by its parent
	}
	switch ofData, ofChildren := n.armed.forget(w); {
	case ofData && event.Type == zk.EventNotWatching: // the connection was lost
		e.add(n, task{work: compare, era: e.era})
	case ofData:
		e.add(n, task{work: readData, era: e.era})
	case ofChildren && event.Type != zk.EventNodeDeleted: // of that the other watch tells
		e.add(n, task{work: list, era: e.era})
	}
}

// endEras begins a new era for each call of Fresh, so that what comes later is not waited for.
// A one-shot watch that is set by a batch says only when that is applied whether it has ended
// meanwhile, so the era goes on until then.
func (e *engine) endEras() {
	for len(e.asking) > 0 && e.asking[0].sent <= e.applied {
		b := e.asking[0]
		b.era = e.era
		e.era++
		e.asking, e.waiting = e.asking[1:], append(e.waiting, b)
	}
}

// settle ends what has no work left: the sweep, and the wait of callers.
func (e *engine) settle() {
	for e.sweeping && e.left == 0 && !e.sweepUnseen() {
		e.endSweep()
	}
	if len(e.waiting) == 0 {
		return
	}
	oldest := e.era
	for era := range e.tasks {
		oldest = min(oldest, era)
	}
	for len(e.waiting) > 0 && e.waiting[0].era < oldest {
		close(e.waiting[0].reached)
		e.waiting = e.waiting[1:]
	}
}

// node returns the engine's knowledge of a path.
func (e *engine) node(path string) *node {
	n := e.nodes[path]
	if n == nil {
		n = &node{path: path}
		e.nodes[path] = n
	}
	return n
}

// add gives a node work to do after what is under way.
func (e *engine) add(n *node, t task) {
	if n.jobs == nil {
		n.jobs = new(jobs)
	}
	queued := &n.jobs.queued
	if queued.work == 0 {
		*queued = t
		e.count(t)
		if n.jobs.flying.work == 0 {
			e.queue.push(n)
		}
		return
	}
	merged := task{queued.work | t.work, min(queued.era, t.era), max(queued.sweep, t.sweep)}
	e.count(merged)
	e.uncount(*queued)
	*queued = merged
}

func (e *engine) count(t task) {
	e.tasks[t.era]++
	if t.sweep == e.sweep && t.sweep != 0 {
		e.left++
	}
}

func (e *engine) uncount(t task) {
	e.releaseEra(t.era)
	if t.sweep == e.sweep && t.sweep != 0 {
		e.left--
	}
}

func (e *engine) releaseEra(era uint64) {
	if e.tasks[era]--; e.tasks[era] == 0 {
		delete(e.tasks, era)
	}
}

// finish ends the task of a node that is under way.
func (e *engine) finish(n *node) {
	e.uncount(n.jobs.flying)
	n.jobs.flying = task{}
	if n.jobs.queued.work != 0 {
		e.queue.push(n)
		return
	}
	n.jobs = nil
	if !n.known && !n.isTooLarge && !n.armed.any() {
		delete(e.nodes, n.path)
	}
}

// hold keeps the present era, and so those who wait for it, until a sweep is done.
func (e *engine) hold() {
	if !e.sweeping {
		e.sweeping, e.began = true, time.Now()
		e.sweepEra = e.era
		e.tasks[e.era]++
		e.left = 1 // of the sweep that is to begin
	}
}

// beginSweep begins a walk through the whole tree, which compares it with the picture. It
// takes over from one that is under way.
func (e *engine) beginSweep() {
	e.hold()
	e.sweep++
	e.left = 0
	e.visit(e.node(e.cache.path), task{era: e.era, sweep: e.sweep})
}

// visit adds the work of a sweep, or of a list outside of one, for a node that is listed. Of
// one that is in the picture and has no work its own watch would tell. But where it has, the
// reply that is under way may be older than the list, and say that there is no such znode.
func (e *engine) visit(n *node, t task) {
	if t.sweep != 0 && n.swept == t.sweep || t.sweep == 0 && n.known && n.jobs == nil {
		return
	}
	n.swept = t.sweep
	t.work = readData
	if n.known {
		t.work = compare
	}
	if n.folder || e.oneShot {
		t.work |= list
	}
	e.add(n, t)
}

// sweepUnseen has those read that are in the picture and that the sweep has not come by: they
// are gone, or were created meanwhile. It reports whether there are any.
func (e *engine) sweepUnseen() bool {
	for _, n := range e.nodes {
		if n.known && n.swept != e.sweep {
			n.swept = e.sweep
			e.add(n, task{work: readData, era: e.sweepEra, sweep: e.sweep})
		}
	}
	return e.left > 0
}

func (e *engine) endSweep() {
	e.sweeping = false
	e.releaseEra(e.sweepEra)
	e.cache.telemetry.resynced(e.began)
	if !e.swept {
		e.swept = true
		e.cache.tell(Event{Type: Initialized})
	}
}
