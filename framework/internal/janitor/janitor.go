// SPDX-License-Identifier: Apache-2.0

// Package janitor makes the deletions of a client that must not be forgotten.
//
// A [Janitor] repeats each [Cleanup] in the background until it has succeeded or the client
// has ended. It knows nothing of requests: a cleanup is a function, and a folder is a name.
package janitor

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/internal/chance"
)

const (
	// maxAtOnce bounds the cleanups under way, and so the goroutines. The requests of
	// all of them leave in few writes.
	maxAtOnce = 1000

	minPause = 20 * time.Millisecond
	maxPause = 500 * time.Millisecond

	// A deletion refused for missing permissions may stay so for as long as the client
	// lives, and for many clients at once.
	maxRefusedPause = 30 * time.Second

	// The log tells of cleanups that fail for longer than tellAfter, once in tellEvery.
	tellAfter = 10 * time.Second
	tellEvery = time.Minute
)

// Cleanup is one deletion that must not be forgotten. It is repeated while its error may
// pass.
type Cleanup func(ctx context.Context) error

// Config has what a janitor needs of its client.
type Config struct {
	// Context ends with the client. Cleanups get it.
	Context context.Context

	// Start starts a goroutine that the client waits for when it is closed, or returns false once it is.
	Start func(run func()) bool

	// Connected returns a channel that is closed while there is a connection.
	Connected func() <-chan struct{}

	// MayPass reports whether a cleanup that failed with this error may succeed later.
	MayPass func(error) bool

	Log *slog.Logger
}

// task is a cleanup and its progress.
type task struct {
	cleanup Cleanup
	folder  string // of the znode, at the server
	since   time.Time
	counted bool          // among what is under way in its folder
	refused bool          // and logged
	pause   time.Duration // after the last try
}

// Janitor runs cleanups in the background until each has succeeded or the client is closed.
// It repeats a failed cleanup after a pause of its own. It has goroutines only while there
// is work: one that starts due cleanups, and one for each cleanup under way.
type Janitor struct {
	cfg   Config
	added chan struct{} // wakes run: something is due, or there is room

	mu       sync.Mutex
	tasks    map[*task]struct{} // all that have not succeeded
	ready    []*task            // due, in the order in which they came
	underWay int
	told     time.Time // when the log has last told that cleanups fail
	running  bool
	folders  map[string]*folder
}

// New returns a janitor with nothing to do. It has no goroutine.
func New(cfg Config) *Janitor {
	return &Janitor{
		cfg: cfg, added: make(chan struct{}, 1),
		tasks: make(map[*task]struct{}), folders: make(map[string]*folder),
	}
}

// Add accepts the cleanup of a znode in a folder, or returns false once the client has ended.
func (j *Janitor) Add(name string, c Cleanup) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	// A client that has nothing to delete has no goroutine for it.
	if j.cfg.Context.Err() != nil || !j.running && !j.cfg.Start(j.run) {
		return false // the caller must not promise a deletion that no goroutine makes
	}
	j.running = true
	t := &task{cleanup: c, folder: name, since: time.Now(), counted: true}
	j.tasks[t] = struct{}{}
	j.ready = append(j.ready, t)
	j.folderLocked(name).underWay++
	j.wake()
	return true
}

func (j *Janitor) wake() {
	select {
	case j.added <- struct{}{}:
	default:
	}
}

// run starts due cleanups until none is left.
func (j *Janitor) run() {
	for j.start(j.awaitConnection()) {
		select {
		case <-j.added:
		case <-j.cfg.Context.Done():
		}
	}
}

// awaitConnection waits until there is a connection, or returns false when the client has
// ended.
func (j *Janitor) awaitConnection() bool {
	select {
	case <-j.cfg.Connected():
	case <-j.cfg.Context.Done():
	}
	return j.cfg.Context.Err() == nil
}

// start starts the cleanups that are due, as many as there is room for. It returns false, and ends the run, when none is left.
func (j *Janitor) start(usable bool) (more bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !usable || len(j.tasks) == 0 {
		j.running = false
		return false
	}
	for len(j.ready) > 0 && j.underWay < maxAtOnce {
		t := j.ready[0]
		j.ready[0], j.ready = nil, j.ready[1:]
		j.underWay++
		// It is refused when the client has ended, and what is left is dropped.
		j.cfg.Start(func() { j.settle(t, t.cleanup(j.cfg.Context)) })
	}
	return true
}

// settle ends one try of a task.
func (j *Janitor) settle(t *task, err error) {
	defer j.wake()
	if j.cfg.Context.Err() != nil {
		return // the error is the client's end, which says nothing about the znode
	}
	if j.cfg.MayPass(err) {
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
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		j.cfg.Log.Error("cleanup failed and is given up", "error", err)
	}
}

// again postpones a task that has failed, each time for twice as long. It makes no creation
// wait any more: it may fail for as long as the client lives. Missing permissions are logged once.
func (j *Janitor) again(t *task, err error) {
	longest, refused := maxPause, false
	j.mu.Lock()
	if errors.Is(err, zk.ErrNoAuth) {
		longest = maxRefusedPause
		refused, t.refused = !t.refused, true
	}
	late := !t.refused && time.Since(t.since) > tellAfter && time.Since(j.told) > tellEvery
	if late {
		j.told = time.Now()
	}
	unfinished := len(j.tasks)
	j.uncountLocked(t)
	t.pause = min(max(2*t.pause, minPause), longest)
	// Spread, since one outage makes many tasks fail at the same moment.
	time.AfterFunc(t.pause/2+chance.Of(j.cfg.Context).Below("cleanup", t.pause), func() {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.ready = append(j.ready, t)
		j.wake()
	})
	j.underWay--
	j.mu.Unlock()
	if refused {
		j.cfg.Log.Error("cleanup refused, and repeated until it is allowed or the client is closed", "error", err)
	}
	if late {
		j.cfg.Log.Warn("cleanups fail, and are repeated until they succeed or the client is closed", "unfinished", unfinished, "error", err)
	}
}

// uncountLocked makes room for another creation in the folder of a task.
func (j *Janitor) uncountLocked(t *task) {
	if t.counted {
		t.counted = false
		j.leaveLocked(t.folder)
	}
}

// Unfinished returns how many cleanups have not succeeded, those under way included,
// and for how long the oldest of them has not. After the end of the client there are none,
// as none is repeated.
func (j *Janitor) Unfinished() (n int, oldest time.Duration) {
	if j.cfg.Context.Err() != nil {
		return 0, 0
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for t := range j.tasks {
		oldest = max(oldest, time.Since(t.since))
	}
	return len(j.tasks), oldest
}
