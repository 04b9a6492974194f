package cache

import "github.com/gocurator/curator/framework"

// beginSweep begins a walk through the whole tree, which compares it with the picture. It
// takes over from a sweep that is under way.
func (e *engine) beginSweep() {
	e.visit(e.node(e.path), e.progress.beginSweep())
}

// visit adds the work of a sweep, or of a list outside of a sweep, for a node that is listed.
func (e *engine) visit(n *node, t task) {
	if t.sweep != 0 && n.swept == t.sweep {
		return
	}
	// The events of a node in the picture report its changes. But if the node has work, the
	// reply under way may be older than the list, and say that there is no znode.
	if t.sweep == 0 && n.known && n.jobs == nil {
		return
	}
	n.swept = t.sweep
	t.work = readData
	if n.known {
		t.work = compare
	}
	// A list in the same batch saves the round trip after the Stat has shown children.
	if n.folder || e.oneShot {
		t.work |= list
	}
	e.add(n, t)
}

// visitChildren goes on with the children of a znode after its visit, or has them listed.
func (e *engine) visitChildren(v *visit, stat *framework.Stat) {
	if v.has(list) {
		for _, name := range v.names {
			e.visit(e.node(framework.JoinPath(v.n.path, name)), v.then(0))
		}
		return
	}
	if e.single || e.oversized.isList(v.n.path) {
		return
	}
	// Outside of a sweep each new child has an event of its own, unless watches are one-shot.
	if e.oneShot && v.n.armed.children() == nil || e.progress.isOfSweep(v.task) && stat.NumChildren > 0 {
		e.add(v.n, v.then(list))
	}
}

// sweepUnseen has the rest of the picture read that the sweep has not met. These znodes are
// gone, or were created since. It reports whether there are any.
func (e *engine) sweepUnseen() bool {
	for _, n := range e.nodes {
		if n.known && n.swept != e.progress.sweep {
			n.swept = e.progress.sweep
			e.add(n, task{work: readData, era: e.progress.sweepEra, sweep: e.progress.sweep})
		}
	}
	return e.progress.left > 0
}

// settle ends what has no work left: the sweep, and the wait of callers of Fresh.
func (e *engine) settle() {
	for e.progress.sweeping && e.progress.left == 0 && !e.sweepUnseen() {
		e.telemetry.resynced(e.progress.began)
		e.progress.endSweep()
		if !e.filled {
			e.filled = true
			e.picture.full()
		}
	}
	e.progress.wakeCallers()
}
