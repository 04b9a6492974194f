package discovery

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/listen"
	"github.com/gocurator/curator/recipes/cache"
	"github.com/gocurator/curator/recipes/internal/attempt"
)

// ServiceCache keeps the instances of one service in memory and follows their
// changes. While the client is cut off it keeps the last known ones, and
// [ServiceCache.Age] says how old they are. It is Curator's class of that name.
//
// It is safe for concurrent use.
type ServiceCache[T any] struct {
	discovery *ServiceDiscovery[T]
	name      string
	cache     *cache.CuratorCache
	changes   *listen.Set[[]*ServiceInstance[T]]
	current   atomic.Pointer[[]*ServiceInstance[T]]

	// Of the listener's goroutine.
	byPath map[string]*ServiceInstance[T]
	full   bool

	filled context.Context // ends when the first picture is full
	fill   context.CancelFunc
	life   context.Context
	end    context.CancelCauseFunc

	mu            sync.Mutex
	registrations []*listen.Registration
	started       bool
	since         time.Time // when the picture was last known to be current, zero while it is
	losses        int       // of the connection, since the cache was started
}

// NewCache returns a cache of the instances of a service. It sends nothing.
func (d *ServiceDiscovery[T]) NewCache(name string) (*ServiceCache[T], error) {
	if err := framework.ValidatePath(d.pathOf(name, "id")); err != nil {
		return nil, fmt.Errorf("discovery: service %q: %w", name, err)
	}
	picture, err := cache.NewCuratorCache(d.client, framework.JoinPath(d.path, name))
	if err != nil {
		return nil, fmt.Errorf("discovery: service %q: %w", name, err)
	}
	c := &ServiceCache[T]{
		discovery: d, name: name, cache: picture, changes: new(listen.Set[[]*ServiceInstance[T]]),
		byPath: map[string]*ServiceInstance[T]{}, since: time.Now(),
	}
	c.filled, c.fill = context.WithCancel(context.Background())
	c.current.Store(new([]*ServiceInstance[T]))
	c.life, c.end = context.WithCancelCause(context.Background())
	return c, nil
}

// Start begins to follow the service and blocks until its instances are known.
// A Start whose ctx ends fails, and the cache goes on: see [ServiceCache.Wait].
// A cache is started once.
func (c *ServiceCache[T]) Start(ctx context.Context) error {
	c.mu.Lock()
	switch {
	case c.life.Err() != nil:
		c.mu.Unlock()
		return fmt.Errorf("discovery: start cache of %s: %w", c.name, ErrClosed)
	case c.started:
		c.mu.Unlock()
		return fmt.Errorf("discovery: start cache of %s: started already", c.name)
	}
	c.started = true
	c.registrations = []*listen.Registration{
		c.cache.Listen(c.apply),
		c.discovery.client.OnConnectionState(c.connected),
	}
	c.mu.Unlock()
	if err := c.discovery.telemetry.follow(c, c.Age); err != nil {
		return fmt.Errorf("discovery: start cache of %s: %w", c.name, err)
	}
	if err := c.cache.Start(); err != nil {
		return fmt.Errorf("discovery: start cache of %s: %w", c.name, err)
	}
	return c.Wait(ctx)
}

// Wait blocks until the instances are known for the first time. It fails when
// ctx ends, and when the cache or the client is closed before that.
func (c *ServiceCache[T]) Wait(ctx context.Context) error {
	if ctx == nil {
		return fmt.Errorf("discovery: cache of %s: %w", c.name, attempt.ErrNilContext)
	}
	waiting, stop := context.WithCancel(ctx)
	defer stop()
	forget := context.AfterFunc(c.filled, stop) // listeners lag behind the picture
	defer forget()
	err := c.cache.WaitFor(waiting, func(*cache.CuratorCache) bool { return c.filled.Err() != nil })
	switch {
	case c.filled.Err() != nil:
		return nil
	case ctx.Err() != nil:
		err = attempt.Interrupted(ctx)
	case c.life.Err() != nil:
		err = ErrClosed
	}
	return fmt.Errorf("discovery: cache of %s: %w", c.name, err)
}

