// SPDX-License-Identifier: Apache-2.0

package discovery

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"sync"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/options"
	"github.com/gocurator/curator/listen"
	"github.com/gocurator/curator/recipes/cache"
	"github.com/gocurator/curator/recipes/internal/attempt"
	"github.com/gocurator/curator/recipes/nodes"
)

var (
	// ErrNotStarted reports a wait for a cache or provider before Start.
	ErrNotStarted = cache.ErrNotStarted

	// ErrClosed reports a call on a discovery, cache or provider that is closed.
	ErrClosed = errors.New("closed")

	// ErrNotRegistered reports an update of an instance that this discovery has not
	// registered.
	ErrNotRegistered = errors.New("not registered here")

	// ErrNoInstance reports that a provider has no instance that may be used.
	ErrNoInstance = errors.New("no instance")
)

// ServiceDiscovery registers instances of services and finds instances of other
// processes. It shares them with Curator's x-discovery and with Spring Cloud
// Zookeeper.
//
// Layout: <path>/<service name>/<id>, below container nodes. The znode is ephemeral
// for a dynamic instance and persistent for every other instance. Its data is what a
// [Serializer] writes.
//
// It is safe for concurrent use.
type ServiceDiscovery[T any] struct {
	client     *framework.Framework
	path       string
	serializer Serializer[T]
	telemetry  *telemetry
	edits      *listen.Set[ServiceInstance[T]]

	mu         sync.Mutex
	registered map[string]*registration[T] // by the path of the instance, until its znode is gone
	told       map[string]leaving          // what was logged last of the instances that are left out, by path
	closed     bool
}

// leaving is why an instance is left out.
type leaving struct {
	sum    uint64 // of its data
	reason string
}

// registration is an instance that is kept at the server.
type registration[T any] struct {
	busy    chan struct{} // has room for one: held over a change of the instance
	node    *nodes.PersistentNode
	kind    ServiceType
	removal *removal // nil while it is kept; guarded by the mutex of the discovery
}

// removal is the end of a registration.
type removal struct {
	ended chan struct{}
	err   error // set before ended is closed
}

// refused reports whether the server has refused the removal.
func (r *removal) refused() bool { return attempt.IsClosed(r.ended) && r.err != nil }

// NewServiceDiscovery returns a discovery of the services below path. Their instances
// have payloads of type T, and Curator's JSON; see [JSONSerializer] for the class
// that Java needs. A nil serializer is the zero JSONSerializer. It checks its
// arguments and sends nothing.
func NewServiceDiscovery[T any](client *framework.Framework, path string, serializer Serializer[T]) (*ServiceDiscovery[T], error) {
	if err := attempt.Check(client, path); err != nil {
		return nil, fmt.Errorf("discovery: %w", err)
	}
	switch {
	case serializer == nil:
		serializer = JSONSerializer[T]{}
	case options.IsNil(serializer):
		return nil, fmt.Errorf("discovery: %w: serializer is a nil %T", framework.ErrInvalidOption, serializer)
	}
	measures, err := newTelemetry(client, path)
	if err != nil {
		return nil, fmt.Errorf("discovery: %w", err)
	}
	return &ServiceDiscovery[T]{
		client: client, path: path, serializer: serializer, telemetry: measures, registered: map[string]*registration[T]{}, told: map[string]leaving{},
		edits: listen.New[ServiceInstance[T]](attempt.LogPanics(client, path, "a listener of edits panicked")),
	}, nil
}

func (d *ServiceDiscovery[T]) pathOf(name, id string) string {
	return framework.JoinPath(d.path, name, id)
}

