// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"slices"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/internal/attempt"
)

// A sweep compares the whole tree with the picture. It visits each path of the picture, lists
// the folders, and reads the children that the picture does not have. A path that enters the
// picture during the sweep has its own events from then on, and the sweep lists its children:
// it may be a folder that was created in the gap, and only its later children have events. If the
// folder was read before the sweep began, the read may be older than the watch, so the sweep
// visits the folder, too. The sweep takes the next path when the window has room, and keeps no
// state for the paths that are left.
//
// Reads of short data share requests, and reads of Stats cannot. So a sweep compares Stats only
// where data is long on average.
//
// If the servers may have begun again, the sweep reads data instead of comparing Stats: see
// [framework.Framework.History].

// sweeping is the state of the newest sweep.
type sweeping struct {
	walks  []walk // of nodes that may need work; the last one goes on
	filled bool   // the first sweep is done
	next   int64  // the history at its beginning, which its end makes the picture's
	swept  int    // batches that had been sent when it began
}

// prune removes what the limits leave out from a storage that another cache has filled.
func (e *engine) prune() {
	w := walk{ofPicture: true, parents: e.picture.known.parents()}
	for path, found := w.next(e.picture.known); found; path, found = w.next(e.picture.known) {
		if !e.limits.keeps(path) {
			e.picture.remove(path)
		}
	}
}

// walk is paths to be visited when the window has room for them. It counts as a task until its
// end.
type walk struct {
	task   task
	parent string   // as cut returns it
	names  []string // of its children that are left

	// Of a walk through the picture, which goes on with their children.
	ofPicture bool
	parents   []string
}

// next returns the next path, and reports whether there is one.
func (w *walk) next(picture *standardStorage) (path string, found bool) {
	for len(w.names) == 0 {
		if len(w.parents) == 0 {
			return "", false
		}
		w.parent, w.parents = w.parents[0], w.parents[1:]
		for _, r := range picture.records(w.parent) {
			w.names = append(w.names, string(r.name()))
		}
	}
	path = w.parent + w.names[0]
	w.names = w.names[1:]
	return path, true
}

// beginSweep begins a sweep. It takes over from a sweep that is under way.
func (e *engine) beginSweep() {
	t := e.progress.beginSweep()
	e.walks = slices.DeleteFunc(e.walks, func(w walk) bool {
		if w.task.sweep != 0 {
			e.progress.uncount(w.task)
		}
		return w.task.sweep != 0
	})
	e.eager = false
	e.swept = e.sent
	if e.next = e.client.History(); e.next != e.history {
		clear(e.oversized) // other data is worth a read
		e.picture.unlisted.Store(nil)
	}
	e.visit(e.path, t)
	e.begin(walk{task: t, ofPicture: true, parents: e.picture.known.parents()})
}

// begin begins a walk. The walk through the picture goes first, as it would visit again the
// paths that other walks have found. The last list comes next, so that few lists wait.
func (e *engine) begin(w walk) {
	e.progress.count(w.task)
	at := len(e.walks)
	if at > 0 && e.walks[at-1].ofPicture {
		at--
	}
	e.walks = slices.Insert(e.walks, at, w)
}

// explore goes on with the walks until a node has got work.
func (e *engine) explore() {
	for len(e.walks) > 0 {
		last := len(e.walks) - 1
		w := &e.walks[last]
		path, found := w.next(e.picture.known)
		if !found {
			e.progress.uncount(w.task)
			e.walks = slices.Delete(e.walks, last, last+1)
			continue
		}
		if e.needsVisit(path, w) && (w.ofPicture || e.limits.keepsChild(path)) && e.mayRead(path) {
			e.visit(path, w.task)
			return
		}
	}
}

// mayRead reports whether the client can name a path. Older servers have let other clients
// create znodes with characters that newer ones refuse. Such a znode is left out.
func (e *engine) mayRead(path string) bool {
	err := framework.ValidatePath(path)
	if err != nil {
		e.log.Warn("cache leaves a znode out", logPath, path, logError, err)
	}
	return err == nil
}

// needsVisit reports whether a walk must visit a path.
func (e *engine) needsVisit(path string, w *walk) bool {
	n := e.nodes[path]
	switch {
	case w.ofPicture: // what is gone from the picture has been read since the sweep began
		return path != e.path && e.picture.has(path)
	case n == nil || !n.busy(): // the events of a znode in the picture report its changes
		return !e.picture.has(path)
	case e.oneShot: // the reply under way may be older than the list, and say that there is no znode
		return true
	default: // or older than the watch, unless it is of this sweep
		return w.task.sweep == 0 || n.flying.sweep != w.task.sweep
	}
}

// visit adds the work of a walk for a path.
func (e *engine) visit(path string, t task) {
	t.work = readData
	switch {
	case e.isListedOnly(path):
		t.work = compare | list
	case e.picture.has(path) && e.next == e.history:
		t.work = compare
	}
	// A list in the same batch saves the round trip after the Stat has shown children.
	if e.oneShot || e.picture.known.isParent(path) {
		t.work |= list
	}
	e.add(e.node(path), t)
}

// visitChildren goes on with the children of a znode after its visit, or has them listed.
func (e *engine) visitChildren(v *visit, stat *framework.Stat) {
	if v.has(list) {
		slices.Sort(v.names) // as folders have them
		e.begin(walk{task: v.then(0), parent: asParent(v.n.path), names: v.names})
		return
	}
	if e.oversized.hasList(v.n.path) {
		if !e.oversized.isList(v.n.path, stat.NumChildren) {
			e.picture.unlisted.Store(e.oversized.lists())
			e.add(v.n, v.then(list))
		}
		return
	}
	// Outside of a sweep each new child has an event of its own, unless watches are one-shot.
	wanted := e.oneShot && v.n.armed.children == nil || e.progress.isOfSweep(v.task) && stat.NumChildren > 0
	if wanted && e.limits.lists(v.n.path) {
		e.add(v.n, v.then(list))
	}
}

// endSweep ends what has no work left: the sweep, and the wait of callers of Fresh.
func (e *engine) endSweep() {
	if e.progress.sweeping && e.progress.left == 0 {
		e.telemetry.resynced(e.progress.began)
		e.progress.endSweep()
		e.history = e.next
		if !e.filled {
			e.filled = true
			e.picture.full()
		}
	}
	for e.progress.wakeCallers(); attempt.IsClosed(e.reading); e.progress.wakeCallers() {
		e.inbox.endReading()
		e.reading = nil
		e.follow()
		e.progress.endEras(e.applied)
	}
}
