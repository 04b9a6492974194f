// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"bytes"
	"fmt"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/internal/attempt"
)

// smallData is the size in bytes up to which an event's data is copied out of its reply.
// Otherwise the whole reply stays in memory with the data.
const smallData = 1 << 10

// apply changes the picture to what a visit has read.
func (e *engine) apply(v *visit) {
	e.keepWatches(v)
	if e.picture.inflated != nil {
		e.decompress(v)
	}
	n, stat, err := v.n, v.newest(), v.refusal()
	switch {
	case err != nil:
		e.refused(v, stat, err)
		return
	case stat == nil:
		e.gone(v)
		return
	}
	if v.task.work&compare != 0 && !e.isListedOnly(n.path) && (v.stat != nil || v.has(readData)) { // and not a list alone
		e.tally.all++
		if !e.picture.shows(n.path, stat) {
			e.tally.changed++
		}
	}
	if v.has(readData) {
		e.put(v)
		e.size = max(1, (15*e.size+len(v.data))/16)
	}
	if !e.isListedOnly(n.path) && !e.picture.shows(n.path, stat) && !e.oversized.isData(n.path, stat.Mzxid) {
		e.add(n, v.then(readData))
	}
	e.visitChildren(v, stat)
}

// refused deals with a znode that cannot be read, or not now.
func (e *engine) refused(v *visit, stat *framework.Stat, err error) {
	n := v.n
	if attempt.RefusedForNow(err) {
		if e.paused == nil { // not for each znode of a batch
			e.log.Warn("cache cannot read", logPath, n.path, logError, err)
		}
		e.paused = time.After(pause)
		e.add(n, v.then(v.task.work))
		return
	}
	e.telemetry.unreadable.Add(1)
	e.log.Warn("cache cannot read a znode", logPath, n.path, logError, err)
	e.picture.remove(n.path) // its watches stay, and report when it may be readable
	if e.oneShot && n.armed.data == nil && v.statErr == nil {
		e.add(n, v.then(compare)) // the failed read has set no watch, a request for the Stat does
	}
	if v.isBadData() {
		e.oversized.addData(n.path, v.dataStat.Mzxid) // the next try would end as this one did
		e.visitChildren(v, stat)
	}
}

// put stores the data of a visit, if it is new.
func (e *engine) put(v *visit) {
	if v.known {
		return
	}
	inHistory := e.client.History() == e.history
	if inHistory && e.picture.shows(v.n.path, &v.dataStat) {
		return // listeners get no state twice
	}
	data := &ChildData{Path: v.n.path, Stat: v.dataStat, Data: v.data}
	if len(data.Data) <= smallData {
		data.Data = bytes.Clone(data.Data)
	}
	switch {
	case !inHistory && e.picture.known.hasContent(data):
		e.picture.renew(data)
		return
	case e.picture.has(data.Path):
		e.picture.put(data, NodeChanged)
		return
	}
	e.picture.put(data, NodeCreated)
	// A sweep visits what the picture had when the sweep began, and the children of what it
	// did not have.
	if e.progress.sweeping {
		v.task.sweep = e.progress.sweep
		if e.applied <= e.swept { // the read may be older than the watch
			e.visit(v.n.path, v.then(0))
		}
	}
}

// gone deals with a path without a znode.
func (e *engine) gone(v *visit) {
	n := v.n
	if e.oversized.hasList(n.path) {
		delete(e.oversized, n.path)
		e.picture.unlisted.Store(e.oversized.lists())
	}
	delete(e.oversized, n.path)
	e.picture.remove(n.path)
	switch {
	case n.path != e.path:
		n.armed.cancel() // the list of the parent's children shows the next znode
	case e.oneShot && n.armed.data == nil:
		e.add(n, v.then(compare)) // its watch sees the creation of the root
	}
}

// keepWatches takes over the one-shot watches of a visit.
func (e *engine) keepWatches(v *visit) {
	if !e.oneShot { // there has been a persistent one since the read
		v.cancelWatches()
		return
	}
	v.n.armed.keep(v.dataWatch, v.childWatch)
	for _, w := range []*framework.Watch{v.dataWatch, v.childWatch} {
		switch {
		case w == nil:
		case e.applied <= e.asked && attempt.IsClosed(w.Fired()):
			e.watchesEnded([]*framework.Watch{w}, true) // with the connection before the one whose server was asked
		default:
			e.fired.Add(w)
		}
	}
}

// decompress decompresses the data of a visit. It is done here, not with the read, so that
// one znode at a time is decompressed and not all that are under way.
func (e *engine) decompress(v *visit) {
	if !v.has(readData) || v.dataErr != nil || len(v.data) == 0 {
		return
	}
	if e.client.History() == e.history && e.picture.shows(v.n.path, &v.dataStat) {
		v.known = true // whatever the history is by the time of put
		return
	}
	v.dataErr = attempt.Guard(e.client, func() (err error) {
		v.data, err = e.client.Decompress(v.n.path, v.data)
		return err
	})
	i := e.picture.inflated
	if all := i.total - i.sizes[v.n.path] + len(v.data); v.dataErr == nil && all > i.limit {
		v.dataErr = fmt.Errorf("%w: with the %d bytes of this znode the cache has %d bytes of decompressed data, at most %d are kept",
			framework.ErrCompression, len(v.data), all, i.limit)
		v.data = nil
	}
}
