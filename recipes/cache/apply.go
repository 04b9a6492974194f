package cache

import (
	"bytes"

	"github.com/gocurator/curator/framework"
)

// smallData is the size in bytes up to which data is copied out of its reply. Otherwise the
// whole reply stays in memory with the data.
const smallData = 1 << 10

// apply changes the picture to what a visit has read.
func (e *engine) apply(v *visit) {
	e.keepWatches(v)
	n, stat, err := v.n, v.newest(), v.refusal()
	switch {
	case err != nil:
		e.telemetry.unreadable()
		e.log.Warn("cache cannot read a znode", logPath, n.path, logError, err)
		e.remove(n) // its watches stay, and report when it may be readable
		return
	case stat == nil:
		e.gone(v)
		return
	}
	if v.has(readData) {
		e.put(v)
		e.size = max(1, (15*e.size+len(v.data))/16)
	}
	n.folder = stat.NumChildren > 0
	if !n.shows(stat) && !e.oversized.isData(n.path, stat.Mzxid) {
		e.add(n, v.then(readData))
	}
	e.visitChildren(v, stat)
}

// put stores the data of a visit, if it is new.
func (e *engine) put(v *visit) {
	n := v.n
	if n.shows(&v.dataStat) {
		return // listeners get no state twice
	}
	data := &ChildData{Path: n.path, Stat: v.dataStat, Data: v.data}
	if len(data.Data) <= smallData {
		data.Data = bytes.Clone(data.Data)
	}
	event := NodeCreated
	if n.known {
		event = NodeChanged
	}
	n.known, n.czxid, n.mzxid = true, data.Stat.Czxid, data.Stat.Mzxid
	e.picture.put(data, event)
}

// gone deals with a path without a znode.
func (e *engine) gone(v *visit) {
	n := v.n
	n.folder = false
	delete(e.oversized, n.path)
	e.remove(n)
	switch {
	case n.path != e.path:
		n.armed.cancel() // the list of the parent's children shows the next znode
	case e.oneShot && n.armed.data() == nil:
		e.add(n, v.then(compare)) // its watch sees the creation of the root
	}
}

// remove removes a path from the picture, if it is there.
func (e *engine) remove(n *node) {
	if !n.known {
		return
	}
	n.known, n.czxid, n.mzxid = false, 0, 0
	e.picture.remove(n.path)
}

// keepWatches takes over the one-shot watches of a visit.
func (e *engine) keepWatches(v *visit) {
	v.n.armed.keep(v.dataWatch, v.childWatch)
	for _, w := range []*framework.Watch{v.dataWatch, v.childWatch} {
		if w != nil {
			e.fired.Add(w)
		}
	}
}
