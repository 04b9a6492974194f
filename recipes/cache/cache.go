// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/listen"
	"github.com/gocurator/curator/recipes/internal/attempt"
)

// CuratorCache is a picture in memory of a znode and all znodes below it. The package
// documentation has the contract. All methods are safe for concurrent use.
type CuratorCache struct {
	client  *framework.Framework
	path    string
	cfg     config
	picture *picture
	inbox   *inbox
	done    chan struct{} // closed when the engine has ended

	mu     sync.Mutex
	stop   context.CancelFunc
	closed bool
	err    error // why done is closed
}

// NewCuratorCache returns a cache of a znode and all below it, or of the part that options such
// as [WithMaxDepth] select. Nothing is sent before [CuratorCache.Start]. The znode need not exist.
func NewCuratorCache(client *framework.Framework, path string, opts ...Option) (*CuratorCache, error) {
	if err := attempt.Check(client, path); err != nil {
		return nil, fmt.Errorf("cache: %w", err)
	}
	cfg := config{limits: newLimits(path, client.Logger()), inflated: DefaultMaxDecompressedSize}
	for _, opt := range opts {
		if opt == nil {
			return nil, fmt.Errorf("cache: %w: option nil, expected one such as SingleNodeCache", framework.ErrInvalidOption)
		}
		if err := opt(&cfg); err != nil {
			return nil, fmt.Errorf("cache: %w", err)
		}
	}
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("cache: %w", err)
	}
	if cfg.storage == nil {
		cfg.storage = NewStandardStorage()
	}
	telemetry, err := newTelemetry(client, path)
	if err != nil {
		return nil, fmt.Errorf("cache: %w", err)
	}
	picture := newPicture(path, client.Logger(), cfg.storage, telemetry)
	if cfg.compressed || client.CompressionEnabled() {
		picture.inflated = newInflated(cfg.inflated)
	}
	return &CuratorCache{client: client, path: path, cfg: cfg, inbox: newInbox(), done: make(chan struct{}), picture: picture}, nil
}

// Start begins to fill the picture and returns at once. No server need be in reach.
// [CuratorCache.Fresh] waits until the picture is full; listeners get [Initialized] then. A
// second Start fails.
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

func newEngine(c *CuratorCache) *engine {
	return &engine{
		client: c.client, path: c.path, limits: c.cfg.limits, log: c.client.Logger(), picture: c.picture, inbox: c.inbox, telemetry: c.picture.telemetry,
		backlog: backlog{nodes: make(map[string]*node), oversized: make(oversized), progress: newProgress()}, window: window{size: 1},
	}
}

// follow runs an engine until the cache or the client is closed.
func (c *CuratorCache) follow(ctx context.Context) {
	e := newEngine(c)
	if c.picture.known.Size() == 0 { // and not a picture that another cache has filled
		e.history = c.client.History()
	}
	err := e.run(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
	close(c.done)
}

// Close stops following and empties the storage, except with [DoNotClearOnClose]. It blocks
// until the goroutines of the cache have ended, and leaves no watch. It does not wait for
// listeners: they still get the events that came before. [CuratorCache.Err] distinguishes a
// closed cache from a tree without znodes. Close may be called more than once, and by listeners.
// The error is always nil.
func (c *CuratorCache) Close() error {
	c.mu.Lock()
	first, stop := !c.closed, c.stop
	c.closed = true
	if stop == nil && first { // there is no engine to close done
		c.err = ErrClosed
		close(c.done)
	}
	c.mu.Unlock()
	if stop != nil {
		stop()
	}
	<-c.done
	if first && !c.cfg.keep {
		c.picture.clear()
	}
	return nil
}

// Err returns nil while the cache follows the server, which it may not reach at the moment.
// Otherwise it returns [ErrNotStarted], [ErrClosed], or why the cache has ended, such as
// [framework.ErrClosed]. The picture is empty or out of date then.
func (c *CuratorCache) Err() error {
	if err := c.running(); err != nil {
		return err
	}
	if attempt.IsClosed(c.done) {
		return c.whyDone()
	}
	return nil
}

// Path returns the path that the cache was made with.
func (c *CuratorCache) Path() string { return c.path }

// Get returns the state of a path in the picture, and reports whether the picture has the
// path. It sends nothing.
func (c *CuratorCache) Get(path string) (*ChildData, bool) { return c.picture.storage.Get(path) }

// Lag returns how long ago the cache heard of the oldest change that its picture lacks, and 0 if
// there is none. Changes while the client is cut off count only once the client is back.
func (c *CuratorCache) Lag() time.Duration { return c.inbox.lag() }

// Size returns the number of znodes in the picture.
func (c *CuratorCache) Size() int { return c.picture.storage.Size() }

// Stream iterates over the picture as it is when the loop begins, in no particular order. The
// loop does not see later changes.
func (c *CuratorCache) Stream() iter.Seq2[string, *ChildData] {
	return func(yield func(string, *ChildData) bool) {
		for data := range c.picture.storage.Stream() {
			if !yield(data.Path, data) {
				return
			}
		}
	}
}

// Children iterates over the children of a path in the picture, by name, as they are when the
// loop begins, in no particular order. It takes time for these children only, however large the
// picture is. The path itself need not be in the picture. Curator calls this getCurrentChildren.
func (c *CuratorCache) Children(path string) iter.Seq2[string, *ChildData] {
	return func(yield func(string, *ChildData) bool) {
		if framework.ValidatePath(path) == nil {
			c.picture.children(asParent(path))(yield)
		}
	}
}

// Listen calls fn with every later event; package listen has the contract. A listener that
// must see the first fill is added before [CuratorCache.Start]. Listen panics if fn or an option is nil.
func (c *CuratorCache) Listen(fn func(Event), opts ...ListenOption) *listen.Registration {
	var f filter
	for _, opt := range opts {
		if opt == nil {
			panic("cache: Listen with a nil option, expected one such as AfterInitialized")
		}
		opt(&f)
	}
	return c.picture.listen(fn, f)
}

// failed names the cache in an error.
func (c *CuratorCache) failed(verb string, err error) error {
	return fmt.Errorf("cache: %s %s: %w", verb, c.path, err)
}
