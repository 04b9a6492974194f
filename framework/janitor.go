package framework

import (
	"container/heap"
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"
)

const (
	// janitorAtOnce bounds the cleanups under way, and so the goroutines. The requests of
	// all of them leave in few writes.
	janitorAtOnce = 1000

	// janitorBacklog is how many cleanups a folder may have before creations in it wait.
	janitorBacklog = 32

	// janitorMaxWait bounds that wait: a server that refuses deletions must not keep the
	// client from creating.
	janitorMaxWait = time.Second

	janitorMinPause = 20 * time.Millisecond
	janitorMaxPause = 500 * time.Millisecond

	// A deletion refused for missing permissions may stay so for as long as the client
	// lives, and for many clients at once.
	janitorMaxRefusedPause = 30 * time.Second
)

// cleanup is one deletion that must not be forgotten. It is repeated while its error may
// pass.
type cleanup func(ctx context.Context) error

// mayPass reports whether a cleanup that failed with this error may succeed later. Missing
// permissions count: they may be granted again, and until then only this client knows that
// the znode has to go.
func mayPass(err error) bool {
	return Retryable(err) || errors.Is(err, ErrNotReadOnly) || errors.Is(err, ErrNoAuth) && !errors.Is(err, errUnsearchable)
}

// task is a cleanup and its progress.
type task struct {
	cleanup
	folder  string // of the znode, at the server
	since   time.Time
	counted bool          // in the backlog of its folder
	refused bool          // and logged
	pause   time.Duration // after the last try
	due     time.Time     // of the next
}

// janitor runs cleanups in the background until each has succeeded or the client is
// closed. It repeats a failed cleanup after a pause of its own. It has goroutines only
// while there is something to do: one that starts due cleanups, and one for each cleanup
// under way.
type janitor struct {
	f     *Framework
	added chan struct{} // wakes run: something is due, or there is room

	mu       sync.Mutex
	tasks    map[*task]struct{} // all that have not succeeded
	ready    []*task            // due, in the order in which they came
	resting  restingTasks
	underWay int
	running  bool
	closed   bool
	folders  map[string]*backlog // of cleanups that are not refused
	done     sync.WaitGroup
}

// backlog is the cleanups of one folder.
type backlog struct {
	n    int
	room chan struct{} // closed when n falls below janitorBacklog; nil while no creation waits
}

func newJanitor(f *Framework) *janitor {
	return &janitor{
		f: f, added: make(chan struct{}, 1),
		tasks: make(map[*task]struct{}), folders: make(map[string]*backlog),
	}
}

// add accepts the cleanup of a znode in a folder, or returns false when the client is
// closed.
func (j *janitor) add(folder string, c cleanup) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return false // the caller must not promise a deletion that no goroutine makes
	}
	t := &task{cleanup: c, folder: folder, since: time.Now(), counted: true}
	j.tasks[t] = struct{}{}
	j.ready = append(j.ready, t)
	if j.folders[folder] == nil {
		j.folders[folder] = new(backlog)
	}
	j.folders[folder].n++
	// A client that has nothing to delete has no goroutine for it.
	if !j.running {
		j.running = true
		j.done.Go(j.run)
	}
	j.wake()
	return true
}

func (j *janitor) wake() {
	select {
	case j.added <- struct{}{}:
	default:
	}
}

// close drops what is left after the client's context has ended.
func (j *janitor) close() {
	j.mu.Lock()
	j.closed = true
	j.mu.Unlock()
	j.done.Wait()
}

// admit waits while the folder has a backlog of cleanups: callers that give up faster
// than the server deletes must not fill a folder with nodes.
func (j *janitor) admit(ctx context.Context, folder string) {
	j.mu.Lock()
	b := j.folders[folder]
	if b == nil || b.n < janitorBacklog {
		j.mu.Unlock()
		return // the usual case costs one look
	}
	if b.room == nil {
		b.room = make(chan struct{})
	}
	room := b.room
	j.mu.Unlock()
	select {
	case <-j.f.tracker.whenConnected():
	default:
		return // the creation waits for the connection, and the cleanups do too
	}
	limit := time.NewTimer(janitorMaxWait)
	defer limit.Stop()
	select {
	case <-room:
	case <-limit.C: // rather one node too many than a creation that never comes
	case <-ctx.Done():
	case <-j.f.ctx.Done():
	}
}