// apply takes an event of the picture.
func (c *ServiceCache[T]) apply(e cache.Event) {
	parent, _ := framework.SplitPath(e.Path)
	switch {
	case e.Type == cache.Initialized:
		c.full = true
	case parent != c.cache.Path():
		return // the service itself, or what is below an instance
	case e.Type == cache.NodeDeleted:
		delete(c.byPath, e.Path)
	default:
		instance, ok := c.discovery.read(e.Path, e.New.Data)
		if !ok {
			delete(c.byPath, e.Path)
			break
		}
		c.byPath[e.Path] = &instance
	}
	if !c.full {
		return
	}
	instances := make([]*ServiceInstance[T], 0, len(c.byPath))
	for _, path := range slices.Sorted(maps.Keys(c.byPath)) {
		instances = append(instances, c.byPath[path])
	}
	c.discovery.telemetry.seen(int64(len(instances) - len(*c.current.Swap(&instances))))
	c.changes.Notify(instances)
	if e.Type == cache.Initialized && !c.complete() {
		c.catchUp()
	}
}

// complete notes that the first picture is full, and reports whether it is current: if the connection
// has lasted.
func (c *ServiceCache[T]) complete() (current bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.losses == 0 {
		c.since = time.Time{}
	}
	c.fill()
	return c.losses == 0
}

// connected takes a change of the connection. It does not wait for the first picture, which may be full
// only after the connection is lost again.
func (c *ServiceCache[T]) connected(s framework.ConnectionState) {
	if s.IsConnected() {
		if c.isBehind() {
			c.catchUp()
		}
		return
	}
	session := c.discovery.client.Session()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.losses++
	if c.since.IsZero() {
		c.since = time.Now()
		if session != nil { // the server was heard from a while before the loss was noticed
			c.since = session.Deadline().Add(-session.Timeout())
		}
	}
}

// isBehind reports whether the picture is full, and may lack changes.
func (c *ServiceCache[T]) isBehind() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.filled.Err() != nil && !c.since.IsZero()
}

// catchUp blocks until a full picture has what was committed while the client was cut off. It is current
// then, unless the connection has been lost meanwhile.
func (c *ServiceCache[T]) catchUp() {
	c.mu.Lock()
	losses := c.losses
	c.mu.Unlock()
	if c.cache.Fresh(c.life) != nil || !c.discovery.client.State().IsConnected() {
		return // the next connection tries again
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.losses == losses {
		c.since = time.Time{}
	}
}

// Name returns the name of the service.
func (c *ServiceCache[T]) Name() string { return c.name }

// Instances returns the instances that this process knows, in the order of
// their znodes. It sends nothing and allocates nothing. The result must not be
// changed, and does not change by itself.
func (c *ServiceCache[T]) Instances() []*ServiceInstance[T] { return *c.current.Load() }

// Age returns how old the instances may be: 0 while the client is connected and
// follows, otherwise the time since a server was last heard from.
func (c *ServiceCache[T]) Age() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.since.IsZero() {
		return 0
	}
	return time.Since(c.since)
}

// OnChange calls fn with all instances whenever they have changed, in order, on
// a goroutine of its own; see package listen. They must not be changed.
func (c *ServiceCache[T]) OnChange(fn func([]*ServiceInstance[T])) *listen.Registration {
	return c.changes.Add(fn)
}

// Close stops following. It leaves no watch and no goroutine. The last known
// instances stay. A second Close does nothing.
func (c *ServiceCache[T]) Close() error {
	c.end(ErrClosed)
	c.mu.Lock()
	registrations := c.registrations
	c.registrations = nil
	c.mu.Unlock()
	err := c.cache.Close()
	for _, registration := range registrations {
		registration.Remove()
		<-registration.Done()
	}
	if registrations != nil { // followed until now
		c.discovery.telemetry.seen(-int64(len(c.Instances())))
	}
	if errors.Is(err, cache.ErrClosed) {
		err = nil
	}
	if err = errors.Join(err, c.discovery.telemetry.unfollow(c)); err != nil {
		return fmt.Errorf("discovery: close cache of %s: %w", c.name, err)
	}
	return nil
}
