// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"time"

	"github.com/go-kratos/kratos/v2/registry"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/discovery"
)

var (
	_ registry.Registrar = (*Registry)(nil)
	_ registry.Discovery = (*Registry)(nil)
	_ registry.Watcher   = (*watcher)(nil)
)

// DefaultRoot is where Kratos' own registry for ZooKeeper has its services.
const DefaultRoot = "/microservices"

// Registry registers and finds services of Kratos. It shares them with Kratos' own registry for
// ZooKeeper: an instance is an ephemeral znode <root>/<name>/<id> with its JSON. It is safe for
// concurrent use.
type Registry struct {
	client   *framework.Framework
	root     string
	services *discovery.ServiceDiscovery[registry.ServiceInstance]
}

// New returns a registry of the services below root. It sends nothing. Permissions and
// credentials are those of the client; see [framework.WithACLProvider] and [framework.WithAuth].
func New(client *framework.Framework, root string) (*Registry, error) {
	services, err := discovery.NewServiceDiscovery(client, root, discovery.Serializer[registry.ServiceInstance](codec{}))
	if err != nil {
		return nil, err
	}
	return &Registry{client: client, root: root, services: services}, nil
}

// Register registers an instance, and keeps it registered in every later session until
// Deregister. It blocks until the server has the instance or ctx ends. It replaces the instance
// of a process that was killed, whose session has not ended yet.
func (r *Registry) Register(ctx context.Context, service *registry.ServiceInstance) error {
	// ServiceDiscovery would make containers, which servers delete when they are empty. Kratos'
	// own registry makes its folders once, and registers nothing without them.
	if err := r.client.Mkdirs(ctx, framework.JoinPath(r.root, service.Name)); err != nil {
		return err
	}
	return r.services.Register(ctx, instanceOf(service))
}

// Deregister removes an instance. It blocks until the server has confirmed that, and no longer
// than ctx, ten seconds, or two seconds without a connection. The removal then goes on in the
// background. Kratos calls it before it stops the servers, so calls under way end.
func (r *Registry) Deregister(ctx context.Context, service *registry.ServiceInstance) error {
	removed := make(chan error, 1)
	go func() { removed <- r.services.Unregister(instanceOf(service)) }()
	select {
	case err := <-removed:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// GetService asks the server for the instances of a service. An instance whose data is no JSON is
// logged and left out.
func (r *Registry) GetService(ctx context.Context, name string) ([]*registry.ServiceInstance, error) {
	found, err := r.services.Instances(ctx, name)
	if err != nil {
		return nil, err
	}
	instances := make([]*registry.ServiceInstance, len(found))
	for i := range found {
		instances[i] = found[i].Payload
	}
	return instances, nil
}

// Watch returns a watcher of a service, which ends with ctx. No server need be reachable.
func (r *Registry) Watch(ctx context.Context, name string) (registry.Watcher, error) {
	cache, err := r.services.NewCache(name, func(i *discovery.ServiceInstance[registry.ServiceInstance]) bool {
		return i.Name == name // as Kratos' own registry has it
	})
	if err != nil {
		return nil, err
	}
	w := &watcher{client: r.client, cache: cache, changed: make(chan struct{}, 1)}
	w.ctx, w.cancel = context.WithCancel(ctx)
	context.AfterFunc(w.ctx, func() { _ = cache.Close() })
	cache.OnChange(func([]*discovery.ServiceInstance[registry.ServiceInstance]) {
		select {
		case w.changed <- struct{}{}:
		default: // Next reads the newest list anyway
		}
	})
	if err := cache.Start(); err != nil {
		w.cancel()
		return nil, err
	}
	return w, nil
}

// watcher follows the instances of a service. One goroutine at a time calls Next, as Kratos does.
type watcher struct {
	ctx     context.Context //nolint:containedctx // Next has no context: it ends with that of Watch
	cancel  context.CancelFunc
	client  *framework.Framework
	cache   *discovery.ServiceCache[registry.ServiceInstance]
	changed chan struct{} // has room for one
	given   bool          // the list that Next returned last has instances
}

// Next returns the first list that has instances, and then each list that has changed. When all
// instances leave, it waits for one session timeout before it returns the empty list: they have
// lost their sessions, and come back in the next ones, or they are gone.
func (w *watcher) Next() ([]*registry.ServiceInstance, error) {
	var patience <-chan time.Time
	for {
		select {
		case <-w.ctx.Done():
			return nil, w.ctx.Err() // Kratos ends with context.Canceled
		case <-w.client.Done():
			return nil, framework.ErrClosed
		case <-patience:
			w.given = false
			return []*registry.ServiceInstance{}, nil
		case <-w.changed:
		}
		found := w.cache.Instances()
		switch {
		case len(found) > 0:
			w.given = true
			instances := make([]*registry.ServiceInstance, len(found))
			for i, instance := range found {
				instances[i] = instance.Payload
			}
			return instances, nil
		case w.given && patience == nil:
			patience = time.After(w.client.Session().Timeout())
		}
	}
}

// Stop ends the watcher.
func (w *watcher) Stop() error {
	w.cancel()
	return nil
}

// instanceOf returns the instance of the recipe that has a service as its payload.
func instanceOf(service *registry.ServiceInstance) discovery.ServiceInstance[registry.ServiceInstance] {
	return discovery.ServiceInstance[registry.ServiceInstance]{
		Name: service.Name, ID: service.ID, Type: discovery.Dynamic, Payload: service,
	}
}

// codec has the data of znodes: the JSON of the service.
type codec struct{}

func (codec) Serialize(i discovery.ServiceInstance[registry.ServiceInstance]) ([]byte, error) {
	return json.Marshal(i.Payload)
}

func (codec) Deserialize(data []byte) (discovery.ServiceInstance[registry.ServiceInstance], error) {
	service := new(registry.ServiceInstance)
	err := json.Unmarshal(data, service)
	return instanceOf(service), err
}
