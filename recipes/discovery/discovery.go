package discovery

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/internal/attempt"
	"github.com/gocurator/curator/recipes/nodes"
)

var (
	// ErrClosed reports a call on a discovery, cache or provider that is closed.
	ErrClosed = errors.New("closed")

	// ErrNotRegistered reports an update of an instance that this discovery has not
	// registered.
	ErrNotRegistered = errors.New("not registered here")

	// ErrNoInstance reports that a provider has no instance that may be used.
	ErrNoInstance = errors.New("no instance")
)

// ServiceDiscovery registers instances of services and finds the instances of others.
// It shares them with Curator's x-discovery and with Spring Cloud Zookeeper.
//
// Layout: <path>/<service name>/<id>, an ephemeral znode for a dynamic
// instance and a persistent one for the others, below container nodes. Its data
// is what a [Serializer] writes.
//
// It is safe for concurrent use.
type ServiceDiscovery[T any] struct {
	client     *framework.Framework
	path       string
	serializer Serializer[T]

	mu         sync.Mutex
	registered map[string]*registration[T] // by the path of the instance
	closed     bool
}

// registration is an instance that is kept at the server.
type registration[T any] struct {
	turn     chan struct{} // has room for one: held over a change of the instance
	node     *nodes.PersistentNode
	instance ServiceInstance[T] // guarded by turn
}

// NewServiceDiscovery returns a discovery of the services below path, whose
// instances have payloads of type T and the JSON of Curator; see
// [JSONSerializer] for the class that Java needs. A nil serializer is the
// zero JSONSerializer. It checks its arguments and sends nothing.
func NewServiceDiscovery[T any](client *framework.Framework, path string, serializer Serializer[T]) (*ServiceDiscovery[T], error) {
	if client == nil {
		return nil, errors.New("discovery: client nil, expected a framework client")
	}
	if err := framework.ValidatePath(path); err != nil {
		return nil, fmt.Errorf("discovery: %w", err)
	}
	if serializer == nil {
		serializer = JSONSerializer[T]{}
	}
	return &ServiceDiscovery[T]{
		client: client, path: path, serializer: serializer, registered: map[string]*registration[T]{},
	}, nil
}

func (d *ServiceDiscovery[T]) pathOf(name, id string) string {
	return framework.JoinPath(d.path, name, id)
}

// Register registers an instance and keeps it registered, over deletions, lost
// connections and lost sessions, until it is unregistered or the discovery is
// closed. It blocks until the server has the instance. One that an earlier
// process has left is replaced. An instance that is registered already is
// updated. When Register fails, the instance is not registered.
func (d *ServiceDiscovery[T]) Register(ctx context.Context, instance ServiceInstance[T]) error {
	if err := d.register(ctx, instance); err != nil {
		return fmt.Errorf("discovery: register %s of %s: %w", instance.ID, instance.Name, err)
	}
	return nil
}

func (d *ServiceDiscovery[T]) register(ctx context.Context, instance ServiceInstance[T]) error {
	if ctx == nil {
		return attempt.ErrNilContext
	}
	if err := instance.check(); err != nil {
		return err
	}
	mode, err := instance.Type.mode()
	if err != nil {
		return err
	}
	data, err := d.serializer.Serialize(instance)
	if err != nil {
		return err
	}
	path := d.pathOf(instance.Name, instance.ID)
	node, err := nodes.NewPersistentNode(d.client, path, mode, data)
	if err != nil {
		return err
	}
	entry := &registration[T]{turn: make(chan struct{}, 1), node: node, instance: instance}
	d.mu.Lock()
	before, closed := d.registered[path], d.closed
	if before == nil && !closed {
		d.registered[path] = entry
		entry.turn <- struct{}{}
	}
	d.mu.Unlock()
	switch {
	case closed:
		return ErrClosed
	case before != nil:
		return d.update(ctx, instance)
	}
	defer func() { <-entry.turn }()
	if err := node.Start(); err != nil {
		return errors.Join(err, d.drop(path, entry))
	}
	if err := node.WaitForInitialCreate(ctx); err != nil {
		return errors.Join(err, d.drop(path, entry))
	}
	return nil
}

// drop forgets a registration and removes its znode.
func (d *ServiceDiscovery[T]) drop(path string, entry *registration[T]) error {
	d.mu.Lock()
	if d.registered[path] == entry {
		delete(d.registered, path)
	}
	d.mu.Unlock()
	return entry.node.Close()
}

// Update replaces an instance that this discovery has registered. It blocks
// until the server has it. When it fails, the instance counts all the same: it
// is written when that is possible.
func (d *ServiceDiscovery[T]) Update(ctx context.Context, instance ServiceInstance[T]) error {
	if err := d.update(ctx, instance); err != nil {
		return fmt.Errorf("discovery: update %s of %s: %w", instance.ID, instance.Name, err)
	}
	return nil
}

func (d *ServiceDiscovery[T]) update(ctx context.Context, instance ServiceInstance[T]) error {
	if ctx == nil {
		return attempt.ErrNilContext
	}
	if err := instance.check(); err != nil {
		return err
	}
	data, err := d.serializer.Serialize(instance)
	if err != nil {
		return err
	}
	d.mu.Lock()
	entry, closed := d.registered[d.pathOf(instance.Name, instance.ID)], d.closed
	d.mu.Unlock()
	switch {
	case closed:
		return ErrClosed
	case entry == nil:
		return ErrNotRegistered
	}
	select {
	case entry.turn <- struct{}{}:
	case <-ctx.Done():
		return attempt.Interrupted(ctx)
	}
	defer func() { <-entry.turn }()
	if entry.instance.Type != instance.Type {
		return fmt.Errorf("service type %s, expected %s as registered", instance.Type, entry.instance.Type)
	}
	entry.instance = instance
	return entry.node.SetData(ctx, data)
}