// Register registers an instance and keeps it registered, over deletions, lost
// connections and lost sessions, until it is unregistered or the discovery is closed.
// It blocks until the server has the instance. Register replaces a znode that an
// earlier process has left. It also replaces a znode of the same kind that another
// process keeps, so ids must be unique. While a znode of another kind is in the way,
// such as a persistent one in the place of a dynamic instance, Register waits until
// ctx ends, and its error matches [nodes.ErrTaken]. A persistent znode with the very data of the
// instance, which a restore of the tree has left, is replaced. An instance that this discovery has registered already is
// updated; see [ServiceDiscovery.Update]. If its first Register is still under way
// and then gives up, this call fails with [ErrNotRegistered].
//
// When the first Register of an instance fails, the instance is not registered. If
// ctx ends before the server has confirmed that, the error matches
// [framework.ErrCleanupPending] as well, and the removal goes on in the background.
func (d *ServiceDiscovery[T]) Register(ctx context.Context, instance ServiceInstance[T]) error {
	return attempt.Wrapf(d.register(ctx, instance), "discovery: register %s of %s", instance.ID, instance.Name)
}

func (d *ServiceDiscovery[T]) register(ctx context.Context, instance ServiceInstance[T]) error {
	if instance.Address == "" && instance.URI == nil && instance.Payload == nil {
		return fmt.Errorf("%w: address \"\", expected one, or a URI or a payload that says where the instance is", framework.ErrInvalidOption)
	}
	data, err := d.encode(ctx, instance)
	if err != nil {
		return err
	}
	mode, err := instance.Type.mode()
	if err != nil {
		return err
	}
	path := d.pathOf(instance.Name, instance.ID)
	var opts []nodes.Option
	if d.edits.Len() > 0 {
		opts = append(opts, nodes.WithEdits(func(data []byte) bool { return d.edited(path, instance, data) }))
	}
	node, err := nodes.NewPersistentNode(d.client, path, mode, data, opts...)
	if err != nil {
		return err
	}
	entry := &registration[T]{busy: make(chan struct{}, 1), node: node, kind: instance.Type}
	entry.busy <- struct{}{}
	defer func() { <-entry.busy }()
	switch kept, err := d.claim(ctx, path, entry); {
	case err != nil:
		return err
	case kept:
		return d.update(ctx, instance)
	}
	if err := node.Start(); err != nil {
		return d.giveUp(ctx, path, entry, err)
	}
	if err := node.WaitForInitialCreate(ctx); err != nil {
		return d.giveUp(ctx, path, entry, err)
	}
	return nil
}

// OnEdit calls listener with each own instance that another client has changed, for example an operator who has
// disabled it. Instances that are registered after the first OnEdit then keep the change when they are registered again, as with
// watchInstances of Curator. The next [ServiceDiscovery.Update] replaces it. A change that cannot be read, or that has another name, id
// or type, is logged and not kept. The calls are in order, on a goroutine of their own; see package listen.
func (d *ServiceDiscovery[T]) OnEdit(listener func(ServiceInstance[T])) *listen.Registration {
	return d.edits.Add(listener)
}

// edited reports whether the data that another client has written is a form of the instance.
func (d *ServiceDiscovery[T]) edited(path string, own ServiceInstance[T], data []byte) bool {
	instance, err := d.deserialize(data)
	if err == nil && (instance.Name != own.Name || instance.ID != own.ID || instance.Type != own.Type) {
		err = fmt.Errorf("%s %s of %s, expected %s %s of %s", instance.Type, instance.ID, instance.Name, own.Type, own.ID, own.Name)
	}
	if err != nil {
		d.client.Logger().Warn("a client has changed an own instance to what cannot be kept", logPath, path, "error", err)
		return false
	}
	d.edits.Notify(instance)
	return true
}

// Put writes the znode of a static or permanent instance for another process, and keeps nothing: the instance stays
// until [ServiceDiscovery.Remove] or a client deletes it. It replaces an instance that was put before, and updates one that
// this discovery has registered itself. If a process, this one included, has registered a dynamic instance of that name and
// id, the error matches [nodes.ErrTaken], and nothing is changed.
func (d *ServiceDiscovery[T]) Put(ctx context.Context, instance ServiceInstance[T]) error {
	return attempt.Wrapf(d.put(ctx, instance), "discovery: put %s of %s", instance.ID, instance.Name)
}

