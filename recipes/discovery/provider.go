// SPDX-License-Identifier: Apache-2.0

package discovery

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/internal/options"
	"github.com/gocurator/curator/listen"
)

// Candidates are the instances that a [Strategy] chooses from. They are enabled, accepted by
// the filters, and not down.
type Candidates interface {
	// Len returns how many there are.
	Len() int

	// Up reports whether the instance at an index may be chosen. It is false for an
	// instance that has gone down since the choice began.
	Up(index int) bool

	// Index returns where the instance with an id is, -1 for nowhere.
	Index(id string) int

	// ID returns the id of the instance at an index.
	ID(index int) string
}

// Strategy chooses an instance. It is called by any number of goroutines. When it panics, a
// [ServiceProvider] has the instances go one after the other; the log has the panic once for each
// list of instances.
type Strategy interface {
	// Choose returns the index of an instance, -1 for none.
	Choose(from Candidates) int
}

// RoundRobin returns a strategy that takes the instances one after the other. It is the
// default. All other instances share the calls of an instance that is down.
func RoundRobin() Strategy { return new(roundRobin) }

type roundRobin struct{ next atomic.Uint64 }

func (r *roundRobin) Choose(from Candidates) int {
	if from.Len() == 0 {
		return -1
	}
	return int((r.next.Add(1) - 1) % uint64(from.Len())) //nolint:gosec // less than Len
}

// Random returns a strategy that takes each instance with the same probability.
func Random() Strategy { return random{rand.IntN} }

type random struct{ intN func(n int) int }

func (r random) Choose(from Candidates) int {
	if from.Len() == 0 {
		return -1
	}
	return r.intN(from.Len())
}

// Sticky returns a strategy that stays with one instance for as long as it is
// there, up and unchanged. The other strategy chooses it.
func Sticky(other Strategy) Strategy { return &sticky{other: other} }

type sticky struct {
	other Strategy
	held  atomic.Pointer[held] // nil before the first choice
}

// held is what a sticky strategy stays with.
type held struct {
	instance any // or its id, if the candidates do not compare instances
	index    int // of the last list that it was found in
}

// comparing are candidates that compare instances as Java's equals does, by all that they have.
type comparing interface {
	at(index int) any
	find(instance any, hint int) int // -1 for nowhere
}

func (s *sticky) Choose(from Candidates) int {
	instances, ok := from.(comparing)
	if !ok {
		instances = comparingIDs{from}
	}
	for {
		h := s.held.Load()
		index := -1
		if h != nil {
			index = instances.find(h.instance, h.index)
		}
		if index >= 0 && index == h.index {
			return index
		}
		if index < 0 {
			index = s.other.Choose(from)
		}
		if index < 0 || index >= from.Len() {
			return index
		}
		if s.held.CompareAndSwap(h, &held{instances.at(index), index}) {
			return index
		}
		// Another caller has chosen: all stay with one instance.
	}
}

// comparingIDs compares the candidates of a caller's own.
type comparingIDs struct{ Candidates }

func (c comparingIDs) at(index int) any { return c.ID(index) }

func (c comparingIDs) find(held any, _ int) int {
	id, ok := held.(string)
	if !ok {
		return -1 // of other candidates
	}
	return c.Index(id)
}

// DownInstancePolicy says when an instance is not used for a while. An instance that changes
// counts as another one, as in Curator: it is up. An instance that goes and comes again
// unchanged is the same instance, and stays down.
type DownInstancePolicy struct {
	// Threshold is the number of errors that makes an instance down. Default: 2.
	Threshold int

	// Timeout is how long it stays down, counted from the first of them. Default:
	// 30 seconds.
	Timeout time.Duration
}

// ProviderConfig sets up a [ServiceProvider]. The zero value is ready for use.
type ProviderConfig[T any] struct {
	// Strategy chooses among the instances. Each provider needs one of its own: those of this
	// package remember what they chose last. Default: [RoundRobin].
	Strategy Strategy
	Down     DownInstancePolicy

	// Filters must all accept an instance. They are asked once for each change of it, and not
	// for each look-up. An instance that makes one panic is left out and logged.
	Filters []func(*ServiceInstance[T]) bool
}

// ServiceProvider chooses an instance of a service for each call. It is
// Curator's class of that name. Disabled instances are never chosen.
//
// [ServiceDiscovery.NewProvider] makes one. It is safe for concurrent use.
type ServiceProvider[T any] struct {
	cache   *ServiceCache[T]
	cfg     ProviderConfig[T]
	byTurns roundRobin // where the strategy panics
	current atomic.Pointer[candidates[T]]

	mu    sync.Mutex // of changes of current
	noted notes[T]
}

// NewProvider returns a provider of the instances of a service. It sends
// nothing.
func (d *ServiceDiscovery[T]) NewProvider(name string, cfg ProviderConfig[T]) (*ServiceProvider[T], error) {
	if cfg.Down.Threshold < 0 || cfg.Down.Timeout < 0 {
		return nil, fmt.Errorf("discovery: provider of %s: down-instance policy %+v, expected no negative values", name, cfg.Down)
	}
	switch {
	case cfg.Strategy == nil:
		cfg.Strategy = RoundRobin()
	case options.IsNil(cfg.Strategy):
		return nil, fmt.Errorf("discovery: provider of %s: %w: strategy is a nil %T", name, framework.ErrInvalidOption, cfg.Strategy)
	}
	if cfg.Down.Threshold == 0 {
		cfg.Down.Threshold = 2
	}
	if cfg.Down.Timeout == 0 {
		cfg.Down.Timeout = 30 * time.Second
	}
	instances, err := d.NewCache(name, cfg.Filters...)
	if err != nil {
		return nil, err
	}
	// Before the filters: they are not asked about instances that are never chosen.
	instances.filters = slices.Insert(slices.Clone(instances.filters), 0, isEnabled[T])
	p := &ServiceProvider[T]{cache: instances, cfg: cfg, noted: notes[T]{policy: cfg.Down, byID: map[string][]*note[T]{}}}
	p.current.Store(&candidates[T]{provider: p, of: instances.entries(), told: new(atomic.Bool)})
	return p, nil
}

