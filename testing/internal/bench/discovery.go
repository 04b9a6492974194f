// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/gocurator/curator/recipes/discovery"
)

// services is the kind of the scenario in which processes register instances of one service
// and others watch it. A turn is a change: an instance is registered, and removed once all
// watchers have seen it.
const services = "discovery"

var (
	seenMedian     = metric{"seen_p50_us", true, func(r *result) float64 { return r.SeenP50 }}
	seenTail       = metric{"seen_p99_us", true, func(r *result) float64 { return r.SeenP99 }}
	bytesPerChange = metric{"bytes_per_change", true, func(r *result) float64 { return r.ChangeBytes }}
	lookUpTime     = metric{"lookup_ns", true, func(r *result) float64 { return r.LookUp }}
	lookUpBytes    = metric{"lookup_heap_bytes", true, func(r *result) float64 { return r.LookUpBytes }}
	lookUpRequests = metric{"requests_per_lookup", true, func(r *result) float64 { return r.LookUpRequests }}
)

var serviceMetrics = []metric{
	seenMedian, seenTail, changeRequests, bytesPerChange, clientCPU, lookUpTime, lookUpBytes, lookUpRequests,
}

const (
	serviceName = "service"
	lookUps     = 100_000
	registrars  = 16 // registrations of one client at the same time, in the beginning
)

// javaOfServices is the program of Curator's x-discovery.
//
//go:embed external/BenchDiscovery.java
var javaOfServices []byte

func javaOfServicesMissing() error {
	if err := javaMissing(); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(jars, discoveryJar)); err != nil {
		return fmt.Errorf("%w: libcurator-discovery-java (Debian): %w", errMissing, err)
	}
	return nil
}

const discoveryJar = "curator-x-discovery.jar"

// runJavaServices measures Curator's x-discovery, in a process of its own.
func runJavaServices(ctx context.Context, at servers, l load, path string) (result, error) {
	command := []string{
		"java", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
		"-cp", filepath.Join(jars, discoveryJar) + string(os.PathListSeparator) + classPath(),
	}
	return runSource(ctx, javaOfServices, "BenchDiscovery.java", command, at.zookeeper, path, strconv.Itoa(l.Clients),
		strconv.Itoa(l.Goroutines), strconv.Itoa(l.Watchers), strconv.FormatInt(l.Duration.Milliseconds(), 10))
}

// watch is a cache of the service on a client of its own.
type watch struct {
	cache *discovery.ServiceCache[any]

	mu    sync.Mutex
	want  int           // instances
	there chan struct{} // closed when there are as many
	at    time.Time     // when that was
}

// await returns a channel that is closed when the watcher sees n instances.
func (w *watch) await(n int) <-chan struct{} {
	w.mu.Lock()
	w.want, w.there = n, make(chan struct{})
	there := w.there
	w.mu.Unlock()
	w.sees(len(w.cache.Instances()))
	return there
}

func (w *watch) sees(n int) {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.there != nil && n == w.want {
		w.at = now
		close(w.there)
		w.there = nil
	}
}

// fleet is the processes with their instances, and the watchers.
type fleet struct {
	processes []*discovery.ServiceDiscovery[any]
	watchers  []*watch
	open      closers
}

// connect returns a discovery on a client of its own.
func (f *fleet) connect(ctx context.Context, at servers, path string) (*discovery.ServiceDiscovery[any], error) {
	client, err := connectSelf(ctx, at)
	if err != nil {
		return nil, err
	}
	f.open = append(f.open, client.Close)
	return discovery.NewServiceDiscovery[any](client, path, nil)
}

// register registers as many instances as the load has, from all processes at the same time.
func (f *fleet) register(ctx context.Context, at servers, l load, path string) error {
	var wg sync.WaitGroup
	failures := make(chan error, l.Clients*registrars)
	for range l.Clients {
		process, err := f.connect(ctx, at, path)
		if err != nil {
			return err
		}
		f.processes, f.open = append(f.processes, process), append(f.open, process.Close)
		for n := range registrars {
			wg.Go(func() {
				for i := n; i < l.Goroutines; i += registrars {
					if err := process.Register(ctx, newServiceInstance()); err != nil {
						failures <- err
						return
					}
				}
			})
		}
	}
	wg.Wait()
	close(failures)
	return <-failures
}

func newServiceInstance() discovery.ServiceInstance[any] {
	const port = 8080
	return discovery.NewInstance[any](serviceName, "192.0.2.1", port)
}

