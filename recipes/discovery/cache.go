// SPDX-License-Identifier: Apache-2.0

package discovery

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
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
// [ServiceDiscovery.NewCache] makes one. It is safe for concurrent use.
type ServiceCache[T any] struct {
	discovery *ServiceDiscovery[T]
	name      string
	filters   []func(*ServiceInstance[T]) bool
	cache     *cache.CuratorCache
	gaps      *listen.Set[struct{}] // calls catchUp
	changes   *listen.Set[struct{}]
	current   atomic.Pointer[entries[T]] // see entries

	filled context.Context // ends when the first picture is full
	fill   context.CancelFunc
	life   context.Context
	end    context.CancelCauseFunc

	mu            sync.Mutex
	all           entries[T] // in the picture of cache; none once closed
	registrations []*listen.Registration
	started       bool
	since         time.Time // when the picture was last known to be current, zero while it is
	losses        int       // of the connection, since the cache was started
}

// NewCache returns a cache of the instances of a service that all filters accept. A filter is
// asked once for each change of an instance. An instance that makes it panic is left out and
// logged. NewCache sends nothing.
func (d *ServiceDiscovery[T]) NewCache(name string, filters ...func(*ServiceInstance[T]) bool) (*ServiceCache[T], error) {
	if err := framework.ValidatePath(d.pathOf(name, "id")); err != nil {
		return nil, fmt.Errorf("discovery: service %q: %w", name, err)
	}
	for i, filter := range filters {
		if filter == nil {
			return nil, fmt.Errorf("discovery: service %q: filter %d nil, expected a function", name, i)
		}
	}
	path := framework.JoinPath(d.path, name)
	onPanic := attempt.LogPanics(d.client, path, "a listener of instances panicked")
	c := &ServiceCache[T]{
		discovery: d, name: name, filters: slices.Clone(filters), since: time.Now(),
		gaps: listen.New[struct{}](listen.Latest(), onPanic), changes: listen.New[struct{}](listen.Latest(), onPanic),
	}
	picture, err := cache.NewCuratorCache(d.client, path, cache.WithChildrenOnly(), cache.WithStorage(storage[T]{cache.NewStandardStorage(), c}))
	if err != nil {
		return nil, fmt.Errorf("discovery: service %q: %w", name, err)
	}
	c.cache = picture
	c.filled, c.fill = context.WithCancel(context.Background())
	c.life, c.end = context.WithCancelCause(context.Background())
	return c, nil
}

// Start begins to follow the service and returns at once. No server need be reachable.
// [ServiceCache.Wait] waits until the instances are known. A second Start fails.
func (c *ServiceCache[T]) Start() error {
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
		c.cache.Listen(func(cache.Event) { c.complete() }, cache.For(cache.Initialized)),
		c.discovery.client.OnConnectionState(c.connected),
		c.gaps.Add(func(struct{}) { c.catchUp() }),
	}
	c.mu.Unlock()
	if err := c.discovery.telemetry.follow(c, c.Age); err != nil {
		return fmt.Errorf("discovery: start cache of %s: %w", c.name, err)
	}
	return attempt.Wrapf(c.cache.Start(), "discovery: start cache of %s", c.name)
}

// Wait blocks until the instances are known for the first time. It fails when
// ctx ends, and when the cache is not started, or it or the client is closed before that.
func (c *ServiceCache[T]) Wait(ctx context.Context) error {
	if ctx == nil {
		return fmt.Errorf("discovery: cache of %s: %w", c.name, attempt.ErrNilContext)
	}
	if err := c.cache.Err(); errors.Is(err, ErrNotStarted) {
		return fmt.Errorf("discovery: cache of %s: %w", c.name, err)
	}
	waiting, stop := context.WithCancel(ctx)
	defer stop()
	forget := context.AfterFunc(c.filled, stop) // instances are read after the picture is full
	defer forget()
	err := c.cache.WaitFor(waiting, func(*cache.CuratorCache) bool { return c.filled.Err() != nil })
	switch {
	case c.life.Err() != nil:
		err = ErrClosed
	case c.filled.Err() != nil:
		return nil
	case ctx.Err() != nil:
		err = attempt.Interrupted(ctx)
	}
	return fmt.Errorf("discovery: cache of %s: %w", c.name, err)
}

// put takes over the data of a znode. An instance whose data is the same stays the same.
func (c *ServiceCache[T]) put(path string, data []byte) {
	c.mu.Lock()
	before := c.all.at(path)
	c.mu.Unlock()
	sum := maphash.Bytes(seed, data)
	if before != nil && before.sum == sum {
		return
	}
	var after *entry[T]
	if instance := c.read(path, data); instance != nil {
		after = &entry[T]{path: path, sum: sum, instance: instance}
	}
	c.set(path, after)
}

// set replaces the entry of a path, nil for none. Only the cache below calls it, one call at a time.
func (c *ServiceCache[T]) set(path string, after *entry[T]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.life.Err() != nil || after == nil && c.all.at(path) == nil {
		return
	}
	before := len(c.all)
	c.all = c.all.with(path, after)
	c.discovery.telemetry.instances.Add(int64(len(c.all) - before))
	if c.filled.Err() != nil {
		c.changedLocked()
	}
}