func (d *ServiceDiscovery[T]) put(ctx context.Context, instance ServiceInstance[T]) error {
	data, err := d.encode(ctx, instance)
	if err != nil {
		return err
	}
	if instance.Type != Static && instance.Type != Permanent {
		return fmt.Errorf("%w: service type %s, expected STATIC or PERMANENT", framework.ErrInvalidOption, instance.Type)
	}
	switch entry, closed := d.kept(instance); {
	case closed:
		return ErrClosed
	case entry != nil && entry.kind.isDynamic():
		return errOwnDynamic
	case entry != nil:
		return d.update(ctx, instance)
	}
	path := d.pathOf(instance.Name, instance.ID)
	for {
		stat, err := d.unowned(ctx, path)
		switch {
		case err != nil:
			return err
		case stat == nil:
			_, err = d.client.Create(ctx, path, data, framework.CreatingParentContainersIfNeeded(), framework.Idempotent())
		default:
			err = d.client.Set(ctx, path, data, framework.WithVersion(stat.Version), framework.Idempotent())
		}
		if !hasChanged(err) {
			return err
		}
	}
}

// Remove deletes the znode of an instance, whichever process has put it, and reports whether there was one. If a process
// has registered it as a dynamic instance, that process would create it again: the error then matches [nodes.ErrTaken],
// and nothing is changed. This holds for the own process too, which has [ServiceDiscovery.Unregister] for it. A static
// instance that this discovery has registered itself is unregistered.
func (d *ServiceDiscovery[T]) Remove(ctx context.Context, name, id string) (existed bool, err error) {
	if existed, err = d.remove(ctx, ServiceInstance[T]{Name: name, ID: id, Type: Static}); err != nil {
		return false, fmt.Errorf("discovery: remove %s of %s: %w", id, name, err)
	}
	return existed, nil
}

func (d *ServiceDiscovery[T]) remove(ctx context.Context, instance ServiceInstance[T]) (existed bool, err error) {
	if ctx == nil {
		return false, attempt.ErrNilContext
	}
	if err := instance.check(); err != nil {
		return false, err
	}
	path := d.pathOf(instance.Name, instance.ID)
	d.mu.Lock()
	own := d.registered[path]
	d.mu.Unlock()
	switch {
	case own != nil && own.kind.isDynamic():
		return false, errOwnDynamic
	case own != nil:
		return true, d.Unregister(instance)
	}
	for {
		stat, err := d.unowned(ctx, path)
		if err != nil || stat == nil {
			return false, err
		}
		err = d.client.Delete(ctx, path, framework.WithVersion(stat.Version), framework.Idempotent())
		if !hasChanged(err) {
			return err == nil, err
		}
	}
}

// unowned returns the Stat of a znode that belongs to no session, or nil if there is none.
func (d *ServiceDiscovery[T]) unowned(ctx context.Context, path string) (*framework.Stat, error) {
	stat, err := d.client.Exists(ctx, path)
	if err == nil && stat != nil && stat.EphemeralOwner != 0 {
		return nil, fmt.Errorf("%w: session 0x%x has registered it", nodes.ErrTaken, uint64(stat.EphemeralOwner)) //nolint:gosec // as ZooKeeper prints it
	}
	return stat, err
}

var errOwnDynamic = fmt.Errorf("%w: this process has registered it as a dynamic instance", nodes.ErrTaken)

// hasChanged reports whether a write has failed because the znode is another one than before.
func hasChanged(err error) bool {
	return errors.Is(err, framework.ErrNodeExists) || errors.Is(err, framework.ErrNoNode) || errors.Is(err, framework.ErrBadVersion)
}

