// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"log/slog"

	"github.com/gocurator/curator/framework"
)

// engine follows a tree for one cache. All of it belongs to the goroutine of run.
//
// An event is only a reason to read: before ZooKeeper 3.9 it names no transaction, so it cannot be
// ordered against a read. At most one read of a path is under way, and the reads of a client never
// go back, so the picture follows the server's order. Within a history czxid and mzxid identify a
// state of a znode. So no state is reported twice, and a znode that was created again is noticed.
type engine struct {
	client    *framework.Framework
	path      string
	limits    limits
	log       *slog.Logger
	picture   *picture
	inbox     *inbox
	telemetry *telemetry

	backlog
	sweeping
	window
	feed
}

// backlog is the work that is to be done, and that is under way.
type backlog struct {
	nodes     map[string]*node
	crowded   bool // there have been many nodes
	oversized oversized
	queue     queue // of nodes with work that is not under way
	progress  progress
	history   int64         // of all states of the picture, as Framework.History; 0 for unknown
	reading   chan struct{} // closed when what the inbox calls reading is read, nil for nothing
}

// node returns the node of a path.
func (e *engine) node(path string) *node {
	n := e.nodes[path]
	if n == nil {
		n = &node{path: path}
		e.nodes[path] = n
		e.crowded = e.crowded || len(e.nodes) > crowd
	}
	return n
}

// add gives a node work to do after the work that is under way.
func (e *engine) add(n *node, t task) {
	if n.queued.work == 0 {
		n.queued = t
		e.progress.count(t)
		if n.flying.work == 0 {
			e.queue.push(n)
		}
		return
	}
	// One visit serves both: callers of either era, and the newer sweep, wait for it.
	merged := task{n.queued.work | t.work, min(n.queued.era, t.era), max(n.queued.sweep, t.sweep)}
	e.progress.count(merged)
	e.progress.uncount(n.queued)
	n.queued = merged
}

// isListedOnly reports whether a path is visited for its children alone.
func (e *engine) isListedOnly(path string) bool { return e.limits.childrenOnly && path == e.path }

// take makes the queued work of a node the one that is under way.
func (e *engine) take(n *node) task {
	t := n.queued
	// For an absent root, only a request for the Stat sets a one-shot watch.
	if (e.eager || e.size <= littleData && !e.oneShot) && t.work.asksStat(n, e.oneShot) && e.picture.has(n.path) {
		t.work |= readData
	}
	t.work = e.oversized.without(t.work, n.path)
	if t.work&list != 0 && !e.limits.lists(n.path) {
		t.work &^= list
	}
	n.flying, n.queued = n.queued, task{}
	return t
}

// finish ends the task of a node that is under way.
func (e *engine) finish(n *node) {
	e.progress.uncount(n.flying)
	n.flying = task{}
	if n.queued.work != 0 {
		e.queue.push(n) // add has left this to the end of the task
		return
	}
	if !n.armed.any() {
		delete(e.nodes, n.path)
		if e.crowded && len(e.nodes) == 0 { // a map never shrinks
			e.nodes, e.crowded = make(map[string]*node), false
		}
	}
}