func (c *ServiceCache[T]) changedLocked() {
	c.current.Store(nil)
	c.changes.Notify(struct{}{})
}

// entries returns the list of the entries, which is made when it is asked for: of many changes at once, most need
// none. It is the same one while nothing changes, and empty before the first picture is full.
func (c *ServiceCache[T]) entries() *entries[T] {
	if known := c.current.Load(); known != nil {
		return known
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.current.Load()
	if known == nil {
		known = new(entries[T])
		if c.filled.Err() != nil {
			*known = slices.Clone(c.all)
		}
		c.current.Store(known)
	}
	return known
}

// read returns the instance in the data of a znode, nil for none that the filters accept.
func (c *ServiceCache[T]) read(path string, data []byte) *ServiceInstance[T] {
	var instance ServiceInstance[T]
	accepted := true
	err := attempt.Catch(func() (err error) {
		instance, err = c.discovery.serializer.Deserialize(data)
		for i := 0; err == nil && accepted && i < len(c.filters); i++ {
			accepted = c.filters[i](&instance)
		}
		return err
	})
	switch {
	case err != nil:
		c.discovery.leaveOut(path, data, err)
		return nil
	case !accepted:
		return nil
	default:
		return &instance
	}
}

// complete notes that the first picture is full. It is current if the connection has lasted.
func (c *ServiceCache[T]) complete() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.life.Err() != nil { // Close has emptied it
		return
	}
	c.changedLocked() // first: a caller of Wait must not find the empty list any more
	c.fill()
	if c.losses == 0 {
		c.since = time.Time{}
	} else {
		c.gaps.Notify(struct{}{})
	}
}

// connected takes a change of the connection. It does not wait for the first picture, which may be full
// only after the connection is lost again.
func (c *ServiceCache[T]) connected(s framework.ConnectionState) {
	if s.IsConnected() {
		if c.isBehind() {
			c.gaps.Notify(struct{}{})
		}
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.losses++
	if c.since.IsZero() {
		c.since = c.lastHeard()
	}
}

// lastHeard returns when a server was last heard from, which is a while before a loss is noticed.
func (c *ServiceCache[T]) lastHeard() time.Time {
	session := c.discovery.client.Session()
	var lost *framework.LostError
	switch {
	case session == nil:
		return time.Now()
	case errors.As(session.Err(), &lost) && lost.Reason == framework.ReasonClosed:
		return session.Deadline() // it has ended then
	default:
		return session.Deadline().Add(-session.Timeout())
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
	if c.losses == losses && c.life.Err() == nil {
		c.since = time.Time{}
	}
}

// Name returns the name of the service.
func (c *ServiceCache[T]) Name() string { return c.name }

// Instances returns the instances that this process knows, in the order of
// their znodes, and none after Close. It sends nothing. The list is the caller's. The
// instances are shared and must not be changed.
func (c *ServiceCache[T]) Instances() []*ServiceInstance[T] { return c.entries().instances() }

// Age returns how old the instances may be. It is 0 while the client is connected and the instances
// have all changes that this process has heard of. Otherwise it is the longest of three times: since
// a server last answered, since this process learned of the oldest change that is not among the
// instances yet, and since Close.
func (c *ServiceCache[T]) Age() time.Duration {
	connected := c.discovery.client.State().IsConnected()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !connected && c.since.IsZero() { // connected will be told soon, or never, by a client that is closed
		c.since = c.lastHeard()
	}
	age := c.cache.Lag()
	if !c.since.IsZero() {
		age = max(age, time.Since(c.since))
	}
	return age
}

// OnChange calls fn with all instances whenever they have changed, on a goroutine of
// its own; see package listen. A listener that is slower than the changes gets the
// newest instances, and not each state before them. The list is the listener's. The
// instances are shared and must not be changed.
func (c *ServiceCache[T]) OnChange(fn func([]*ServiceInstance[T])) *listen.Registration {
	if fn == nil {
		return c.changes.Add(nil) // it panics where the caller's mistake shows in the stack
	}
	var told *entries[T]
	return c.changes.Add(func(struct{}) {
		all := c.entries()
		if c.life.Err() == nil && all != told { // Close has not emptied it
			told = all
			fn(all.instances())
		}
	})
}

// Close stops following. It leaves no watch and no goroutine. The instances are
// unknown then, and [ServiceCache.Wait] fails with [ErrClosed]. A second Close does nothing.
// A listener may call Close. A filter and a [Serializer] must not: Close waits for them.
func (c *ServiceCache[T]) Close() error {
	c.end(ErrClosed)
	c.mu.Lock()
	registrations := c.registrations
	c.registrations = nil
	if c.since.IsZero() {
		c.since = time.Now()
	}
	c.discovery.telemetry.instances.Add(-int64(len(c.all)))
	c.all = nil
	c.current.Store(nil)
	c.mu.Unlock()
	err := c.cache.Close()
	for _, registration := range registrations {
		registration.Remove()
		<-registration.Done()
	}
	if errors.Is(err, cache.ErrClosed) {
		err = nil
	}
	return attempt.Wrapf(errors.Join(err, c.discovery.telemetry.unfollow(c)), "discovery: close cache of %s", c.name)
}