// claim notes a registration, or reports that the instance is kept already. A
// removal of the same instance must end first: it would take the new znode for
// the old one.
func (d *ServiceDiscovery[T]) claim(ctx context.Context, path string, entry *registration[T]) (kept bool, err error) {
	for {
		d.mu.Lock()
		before, closed := d.registered[path], d.closed
		switch {
		case closed:
			d.mu.Unlock()
			return false, ErrClosed
		case before == nil:
			d.registered[path] = entry
			d.mu.Unlock()
			d.telemetry.registrations.Add(1)
			return false, nil
		case before.removal == nil:
			d.mu.Unlock()
			return true, nil
		}
		leaving := d.leaveLocked(path, before)
		d.mu.Unlock()
		select {
		case <-leaving.ended:
			if leaving.err != nil {
				return false, leaving.err
			}
		case <-ctx.Done():
			return false, attempt.Interrupted(ctx)
		}
	}
}

// leaveLocked removes the znode of a registration in the background, and then
// forgets the registration. A removal that was refused is tried again. The
// caller holds mu.
func (d *ServiceDiscovery[T]) leaveLocked(path string, entry *registration[T]) *removal {
	if entry.removal != nil && !entry.removal.refused() {
		return entry.removal
	}
	r := &removal{ended: make(chan struct{})}
	entry.removal = r
	go func() {
		defer close(r.ended)
		err := framework.ErrCleanupPending
		for errors.Is(err, framework.ErrCleanupPending) { // each Close waits a while, if there is a connection
			_ = d.client.BlockUntilConnected(context.Background()) // a closed client ends Close too
			err = entry.node.Close()
		}
		r.err = err
		if err != nil {
			return
		}
		d.mu.Lock()
		delete(d.registered, path)
		d.mu.Unlock()
		d.telemetry.registrations.Add(-1)
	}()
	return r
}

// giveUp removes what a failed registration has left, and waits for that as
// long as ctx allows.
func (d *ServiceDiscovery[T]) giveUp(ctx context.Context, path string, entry *registration[T], failure error) error {
	d.mu.Lock()
	leaving := d.leaveLocked(path, entry)
	d.mu.Unlock()
	select {
	case <-leaving.ended:
		return errors.Join(failure, leaving.err)
	case <-ctx.Done():
		return errors.Join(failure, framework.ErrCleanupPending)
	}
}

// Update replaces an instance that this discovery has registered. It blocks
// until the server has it. When it fails, the discovery still keeps the new
// instance, and writes it when it can.
func (d *ServiceDiscovery[T]) Update(ctx context.Context, instance ServiceInstance[T]) error {
	return attempt.Wrapf(d.update(ctx, instance), "discovery: update %s of %s", instance.ID, instance.Name)
}

func (d *ServiceDiscovery[T]) update(ctx context.Context, instance ServiceInstance[T]) error {
	data, err := d.encode(ctx, instance)
	if err != nil {
		return err
	}
	entry, closed := d.kept(instance)
	switch {
	case closed:
		return ErrClosed
	case entry == nil:
		return ErrNotRegistered
	}
	select {
	case entry.busy <- struct{}{}:
	case <-ctx.Done():
		return attempt.Interrupted(ctx)
	}
	defer func() { <-entry.busy }()
	if entry.kind != instance.Type {
		return fmt.Errorf("service type %s, expected %s as registered", instance.Type, entry.kind)
	}
	err = entry.node.SetData(ctx, data)
	if errors.Is(err, nodes.ErrClosed) {
		return ErrNotRegistered // by an Unregister at the same time
	}
	return err
}

// kept returns the registration of an instance. It is nil if there is none, or if it
// is being removed.
func (d *ServiceDiscovery[T]) kept(instance ServiceInstance[T]) (entry *registration[T], closed bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	entry = d.registered[d.pathOf(instance.Name, instance.ID)]
	if entry != nil && entry.removal != nil {
		entry = nil
	}
	return entry, d.closed
}

