package cache

import (
	"log/slog"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/listen"
)

// engine follows a tree for one cache. All of it belongs to the goroutine of run.
//
// An event is only a reason to read. The picture has only what was read, and the reads of one
// path follow one another. ARCHITECTURE.md has the argument.
type engine struct {
	client     *framework.Framework
	path       string
	single     bool
	compressed bool
	log        *slog.Logger
	picture    *picture
	inbox      *inbox
	telemetry  *telemetry

	nodes     map[string]*node
	oversized oversized
	queue     queue // of nodes with work that is not under way
	progress  progress
	filled    bool // the first sweep is done

	flights []*batch // in the order in which they were sent, and are applied
	spare   []*batch
	sent    int // batches
	applied int // of these
	size    int // of the data of a znode, as a moving average in bytes
	paused  <-chan time.Time

	watch    *framework.PersistentWatch
	listener *listen.Registration
	oneShot  bool // there are no persistent watches
	fired    framework.WatchQueue
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

// add gives a node work to do after the work that is under way.
func (e *engine) add(n *node, t task) {
	if n.jobs == nil {
		n.jobs = new(jobs)
	}
	queued := &n.jobs.queued
	if queued.work == 0 {
		*queued = t
		e.progress.count(t)
		if n.jobs.flying.work == 0 {
			e.queue.push(n)
		}
		return
	}
	// One visit serves both: callers of either era, and the newer sweep, wait for it.
	merged := task{queued.work | t.work, min(queued.era, t.era), max(queued.sweep, t.sweep)}
	e.progress.count(merged)
	e.progress.uncount(*queued)
	*queued = merged
}

// take makes the queued work of a node the one that is under way.
func (e *engine) take(n *node) task {
	t := n.jobs.queued
	t.work = e.oversized.without(t.work, n.path)
	if e.single {
		t.work &^= list
	}
	n.jobs.flying, n.jobs.queued = n.jobs.queued, task{}
	return t
}

// finish ends the task of a node that is under way.
func (e *engine) finish(n *node) {
	e.progress.uncount(n.jobs.flying)
	n.jobs.flying = task{}
	if n.jobs.queued.work != 0 {
		e.queue.push(n) // add has left this to the end of the task
		return
	}
	n.jobs = nil
	if !n.known && !n.armed.any() && !e.oversized.has(n.path) {
		delete(e.nodes, n.path)
	}
}
