// SPDX-License-Identifier: Apache-2.0

package grpcresolver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"time"
	"weak"

	"google.golang.org/grpc/attributes"
	"google.golang.org/grpc/resolver"

	"github.com/gocurator/curator/listen"
	"github.com/gocurator/curator/recipes/discovery"
)

// Scheme is the scheme of the targets: zookeeper:///service.
const Scheme = "zookeeper"

// Attributes are what a balancer may want to know of an instance.
type Attributes struct {
	ID     string // of the instance; set by the resolver
	Weight uint32 // share of the calls, as the balancer defines it; see [Weighted]
	Zone   string // where the instance runs
}

// attributesKey is the key under which an endpoint carries its Attributes.
type attributesKey struct{}

// AttributesOf returns the attributes of an endpoint. It reports false for an
// endpoint of another resolver.
func AttributesOf(endpoint resolver.Endpoint) (Attributes, bool) {
	found, ok := endpoint.Attributes.Value(attributesKey{}).(Attributes)
	return found, ok
}

// Config sets up a [Builder]. The zero value is ready for use.
type Config[T any] struct {
	// Attributes reads the attributes of an instance, once for each change of it. Nil: there
	// is only the id. An instance that makes it panic is left out and logged.
	Attributes func(*discovery.ServiceInstance[T]) Attributes

	// Filters must all accept an instance. They are asked once for each change of it. An
	// instance that makes one panic is left out and logged.
	Filters []func(*discovery.ServiceInstance[T]) bool

	// SSLPort makes connections go to the SSL port of an instance. Instances
	// without the port are left out.
	SSLPort bool
}

// Builder builds resolvers of targets zookeeper:///service, as an option of a
// connection: grpc.WithResolvers(builder). It is safe for concurrent use.
type Builder[T any] struct {
	services *discovery.ServiceDiscovery[T]
	cfg      Config[T]

	mu        sync.Mutex
	resolvers map[*serviceResolver[T]]struct{} // that are not closed
	last      map[string]resolver.State        // what connections were last told, by service; gRPC closes the resolver of an idle one
}

// NewBuilder returns a builder of resolvers that follow services of a discovery.
// It sends nothing. The caller keeps the client of the discovery open for as
// long as there are connections.
func NewBuilder[T any](services *discovery.ServiceDiscovery[T], cfg Config[T]) (*Builder[T], error) {
	if services == nil {
		return nil, errors.New("grpcresolver: discovery nil, expected one")
	}
	for i, filter := range cfg.Filters {
		if filter == nil {
			return nil, fmt.Errorf("grpcresolver: filter %d nil, expected a function", i)
		}
	}
	cfg.Filters = slices.Clone(cfg.Filters)
	return &Builder[T]{services: services, cfg: cfg, resolvers: map[*serviceResolver[T]]struct{}{}, last: map[string]resolver.State{}}, nil
}

// Scheme returns [Scheme].
func (b *Builder[T]) Scheme() string { return Scheme }

// Build begins to follow the service of a target. gRPC calls it.
func (b *Builder[T]) Build(target resolver.Target, conn resolver.ClientConn, _ resolver.BuildOptions) (resolver.Resolver, error) {
	if target.URL.Host != "" {
		return nil, fmt.Errorf("grpcresolver: target %q, expected zookeeper:///service without a host: the builder has the client", target.String())
	}
	ctx, stop := context.WithCancel(context.Background())
	r := &serviceResolver[T]{builder: b, conn: conn, stop: stop, stopped: make(chan struct{})}
	cache, err := b.services.NewCache(target.Endpoint(), r.accept)
	if err != nil {
		stop()
		return nil, fmt.Errorf("grpcresolver: target %q: %w", target.String(), err)
	}
	r.cache = cache
	r.follower = cache.OnChange(r.update)
	b.mu.Lock()
	b.resolvers[r] = struct{}{}
	b.mu.Unlock()
	go r.start(ctx)
	return r, nil
}

// Age returns how old the instances of a service may be that connections use. It is 0 while
// the client is connected, and otherwise the time since a server last answered. It reports
// false when no connection uses the service.
func (b *Builder[T]) Age(service string) (age time.Duration, used bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for r := range b.resolvers {
		if r.cache.Name() == service {
			age, used = max(age, r.cache.Age()), true
		}
	}
	return age, used
}