// Unregister removes an instance that this discovery has registered. When it returns
// nil the server has confirmed that the instance is gone. So a service that
// unregisters first, then drains its calls and then closes its port fails no call. It
// waits for at most ten seconds, and no longer than until the client has been without
// a connection for two seconds, see [nodes.PersistentNode.Close]. Then it returns an
// error that matches [framework.ErrCleanupPending], and the removal goes on in the
// background. When the server refuses the removal, the next Unregister tries again.
// Unregistering an instance that is not registered does nothing.
func (d *ServiceDiscovery[T]) Unregister(instance ServiceInstance[T]) error {
	path := d.pathOf(instance.Name, instance.ID)
	d.mu.Lock()
	entry := d.registered[path]
	if entry == nil {
		d.mu.Unlock()
		return nil
	}
	leaving := d.leaveLocked(path, entry)
	d.mu.Unlock()
	return attempt.Wrapf(entry.removed(leaving), "discovery: unregister %s of %s", instance.ID, instance.Name)
}

// removed waits for the end of the removal of a registration, as long as its node
// waits in Close.
func (entry *registration[T]) removed(r *removal) error {
	if err := entry.node.Close(); errors.Is(err, framework.ErrCleanupPending) {
		return framework.ErrCleanupPending
	}
	<-r.ended // it waits for the same
	return r.err
}

// Registered returns the error that keeps an instance from being registered at
// this moment, nil if there is none, and whether this discovery keeps it.
func (d *ServiceDiscovery[T]) Registered(instance ServiceInstance[T]) (bool, error) {
	entry, _ := d.kept(instance)
	if entry == nil {
		return false, nil
	}
	return true, entry.node.Err()
}

// Close unregisters all instances of this discovery, static ones included, as Curator
// does. It waits and fails as [ServiceDiscovery.Unregister] does. Close does not
// close caches and providers. A second Close waits for the instances that are left.
func (d *ServiceDiscovery[T]) Close() error {
	d.mu.Lock()
	d.closed = true
	results := make(chan error)
	n := len(d.registered)
	for path, entry := range d.registered {
		leaving := d.leaveLocked(path, entry)
		go func() { results <- entry.removed(leaving) }()
	}
	d.mu.Unlock()
	var err, pending error
	for range n {
		switch one := <-results; {
		case errors.Is(one, framework.ErrCleanupPending):
			pending = framework.ErrCleanupPending // once, however many are left
		default:
			err = errors.Join(err, one)
		}
	}
	return attempt.Wrapf(errors.Join(err, pending), "discovery: close %s", d.path)
}

// Names returns the names of the services, sorted. A service whose last
// instance has gone may be among them for a while.
func (d *ServiceDiscovery[T]) Names(ctx context.Context) ([]string, error) {
	names, err := d.children(ctx, d.path)
	return names, attempt.Wrapf(err, "discovery: names of services")
}

func (d *ServiceDiscovery[T]) children(ctx context.Context, path string) ([]string, error) {
	names, err := d.client.Children(ctx, path)
	if err != nil && !errors.Is(err, framework.ErrNoNode) {
		return nil, err
	}
	slices.Sort(names)
	return names, nil
}

// Instances asks the server for all instances of a service, in the order of their
// znodes. A znode that is no instance, or that cannot be read, is left out and logged. For
// more than a query now and then use a [ServiceCache].
func (d *ServiceDiscovery[T]) Instances(ctx context.Context, name string) ([]ServiceInstance[T], error) {
	instances, err := d.instances(ctx, name)
	return instances, attempt.Wrapf(err, "discovery: instances of %s", name)
}

func (d *ServiceDiscovery[T]) instances(ctx context.Context, name string) ([]ServiceInstance[T], error) {
	ids, err := d.children(ctx, framework.JoinPath(d.path, name))
	if err != nil {
		return nil, err
	}
	var instances []ServiceInstance[T]
	const batch = 128 // reads in one write
	for some := range slices.Chunk(ids, batch) {
		paths := make([]string, len(some))
		for i, id := range some {
			paths[i] = d.pathOf(name, id)
		}
		found, err := d.readAll(ctx, paths)
		if err != nil {
			return nil, err
		}
		instances = append(instances, found...)
	}
	return instances, nil
}