// watch has as many watchers as the load follow the service.
func (f *fleet) watch(ctx context.Context, at servers, l load, path string) error {
	for range l.Watchers {
		d, err := f.connect(ctx, at, path)
		if err != nil {
			return err
		}
		w := new(watch)
		if w.cache, err = d.NewCache(serviceName); err != nil {
			return err
		}
		w.cache.OnChange(func(all []*discovery.ServiceInstance[any]) { w.sees(len(all)) })
		f.open, f.watchers = append(f.open, w.cache.Close), append(f.watchers, w)
		if err := errors.Join(w.cache.Start(), w.cache.Wait(ctx)); err != nil {
			return err
		}
	}
	return f.all(ctx, l.Clients*l.Goroutines, func() error { return nil })
}

// all makes a change after which there are n instances, and waits until all watchers have
// seen that.
func (f *fleet) all(ctx context.Context, n int, change func() error) error {
	var seen []<-chan struct{}
	for _, w := range f.watchers {
		seen = append(seen, w.await(n))
	}
	if err := change(); err != nil {
		return err
	}
	for _, there := range seen {
		select {
		case <-there:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// runServices measures ServiceDiscovery, ServiceCache and ServiceProvider.
func runServices(ctx context.Context, at servers, l load, path string) (r result, err error) {
	f := new(fleet)
	defer func() { err = errors.Join(err, f.open.close()) }()
	if err := f.register(ctx, at, l, path); err != nil {
		return result{}, err
	}
	if err := f.watch(ctx, at, l, path); err != nil {
		return result{}, err
	}
	if err := f.change(ctx, l, time.Now().Add(l.Duration/2), new(result)); err != nil { // to warm up
		return result{}, err
	}
	before, err := at.traffic(ctx)
	if err != nil {
		return result{}, err
	}
	began := &warm{time.Now(), costSoFar()}
	if err := f.change(ctx, l, began.at.Add(l.Duration), &r); err != nil {
		return result{}, err
	}
	r.Seconds = time.Since(began.at).Seconds()
	r.spent(began)
	after, err := at.traffic(ctx)
	if err != nil {
		return result{}, err
	}
	r.ChangeRequests = (after.received - before.received) / float64(r.Turns)
	r.ChangeBytes = (after.bytes - before.bytes) / float64(r.Turns)
	return r, f.lookUp(ctx, at, path, &r)
}

// change makes changes until it is time. A change is seen by a watcher when the watcher has
// its picture with the new instance, counted from the call that registers it.
func (f *fleet) change(ctx context.Context, l load, until time.Time, r *result) error {
	there := l.Clients * l.Goroutines
	var seen []float64
	for r.Turns == 0 || time.Now().Before(until) {
		process, instance := f.processes[r.Turns%len(f.processes)], newServiceInstance()
		began := time.Now()
		if err := f.all(ctx, there+1, func() error { return process.Register(ctx, instance) }); err != nil {
			return err
		}
		for _, w := range f.watchers {
			seen = append(seen, microseconds(w.at.Sub(began)))
		}
		if err := f.all(ctx, there, func() error { return process.Unregister(instance) }); err != nil {
			return err
		}
		r.Turns++
	}
	r.SeenP50, r.SeenP99 = percentile(seen, 50), percentile(seen, 99)
	return nil
}

// lookUp asks a provider many times, while nothing else goes on.
func (f *fleet) lookUp(ctx context.Context, at servers, path string, r *result) error {
	d, err := f.connect(ctx, at, path)
	if err != nil {
		return err
	}
	provider, err := d.NewProvider(serviceName, discovery.ProviderConfig[any]{})
	if err != nil {
		return err
	}
	if err := errors.Join(provider.Start(), provider.Wait(ctx)); err != nil {
		return errors.Join(err, provider.Close())
	}
	f.open = append(f.open, provider.Close)
	before, err := at.traffic(ctx)
	if err != nil {
		return err
	}
	allocated, began := allocatedBytes(), time.Now()
	for range lookUps {
		if _, err := provider.Instance(); err != nil {
			return err
		}
	}
	r.LookUp = float64(time.Since(began).Nanoseconds()) / lookUps
	r.LookUpBytes = (allocatedBytes() - allocated) / lookUps
	after, err := at.traffic(ctx)
	r.LookUpRequests = (after.received - before.received) / lookUps
	return err
}

// allocatedBytes is how much this process has ever allocated on the heap.
func allocatedBytes() float64 {
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return float64(stats.TotalAlloc)
}