// Unregister removes an instance that this discovery has registered. When it
// returns nil the server has confirmed that the instance is gone: a server
// that unregisters first, then drains its calls and then closes its port fails
// no call. Unregistering an instance that is not registered does nothing.
func (d *ServiceDiscovery[T]) Unregister(instance ServiceInstance[T]) error {
	path := d.pathOf(instance.Name, instance.ID)
	d.mu.Lock()
	entry := d.registered[path]
	d.mu.Unlock()
	if entry == nil {
		return nil
	}
	if err := d.drop(path, entry); err != nil {
		return fmt.Errorf("discovery: unregister %s of %s: %w", instance.ID, instance.Name, err)
	}
	return nil
}

// Registered returns the error that keeps an instance from being registered at
// this moment, nil if there is none, and whether this discovery keeps it.
func (d *ServiceDiscovery[T]) Registered(instance ServiceInstance[T]) (bool, error) {
	d.mu.Lock()
	entry := d.registered[d.pathOf(instance.Name, instance.ID)]
	d.mu.Unlock()
	if entry == nil {
		return false, nil
	}
	return true, entry.node.Err()
}

// Close unregisters all instances of this discovery, static ones included, as
// Curator does. Caches and providers are closed by themselves. A second Close
// does nothing.
func (d *ServiceDiscovery[T]) Close() error {
	d.mu.Lock()
	d.closed = true
	registered := d.registered
	d.registered = map[string]*registration[T]{}
	d.mu.Unlock()
	errs := make(chan error, len(registered))
	for _, entry := range registered {
		go func() { errs <- entry.node.Close() }()
	}
	var all error
	for range registered {
		all = errors.Join(all, <-errs)
	}
	if all != nil {
		return fmt.Errorf("discovery: close %s: %w", d.path, all)
	}
	return nil
}

// Names returns the names of the services, sorted. A service whose last
// instance has gone may be among them for a while.
func (d *ServiceDiscovery[T]) Names(ctx context.Context) ([]string, error) {
	names, err := d.children(ctx, d.path)
	if err != nil {
		return nil, fmt.Errorf("discovery: names of services: %w", err)
	}
	return names, nil
}

func (d *ServiceDiscovery[T]) children(ctx context.Context, path string) ([]string, error) {
	names, err := d.client.Children(ctx, path)
	if err != nil && !errors.Is(err, framework.ErrNoNode) {
		return nil, err
	}
	slices.Sort(names)
	return names, nil
}

// Instances asks the server for all instances of a service, in the order of
// their znodes. What is no instance is left out and logged. For more than a
// query now and then use a [ServiceCache].
func (d *ServiceDiscovery[T]) Instances(ctx context.Context, name string) ([]ServiceInstance[T], error) {
	instances, err := d.instances(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("discovery: instances of %s: %w", name, err)
	}
	return instances, nil
}

func (d *ServiceDiscovery[T]) instances(ctx context.Context, name string) ([]ServiceInstance[T], error) {
	ids, err := d.children(ctx, framework.JoinPath(d.path, name))
	if err != nil {
		return nil, err
	}
	var instances []ServiceInstance[T]
	const batch = 128 // reads in one write
	for some := range slices.Chunk(ids, batch) {
		data := make([][]byte, len(some))
		absent := make([]bool, len(some))
		reads := make([]framework.Read, len(some))
		for i, id := range some {
			reads[i] = framework.ReadData(d.pathOf(name, id), &data[i], framework.StoringAbsenceIn(&absent[i]))
		}
		if err := d.client.Pipeline(ctx, reads...); err != nil {
			return nil, err
		}
		for i, id := range some {
			if absent[i] {
				continue
			}
			if instance, ok := d.read(d.pathOf(name, id), data[i]); ok {
				instances = append(instances, instance)
			}
		}
	}
	return instances, nil
}

// read reads the data of a znode. What is no instance is logged.
func (d *ServiceDiscovery[T]) read(path string, data []byte) (ServiceInstance[T], bool) {
	instance, err := d.serializer.Deserialize(data)
	if err != nil {
		d.client.Logger().Warn("a znode among the instances of a service cannot be read", "path", path, "error", err)
		return instance, false
	}
	return instance, true
}

// Instance asks the server for an instance by the name of its znode, which is
// its id, and the id with ten digits for [DynamicSequential]. It reports false
// when there is none.
func (d *ServiceDiscovery[T]) Instance(ctx context.Context, name, id string) (ServiceInstance[T], bool, error) {
	var none ServiceInstance[T]
	data, err := d.client.Get(ctx, d.pathOf(name, id))
	if errors.Is(err, framework.ErrNoNode) {
		return none, false, nil
	}
	if err != nil {
		return none, false, fmt.Errorf("discovery: instance %s of %s: %w", id, name, err)
	}
	instance, err := d.serializer.Deserialize(data)
	if err != nil {
		return none, false, fmt.Errorf("discovery: instance %s of %s: %w", id, name, err)
	}
	return instance, true, nil
}
