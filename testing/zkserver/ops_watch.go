// SPDX-License-Identifier: Apache-2.0

package zkserver

// Modes of addWatch (ZooDefs.AddWatchModes).
const (
	addPersistent = 0
	addRecursive  = 1
)

// addWatch sets a watch that stays. The path need not exist.
func (x *call) addWatch() code {
	path, mode := x.in.string(), x.in.int32()
	if x.in.bad {
		return codeMarshalling
	}
	switch mode {
	case addPersistent:
		x.s.watchStaying(x.c, path, watchPersistent)
	case addRecursive:
		x.s.watchStaying(x.c, path, watchRecursive)
	default:
		return codeMarshalling
	}
	if !x.s.cfg.keeper {
		x.out.int32(0)
	}
	return codeOK
}

// anyWatch is every mode a watch can have.
const anyWatch = watchStandard | watchPersistent | watchRecursive

// watchType reads which watches a request means: the modes in the data table and the modes in the children table.
// The numbers are Watcher.WatcherType's.
func (x *call) watchType() (path string, data, children watchMode) {
	path = x.in.string()
	switch x.in.int32() {
	case 1:
		return path, 0, watchStandard
	case 2:
		return path, watchStandard, 0
	case 3:
		return path, anyWatch, anyWatch
	case 4:
		return path, watchPersistent, watchPersistent
	case 5:
		return path, watchRecursive, 0
	}
	x.in.bad = true
	return "", 0, 0
}

func (x *call) removeWatches() code {
	path, data, children := x.watchType()
	if x.in.bad {
		return codeMarshalling
	}
	fromData := x.s.watches.data.remove(path, x.c, data)
	fromChildren := x.s.watches.children.remove(path, x.c, children)
	if !fromData && !fromChildren {
		return codeNoWatcher
	}
	return codeOK
}

func (x *call) checkWatches() code {
	path, data, children := x.watchType()
	if x.in.bad {
		return codeMarshalling
	}
	if !x.s.watches.data.has(path, x.c, data) && !x.s.watches.children.has(path, x.c, children) {
		return codeNoWatcher
	}
	return codeOK
}

// setWatches sets the watches of an earlier connection again. A change after the zxid that the client has seen
// last is reported at once instead (DataTree.setWatches).
func (x *call) setWatches() code {
	seen := x.in.int64()
	data, exist, children := x.in.strings(), x.in.strings(), x.in.strings()
	var persistent, recursive []string
	if x.op == OpSetWatches2 {
		persistent, recursive = x.in.strings(), x.in.strings()
	}
	if x.in.bad {
		return codeMarshalling
	}
	for _, path := range data {
		x.rewatch(path, eventDataChanged, func(n *node) bool { return n.mzxid > seen })
	}
	for _, path := range exist {
		if n := x.s.view(x.c).lookup(path); n != nil {
			x.c.notify(event{kind: eventCreated, path: path})
		} else {
			x.s.watchOnce(x.c, path, &x.s.watches.data)
		}
	}
	for _, path := range children {
		x.rewatch(path, eventChildrenChanged, func(n *node) bool { return n.pzxid > seen })
	}
	for _, path := range persistent {
		x.s.watchStaying(x.c, path, watchPersistent)
	}
	for _, path := range recursive {
		x.s.watchStaying(x.c, path, watchRecursive)
	}
	return codeOK
}

// rewatch sets a watch on a node that existed when the watch was first set, or reports what has happened to the
// node.
func (x *call) rewatch(path string, kind eventKind, changed func(*node) bool) {
	n := x.s.view(x.c).lookup(path)
	switch {
	case n == nil:
		x.c.notify(event{kind: eventDeleted, path: path})
	case changed(n):
		x.c.notify(event{kind: kind, path: path})
	case kind == eventDataChanged:
		x.s.watchOnce(x.c, path, &x.s.watches.data)
	default:
		x.s.watchOnce(x.c, path, &x.s.watches.children)
	}
}