func isEnabled[T any](instance *ServiceInstance[T]) bool { return !instance.Disabled }

// Start begins to follow the service and returns at once, as [ServiceCache.Start] does.
func (p *ServiceProvider[T]) Start() error { return p.cache.Start() }

// Wait blocks until the instances are known; see [ServiceCache.Wait].
func (p *ServiceProvider[T]) Wait(ctx context.Context) error { return p.cache.Wait(ctx) }

// Instance chooses one of the instances that this process knows. It sends nothing, and
// allocates nothing but for the first call after a change. It fails with [ErrNoInstance] when
// there is no instance that is enabled, accepted by the filters and up, with [ErrNotStarted]
// before Start, and with [ErrClosed] after Close. The instance is shared and must not be changed.
func (p *ServiceProvider[T]) Instance() (*ServiceInstance[T], error) {
	return p.choose(nil)
}

// choose chooses among the instances that suit, nil for all.
func (p *ServiceProvider[T]) choose(suits func(*ServiceInstance[T]) bool) (*ServiceInstance[T], error) {
	if p.cache.life.Err() != nil {
		return nil, fmt.Errorf("discovery: %s: provider %w", p.cache.name, ErrClosed)
	}
	from := p.candidates()
	if suits != nil { // before the strategy is asked, whose turns are then shared by those that suit
		from = from.only(suits)
	}
	chosen := p.ask(from)
	if chosen == nil {
		if err := p.cache.cache.Err(); errors.Is(err, ErrNotStarted) {
			return nil, fmt.Errorf("discovery: provider of %s: %w", p.cache.name, err)
		}
		return nil, fmt.Errorf("discovery: %s: %w: %d known, %d up and suitable", p.cache.name, ErrNoInstance, len(*p.cache.entries()), from.Len())
	}
	return chosen, nil
}

// ask returns the instance that the strategy chooses, nil for none.
func (p *ServiceProvider[T]) ask(from *candidates[T]) (chosen *ServiceInstance[T]) {
	defer func() {
		recovered := recover()
		if recovered == nil {
			return
		}
		if !from.told.Swap(true) {
			p.cache.discovery.client.Logger().Error("a strategy panicked, and instances go one after the other", logPath, p.cache.cache.Path(),
				"panic", recovered, "stack", string(debug.Stack()))
		}
		if index := p.byTurns.Choose(from); index >= 0 {
			chosen = from.list[index].instance
		}
	}()
	index := p.cfg.Strategy.Choose(from)
	if index < 0 || index >= len(from.list) {
		return nil
	}
	return from.list[index].instance
}

// candidates returns the instances that are up.
func (p *ServiceProvider[T]) candidates() *candidates[T] {
	if c := p.current.Load(); p.isCurrent(c) {
		return c
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if c := p.current.Load(); p.isCurrent(c) {
		return c
	}
	of := p.cache.entries()
	c := &candidates[T]{provider: p, of: of, list: *of, told: new(atomic.Bool)}
	c.list, c.until = p.noted.withoutDown(c.list)
	p.current.Store(c)
	return c
}

func (p *ServiceProvider[T]) isCurrent(c *candidates[T]) bool {
	return c.of == p.cache.current.Load() && !c.stale.Load() && (c.until.IsZero() || time.Now().Before(c.until))
}

// Instances returns all instances that [ServiceProvider.Instance] chooses from, and none after
// Close. The list is the caller's. The instances are shared and must not be changed.
func (p *ServiceProvider[T]) Instances() []*ServiceInstance[T] {
	return p.candidates().list.instances()
}

// OnChange adds a listener that is called with the instances after each change of them; see
// [ServiceCache.OnChange]. They are enabled and accepted by the filters. Which of them are down it
// does not tell.
func (p *ServiceProvider[T]) OnChange(fn func([]*ServiceInstance[T])) *listen.Registration {
	return p.cache.OnChange(fn)
}

// NoteError reports that a call of an instance has failed. The [DownInstancePolicy] decides
// what follows. A copy of the instance is enough, because instances are compared by content.
// NoteError sends nothing, so other processes do not learn of the error.
func (p *ServiceProvider[T]) NoteError(instance *ServiceInstance[T]) {
	if instance == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.noted.add(instance) {
		p.current.Load().stale.Store(true)
	}
}

func (p *ServiceProvider[T]) isDown(instance *ServiceInstance[T]) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, down := p.noted.isDown(instance, time.Now())
	return down
}

// Age returns how old the known instances may be; see [ServiceCache.Age].
func (p *ServiceProvider[T]) Age() time.Duration { return p.cache.Age() }

// Name returns the name of the service.
func (p *ServiceProvider[T]) Name() string { return p.cache.name }

// Close stops following, as [ServiceCache.Close] does.
func (p *ServiceProvider[T]) Close() error { return p.cache.Close() }