// run starts due cleanups until none is left.
func (j *janitor) run() {
	for {
		err := j.f.awaitConnection(j.f.ctx, 0, nil)
		rest, more := j.start(err == nil)
		if !more {
			return
		}
		j.rest(rest)
	}
}

// start starts the cleanups that are due, as many as there is room for. It returns how
// long it is until the next is due, and ends the run when none is left.
func (j *janitor) start(usable bool) (rest time.Duration, more bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !usable || j.closed || len(j.tasks) == 0 {
		j.running = false
		return 0, false
	}
	now := time.Now()
	for len(j.resting) > 0 && !j.resting[0].due.After(now) {
		j.ready = append(j.ready, heap.Pop(&j.resting).(*task)) //nolint:forcetypeassert // the heap holds nothing else
	}
	for len(j.ready) > 0 && j.underWay < janitorAtOnce {
		t := j.ready[0]
		j.ready[0], j.ready = nil, j.ready[1:]
		j.underWay++
		j.done.Go(func() { j.settle(t, t.cleanup(j.f.ctx)) })
	}
	if len(j.resting) == 0 {
		return time.Hour, true
	}
	return time.Until(j.resting[0].due), true
}

// settle ends one try of a task.
func (j *janitor) settle(t *task, err error) {
	defer j.wake()
	if j.f.ctx.Err() != nil {
		return // the error is the client's end, which says nothing about the znode
	}
	if mayPass(err) {
		j.again(t, err)
		return
	}
	j.mu.Lock()
	// Done, or hopeless: a deletion that cannot succeed must not be repeated forever.
	j.underWay--
	delete(j.tasks, t)
	j.uncountLocked(t)
	j.mu.Unlock()
	// A node that is gone is what the cleanup was for.
	if err != nil && !errors.Is(err, ErrNoNode) {
		j.f.cfg.log.Error("cleanup failed and is given up", "error", err)
	}
}

// again postpones a task that has failed, each time for twice as long. Missing permissions
// are logged once, and make no creation wait: they last until they are granted again.
func (j *janitor) again(t *task, err error) {
	longest, refused := janitorMaxPause, false
	j.mu.Lock()
	if errors.Is(err, ErrNoAuth) {
		longest = janitorMaxRefusedPause
		refused, t.refused = !t.refused, true
		// It may last for as long as the client lives, so no creation waits for it.
		j.uncountLocked(t)
	}
	t.pause = min(max(2*t.pause, janitorMinPause), longest)
	// Spread, since one outage makes many tasks fail at the same moment.
	t.due = time.Now().Add(t.pause/2 + rand.N(t.pause))
	j.underWay--
	heap.Push(&j.resting, t)
	j.mu.Unlock()
	if refused {
		j.f.cfg.log.Error("cleanup refused, and repeated until it is allowed or the client is closed", "error", err)
	}
}

// uncountLocked takes a task out of the backlog of its folder.
func (j *janitor) uncountLocked(t *task) {
	if !t.counted {
		return
	}
	t.counted = false
	b := j.folders[t.folder]
	b.n--
	if b.n < janitorBacklog && b.room != nil {
		close(b.room)
		b.room = nil
	}
	if b.n == 0 {
		delete(j.folders, t.folder)
	}
}

// rest waits until a task is due, or there is something new.
func (j *janitor) rest(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-j.added:
	case <-timer.C:
	case <-j.f.ctx.Done():
	}
}

// unfinished returns how many cleanups have not succeeded, those under way included,
// and for how long the oldest of them has not.
func (j *janitor) unfinished() (n int, oldest time.Duration) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for t := range j.tasks {
		oldest = max(oldest, time.Since(t.since))
	}
	return len(j.tasks), oldest
}

// restingTasks is a heap: the task that is due first comes first.
type restingTasks []*task

func (r *restingTasks) Len() int           { return len(*r) }
func (r *restingTasks) Less(i, k int) bool { return (*r)[i].due.Before((*r)[k].due) }
func (r *restingTasks) Swap(i, k int)      { (*r)[i], (*r)[k] = (*r)[k], (*r)[i] }

// Push is for package heap.
func (r *restingTasks) Push(t any) { *r = append(*r, t.(*task)) } //nolint:forcetypeassert // as above

// Pop is for package heap.
func (r *restingTasks) Pop() any {
	last := len(*r) - 1
	t := (*r)[last]
	(*r)[last], *r = nil, (*r)[:last]
	return t
}
