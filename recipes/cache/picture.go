package cache

import (
	"log/slog"
	"runtime/debug"
	"sync"

	"github.com/gocurator/curator/listen"
)

// The keys of what is logged.
const (
	logPath  = "curator.path"
	logError = "error"
)

// picture is what callers see of a cache: the storage, and the listeners of its changes. Only
// the engine changes it.
type picture struct {
	path      string // of the cache
	log       *slog.Logger
	storage   CuratorCacheStorage
	listeners *listen.Set[Event]
	telemetry *telemetry

	mu          sync.Mutex // orders Notify and Add of the listeners
	initialized bool
	changed     chan struct{} // closed with the next change; nil while no caller waits
}

func newPicture(path string, log *slog.Logger, storage CuratorCacheStorage, telemetry *telemetry) *picture {
	return &picture{
		path: path, log: log, storage: storage, telemetry: telemetry,
		listeners: listen.New[Event](listen.OnPanic(func(recovered any, stack []byte) {
			log.Error("cache listener panicked", logPath, path, "panic", recovered, "stack", string(stack))
		})),
	}
}

// put stores a state and notifies the listeners.
func (p *picture) put(data *ChildData, event EventType) {
	e := Event{Type: event, Path: data.Path, New: data}
	// Stored first: a listener finds its event, or a newer state, in the picture.
	p.guarded(func() { e.Old = p.storage.Put(data) })
	p.notify(e)
}

// remove removes a path and notifies the listeners.
func (p *picture) remove(path string) {
	e := Event{Type: NodeDeleted, Path: path}
	p.guarded(func() { e.Old = p.storage.Remove(path) })
	p.notify(e)
}

// full notifies the listeners that the picture is full for the first time.
func (p *picture) full() { p.notify(Event{Type: Initialized}) }

// guarded calls the storage, whose code may be the user's.
func (p *picture) guarded(call func()) {
	defer func() {
		if recovered := recover(); recovered != nil {
			p.log.Error("cache storage panicked", logPath, p.path, "panic", recovered, "stack", string(debug.Stack()))
		}
	}()
	call()
}

func (p *picture) notify(e Event) {
	p.telemetry.event(e.Type)
	p.mu.Lock()
	defer p.mu.Unlock()
	if e.Type == Initialized {
		p.initialized = true
	}
	p.listeners.Notify(e)
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
