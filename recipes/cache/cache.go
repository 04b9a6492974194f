package cache

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/listen"
)

// Errors of this package.
var (
	// ErrClosed reports a call on a cache that is closed.
	ErrClosed = errors.New("cache closed")

	// ErrNotStarted reports a call on a cache before [CuratorCache.Start].
	ErrNotStarted = errors.New("cache not started")
)

var errNilContext = fmt.Errorf("%w: context nil, expected one such as context.Background()", framework.ErrInvalidOption)

// ChildData is a znode of the picture. It must not be changed, as all users share it.
type ChildData struct {
	Path string

	// Stat is the znode's as its data was read. ZooKeeper tells nothing of a new child or a
	// new access control list by itself, so NumChildren, Cversion, Pzxid and Aversion may be
	// older than the rest.
	Stat framework.Stat

	Data []byte
}

// CuratorCache is a picture in memory of a znode and all below it. The package documentation
// has the contract. All methods may be called by any number of goroutines.
type CuratorCache struct {
	client  *framework.Framework
	path    string
	cfg     config
	storage CuratorCacheStorage
	done    chan struct{} // closed when nothing is followed any more
	inbox   inbox

	telemetry *telemetry // used by the engine alone

	listeners *listen.Set[Event]

	mu          sync.Mutex // orders the calls of Notify and Add
	initialized bool
	changed     chan struct{} // closed with the next change; nil while no caller waits
	stop        context.CancelFunc
	closed      bool
	err         error // why done is closed
}

// NewCuratorCache returns a cache of a znode and all below it. Nothing is sent before
// [CuratorCache.Start]. The znode need not exist.
func NewCuratorCache(client *framework.Framework, path string, opts ...Option) (*CuratorCache, error) {
	if client == nil {
		return nil, fmt.Errorf("cache: %w: client nil, expected a *framework.Framework", framework.ErrInvalidOption)
	}
	if err := framework.ValidatePath(path); err != nil {
		return nil, fmt.Errorf("cache: %w", err)
	}
	cfg := config{}
	for _, opt := range opts {
		if opt == nil {
			return nil, fmt.Errorf("cache: %w: option nil, expected one such as SingleNodeCache", framework.ErrInvalidOption)
		}
		if err := opt(&cfg); err != nil {
			return nil, fmt.Errorf("cache: %w", err)
		}
	}
	if cfg.storage == nil {
		cfg.storage = NewStandardStorage()
	}
	telemetry, err := newTelemetry(client, path)
	if err != nil {
		return nil, fmt.Errorf("cache: %w", err)
	}
	c := &CuratorCache{
		client: client, path: path, cfg: cfg, storage: cfg.storage, done: make(chan struct{}), telemetry: telemetry,
	}
	c.inbox.wake = make(chan struct{}, 1)
	c.listeners = listen.New[Event](listen.OnPanic(func(recovered any, stack []byte) {
		client.Logger().Error("cache listener panicked", logPath, path, "panic", recovered, "stack", string(stack))
	}))
	return c, nil
}

// Start begins to fill the picture and returns at once. [CuratorCache.Fresh] waits until it is
// full, and listeners are told with [Initialized]. No server need be in reach. A cache is
// started once.
func (c *CuratorCache) Start() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return c.failed("start", ErrClosed)
	case c.stop != nil:
		return c.failed("start", errors.New("started already"))
	}
	ctx, stop := context.WithCancel(context.Background())
	c.stop = stop
	go c.follow(ctx)
	return nil
}

// follow runs the engine until the cache or the client is closed.
func (c *CuratorCache) follow(ctx context.Context) {
	err := newEngine(c).run(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
	close(c.done)
}

// Close stops following and empties the storage, unless made with [DoNotClearOnClose]. It
// leaves no watch and waits for the goroutines of the cache, but not for listeners, which are
// still told what came before. It may be called more than once, and by listeners.
func (c *CuratorCache) Close() error {
	c.mu.Lock()
	first, stop := !c.closed, c.stop
	c.closed = true
	if stop == nil && first {
		c.err = ErrClosed
		close(c.done)
	}
	c.mu.Unlock()
	if stop != nil {
		stop()
	}
	<-c.done
	if first && !c.cfg.keep {
		c.storage.Clear()
	}
	return nil
}

// Path returns the path that the cache was made with.
func (c *CuratorCache) Path() string { return c.path }

// Get returns what the picture has of a path, and whether it has the path.
func (c *CuratorCache) Get(path string) (*ChildData, bool) { return c.storage.Get(path) }

// Size returns how many znodes are in the picture.
func (c *CuratorCache) Size() int { return c.storage.Size() }

// Stream iterates over the picture as it is when the loop begins, in no particular order.
// Changes that come while the loop runs are not seen by it.
func (c *CuratorCache) Stream() iter.Seq2[string, *ChildData] {
	return func(yield func(string, *ChildData) bool) {
		for data := range c.storage.Stream() {
			if !yield(data.Path, data) {
				return
			}
		}
	}
}

// failed names the cache in an error.
func (c *CuratorCache) failed(verb string, err error) error {
	return fmt.Errorf("cache: %s %s: %w", verb, c.path, err)
}