// readAll reads instances together.
func (d *ServiceDiscovery[T]) readAll(ctx context.Context, paths []string) (instances []ServiceInstance[T], err error) {
	data := make([][]byte, len(paths))
	absent := make([]bool, len(paths))
	errs := make([]error, len(paths))
	reads := make([]framework.Read, len(paths))
	for i, path := range paths {
		reads[i] = framework.ReadData(path, &data[i], framework.StoringAbsenceIn(&absent[i])).StoringErrorIn(&errs[i])
	}
	if err := d.client.Pipeline(ctx, reads...); err != nil {
		var op *framework.OpError
		if errors.Is(err, framework.ErrTooLarge) && errors.As(err, &op) { // it ends the pipeline
			if at := slices.Index(paths, op.Path); at >= 0 {
				d.leaveOut(op.Path, nil, err)
				return d.readAll(ctx, slices.Delete(paths, at, at+1))
			}
		}
		return nil, err
	}
	for i, path := range paths {
		switch {
		case absent[i]:
		case attempt.RefusedForNow(errs[i]):
			return nil, errs[i]
		case errs[i] != nil:
			d.leaveOut(path, nil, errs[i])
		default:
			if instance, ok := d.read(path, data[i]); ok {
				instances = append(instances, instance)
			}
		}
	}
	return instances, nil
}

// read reads the data of a znode. A znode that is no instance, or that makes the
// serializer panic, is left out.
func (d *ServiceDiscovery[T]) read(path string, data []byte) (instance ServiceInstance[T], ok bool) {
	instance, err := d.deserialize(data)
	if err != nil {
		d.leaveOut(path, data, err)
	}
	return instance, err == nil
}

// encode checks the arguments of a call that writes an instance, and returns the data of its znode.
func (d *ServiceDiscovery[T]) encode(ctx context.Context, instance ServiceInstance[T]) (data []byte, err error) {
	if ctx == nil {
		return nil, attempt.ErrNilContext
	}
	if err := instance.check(); err != nil {
		return nil, err
	}
	err = attempt.Catch(func() (err error) {
		data, err = d.serializer.Serialize(instance)
		return err
	})
	return data, err
}

func (d *ServiceDiscovery[T]) deserialize(data []byte) (instance ServiceInstance[T], err error) {
	err = attempt.Catch(func() (err error) {
		instance, err = d.serializer.Deserialize(data)
		return err
	})
	return instance, err
}

// maxTold bounds the memory of what was logged.
const maxTold = 10_000

// leaveOut counts an instance that is left out because of its data or of user code. It logs the
// instance once for each content and reason, however many caches and queries meet it.
func (d *ServiceDiscovery[T]) leaveOut(path string, data []byte, reason error) {
	d.telemetry.leftOut.Add(1)
	why := leaving{maphash.Bytes(seed, data), reason.Error()}
	d.mu.Lock()
	told := d.told[path] == why
	if len(d.told) >= maxTold {
		clear(d.told)
	}
	d.told[path] = why
	d.mu.Unlock()
	if told {
		return
	}
	attributes := []any{logPath, path, "error", reason}
	if panicked, ok := reason.(*attempt.PanicError); ok { //nolint:errorlint // attempt.Catch returns it unwrapped
		attributes = append(attributes, "stack", panicked.Stack)
	}
	d.client.Logger().Warn("a znode among the instances of a service is left out", attributes...)
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
	instance, err := d.deserialize(data)
	if err != nil {
		return none, false, fmt.Errorf("discovery: instance %s of %s: %w", id, name, err)
	}
	return instance, true, nil
}