// serviceResolver follows one service for one connection.
type serviceResolver[T any] struct {
	builder  *Builder[T]
	cache    *discovery.ServiceCache[T]
	conn     resolver.ClientConn
	follower *listen.Registration
	stop     context.CancelFunc
	stopped  chan struct{} // closed when start has returned

	// The endpoints by a weak pointer to the instance, for as long as it is anywhere.
	endpoints sync.Map

	telling sync.Mutex // held while the connection is told, which does not block
	told    bool       // of its own instances
}

// headStart is how long a connection waits for the newest instances before it goes on with the last known ones.
const headStart = 100 * time.Millisecond

// start waits until the instances are known, which the follower tells the connection. A connection that was idle does not
// wait for servers that are away.
func (r *serviceResolver[T]) start(ctx context.Context) {
	defer close(r.stopped)
	err := r.cache.Start()
	if err == nil {
		var wait time.Duration
		if r.cache.Age() == 0 {
			wait = headStart
		}
		soon, cancel := context.WithTimeout(ctx, wait)
		err = r.cache.Wait(soon)
		cancel()
	}
	if errors.Is(err, context.DeadlineExceeded) {
		r.goOn()
		err = r.cache.Wait(ctx)
	}
	if err != nil && ctx.Err() == nil {
		r.conn.ReportError(err)
	}
}

// goOn tells the connection of the instances that a connection of this service was last told.
func (r *serviceResolver[T]) goOn() {
	r.builder.mu.Lock()
	last := r.builder.last[r.cache.Name()]
	r.builder.mu.Unlock()
	r.telling.Lock()
	defer r.telling.Unlock()
	if !r.told && len(last.Endpoints) > 0 {
		_ = r.conn.UpdateState(last)
	}
}

// update tells the connection of all instances, of the newest if there have been several changes
// since the last call. What the connection answers changes nothing: the next update comes with
// the next change.
func (r *serviceResolver[T]) update(instances []*discovery.ServiceInstance[T]) {
	state := resolver.State{
		Endpoints: make([]resolver.Endpoint, 0, len(instances)),
		Addresses: make([]resolver.Address, 0, len(instances)),
	}
	for _, instance := range instances {
		known, _ := r.endpoints.Load(weak.Make(instance))
		endpoint := known.(resolver.Endpoint) //nolint:forcetypeassert // accept has stored it
		state.Endpoints = append(state.Endpoints, endpoint)
		state.Addresses = append(state.Addresses, endpoint.Addresses...)
	}
	r.builder.mu.Lock()
	r.builder.last[r.cache.Name()] = state
	r.builder.mu.Unlock()
	r.telling.Lock()
	defer r.telling.Unlock()
	r.told = true
	_ = r.conn.UpdateState(state)
}

// accept reports whether an instance has an endpoint, and notes it. The cache calls it once for
// each change of an instance, and leaves the instance out if a function of the program panics.
func (r *serviceResolver[T]) accept(instance *discovery.ServiceInstance[T]) bool {
	endpoint, ok := r.endpoint(instance)
	if !ok {
		return false
	}
	key := weak.Make(instance)
	r.endpoints.Store(key, endpoint)
	runtime.AddCleanup(instance, func(key weak.Pointer[discovery.ServiceInstance[T]]) { r.endpoints.Delete(key) }, key)
	return true
}

// endpoint returns the endpoint of an instance, if it has one.
func (r *serviceResolver[T]) endpoint(instance *discovery.ServiceInstance[T]) (resolver.Endpoint, bool) {
	cfg := r.builder.cfg
	port := instance.Port
	if cfg.SSLPort {
		port = instance.SSLPort
	}
	if instance.Disabled || instance.Address == "" || port == nil {
		return resolver.Endpoint{}, false
	}
	for _, accept := range cfg.Filters {
		if !accept(instance) {
			return resolver.Endpoint{}, false
		}
	}
	var known Attributes
	if cfg.Attributes != nil {
		known = cfg.Attributes(instance)
	}
	known.ID = instance.ID
	return resolver.Endpoint{
		Addresses:  []resolver.Address{{Addr: net.JoinHostPort(instance.Address, strconv.Itoa(*port))}},
		Attributes: attributes.New(attributesKey{}, known),
	}, true
}

// ResolveNow does nothing: changes come by themselves.
func (r *serviceResolver[T]) ResolveNow(resolver.ResolveNowOptions) {}

// Close stops following. It leaves no watch and no goroutine.
func (r *serviceResolver[T]) Close() {
	r.builder.mu.Lock()
	delete(r.builder.resolvers, r)
	r.builder.mu.Unlock()
	r.stop()
	<-r.stopped
	_ = r.cache.Close() // of the cache's client; nothing is left to do here
	r.follower.Remove()
	<-r.follower.Done()
}
