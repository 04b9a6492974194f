// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"iter"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/usercode"
	"github.com/gocurator/curator/listen"
)

// picture is what callers see of a cache: the storage, and the listeners of its changes. Only
// the engine changes it.
type picture struct {
	path      string // of the cache
	log       *slog.Logger
	storage   CuratorCacheStorage
	known     *standardStorage // the Stats of what the storage has: itself, unless it is the caller's
	listeners *listen.Set[Event]
	telemetry *telemetry
	inflated  *inflated              // nil unless data is decompressed
	unlisted  atomic.Pointer[string] // a folder whose list is too large, nil if there is none

	mu          sync.Mutex // orders Notify and Add of the listeners
	initialized bool
	changed     chan struct{} // closed with the next change; nil while no caller waits
}

func newPicture(path string, log *slog.Logger, storage CuratorCacheStorage, telemetry *telemetry) *picture {
	known, ours := storage.(*standardStorage)
	if !ours {
		known = newStorage(true)
	}
	return &picture{
		path: path, log: log, storage: storage, known: known, telemetry: telemetry,
		listeners: listen.New[Event](listen.OnPanic(func(recovered any, stack []byte) {
			log.Error("cache listener panicked", logPath, path, "panic", recovered, "stack", string(stack))
		})),
	}
}

func (p *picture) has(path string) bool { return p.known.record(path) != nil }

// children iterates over the children of a folder, as cut returns it.
func (p *picture) children(parent string) iter.Seq2[string, *ChildData] {
	return func(yield func(string, *ChildData) bool) {
		for _, r := range p.known.records(parent) {
			name := string(r.name())
			if name == "" {
				continue // the root is no child of itself
			}
			var data *ChildData
			if path := parent + name; p.isCallers() {
				data, _ = p.storage.Get(path)
			} else {
				data = p.known.childData(path, r)
			}
			if data != nil && !yield(name, data) {
				return
			}
		}
	}
}

// shows reports whether the picture has the state that a Stat of the same history describes. A
// version would not do: a znode that was deleted and created again has the same one.
func (p *picture) shows(path string, stat *framework.Stat) bool {
	r := p.known.record(path)
	if r == nil {
		return false
	}
	have, _ := r.read()
	return have.Czxid == stat.Czxid && have.Mzxid == stat.Mzxid
}

// put stores a state and notifies the listeners.
func (p *picture) put(data *ChildData, event EventType) {
	// Stored first: a listener finds its event, or a newer state, in the picture.
	old := p.store(data)
	p.notify(Event{Type: event, Path: data.Path, Old: old, New: data})
}

func (p *picture) store(data *ChildData) (old *ChildData) {
	if p.isCallers() {
		p.known.Put(data)
	}
	if !p.known.withoutData || p.isCallers() {
		p.inflated.set(data.Path, len(data.Data))
	}
	p.guarded(func() { old = p.storage.Put(data) })
	return old
}

// renew stores the Stat of a state that the picture has from what may be another history. That
// is no news for listeners.
func (p *picture) renew(data *ChildData) {
	have, _ := p.known.record(data.Path).read()
	stat := data.Stat
	// The picture may have older states of other paths.
	have.NumChildren, have.Cversion, have.Pzxid, have.Aversion = stat.NumChildren, stat.Cversion, stat.Pzxid, stat.Aversion
	if have == stat {
		return
	}
	p.store(data)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wakeLocked()
}

// remove removes a path and notifies the listeners, if it is there.
func (p *picture) remove(path string) {
	if !p.has(path) {
		return
	}
	e := Event{Type: NodeDeleted, Path: path}
	if p.isCallers() {
		p.known.Remove(path)
	}
	p.inflated.set(path, 0)
	p.guarded(func() { e.Old = p.storage.Remove(path) })
	p.notify(e)
}

// isCallers reports whether the storage is the caller's. Its code may lose what it is given, so
// the picture does not rely on it.
func (p *picture) isCallers() bool { return p.storage != CuratorCacheStorage(p.known) }

func (p *picture) clear() {
	p.known.Clear()
	p.storage.Clear()
}

// full notifies the listeners that the picture is full for the first time.
func (p *picture) full() { p.notify(Event{Type: Initialized}) }

// guarded calls the storage, whose code may be the user's.
func (p *picture) guarded(call func()) {
	if !p.isCallers() {
		call()
		return
	}
	if panicked := usercode.Apart(call); panicked != nil {
		p.log.Error("cache storage panicked", logPath, p.path, "panic", panicked.Value, "stack", panicked.Stack)
	}
}

func (p *picture) notify(e Event) {
	p.telemetry.event(e.Type)
	p.mu.Lock()
	defer p.mu.Unlock()
	if e.Type == Initialized {
		p.initialized = true
	}
	p.listeners.Notify(e)
	p.wakeLocked()
}

// wakeLocked wakes the callers that wait for a change.
func (p *picture) wakeLocked() {
	if p.changed != nil {
		close(p.changed)
		p.changed = nil
	}
}

// listen adds a listener behind a filter.
func (p *picture) listen(fn func(Event), f filter) *listen.Registration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if fn == nil { // Add panics, where the caller's mistake shows in the stack
		return p.listeners.Add(nil)
	}
	// No lock guards quiet: the calls of one listener follow one another.
	quiet := f.afterInitialized && !p.initialized
	return p.listeners.Add(func(e Event) {
		if e.Type == Initialized {
			quiet = false
		}
		if !quiet && f.accepts(e) {
			fn(e)
		}
	})
}

// nextChange returns a channel that the next change closes.
func (p *picture) nextChange() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.changed == nil {
		p.changed = make(chan struct{})
	}
	return p.changed
}

// inflated counts the decompressed data that a picture keeps. A few kilobytes at the server
// can be a thousand times as long.
type inflated struct {
	limit, total int
	sizes        map[string]int // by path
}

func newInflated(limit int) *inflated { return &inflated{limit: limit, sizes: make(map[string]int)} }

// set notes the size of what the picture keeps for a path, 0 for nothing. It does nothing
// for nil.
func (i *inflated) set(path string, size int) {
	if i == nil {
		return
	}
	i.total += size - i.sizes[path]
	if size == 0 {
		delete(i.sizes, path)
		return
	}
	i.sizes[path] = size
}
