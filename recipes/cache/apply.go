package cache

import (
	"bytes"
	"errors"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/gocurator/curator/framework"
)

// The keys of what is logged.
const (
	logPath  = "curator.path"
	logError = "error"
)

func (c *CuratorCache) log() *slog.Logger { return c.client.Logger() }

func after(d time.Duration) <-chan time.Time { return time.NewTimer(d).C }

// onEvent runs for each event of the persistent watch.
func (c *CuratorCache) onEvent(e framework.Event) {
	switch e.Type {
	case framework.EventResync:
		c.inbox.add(message{resync: true})
	case zk.EventNodeCreated, zk.EventNodeDataChanged, zk.EventNodeDeleted:
		c.inbox.add(message{path: e.Path, work: readData})
	default: // the children tell of themselves
	}
}

// apply brings the picture up to what a visit has read.
func (e *engine) apply(v *visit) {
	e.keepWatches(v)
	n, stat, err := v.n, v.newest(), v.refusal()
	switch {
	case err != nil:
		e.cache.telemetry.unreadable()
		e.cache.log().Warn("cache cannot read a znode", logPath, n.path, logError, err)
		e.remove(n) // but its watches tell when it may be readable
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
	if !n.known || n.czxid != stat.Czxid || n.mzxid != stat.Mzxid {
		e.readAgain(v, stat)
	}
	e.applyList(v, stat)
}

// readAgain has the data read that a stat shows to be new.
func (e *engine) readAgain(v *visit, stat *framework.Stat) {
	if large := e.tooLarge[v.n.path]; large != nil && large.data {
		if large.of == 0 {
			large.of = stat.Mzxid
		}
		if large.of == stat.Mzxid {
			return
		}
		large.data, large.of = false, 0
	}
	e.add(v.n, v.then(readData))
}

func (e *engine) applyList(v *visit, stat *framework.Stat) {
	if v.has(list) {
		for _, name := range v.names {
			e.visit(e.node(framework.JoinPath(v.n.path, name)), v.then(0))
		}
		return
	}
	isOfSweep := v.task.sweep != 0 && v.task.sweep == e.sweep
	if large := e.tooLarge[v.n.path]; e.cache.cfg.single || large != nil && large.list {
		return
	}
	if e.oneShot && v.n.armed.children() == nil || isOfSweep && stat.NumChildren > 0 {
		e.add(v.n, v.then(list))
	}
}

// has reports whether a kind of work was done, and the znode was there.
func (v *visit) has(w work) bool {
	switch {
	case v.task.work&w == 0:
		return false
	case w == list:
		return v.listErr == nil
	default:
		return !v.absent
	}
}

// then is work that follows from a visit, and counts as part of the same.
func (v *visit) then(w work) task { return task{w, v.task.era, v.task.sweep} }

// newest returns the stat that was read last, nil if there was no znode then.
func (v *visit) newest() *framework.Stat {
	switch {
	case v.task.work&list != 0:
		if v.listErr != nil {
			return nil
		}
		return &v.listStat
	case v.task.work&readData != 0:
		if v.absent {
			return nil
		}
		return &v.dataStat
	default:
		return v.stat
	}
}

// refusal returns why the server has not shown the znode, nil for absence.
func (v *visit) refusal() error {
	for _, err := range []error{v.statErr, v.dataErr, v.listErr} {
		if err != nil && !errors.Is(err, framework.ErrNoNode) {
			return err
		}
	}
	return nil
}

// smallData is up to which size data is copied out of its reply, which would otherwise stay
// in memory with it.
const smallData = 1 << 10

// put stores what was read, if it is new.
func (e *engine) put(v *visit) {
	n := v.n
	if n.known && n.czxid == v.dataStat.Czxid && n.mzxid == v.dataStat.Mzxid {
		return
	}
	data := &ChildData{Path: n.path, Stat: v.dataStat, Data: v.data}
	if len(data.Data) <= smallData {
		data.Data = bytes.Clone(data.Data)
	}
	event := Event{Type: NodeCreated, Path: n.path, New: data}
	if n.known {
		event.Type = NodeChanged
	}
	n.known, n.czxid, n.mzxid = true, data.Stat.Czxid, data.Stat.Mzxid
	e.guarded(func() { event.Old = e.cache.storage.Put(data) })
	e.cache.tell(event)
}

// gone deals with a path where there is no znode.
func (e *engine) gone(v *visit) {
	n := v.n
	n.folder, n.isTooLarge = false, false
	delete(e.tooLarge, n.path)
	e.remove(n)
	switch {
	case n.path != e.cache.path:
		n.armed.cancel() // the list of its parent's children tells of the next one
	case e.oneShot && n.armed.data() == nil:
		e.add(n, v.then(compare)) // whose watch sees the creation
	}
}

// remove takes a path out of the picture, if it is there.
func (e *engine) remove(n *node) {
	if !n.known {
		return
	}
	n.known, n.czxid, n.mzxid = false, 0, 0
	event := Event{Type: NodeDeleted, Path: n.path}
	e.guarded(func() { event.Old = e.cache.storage.Remove(n.path) })
	e.cache.tell(event)
}

// guarded calls a storage, which may be the user's.
func (e *engine) guarded(call func()) {
	defer func() {
		if recovered := recover(); recovered != nil {
			e.cache.log().Error("cache storage panicked", logPath, e.cache.path, "panic", recovered, "stack", string(debug.Stack()))
		}
	}()
	call()
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

func (v *visit) cancelWatches() {
	v.dataWatch.Cancel()
	v.childWatch.Cancel()
}
