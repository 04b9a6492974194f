package discovery

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gocurator/curator/listen"
)

// Candidates are the instances that a [Strategy] chooses from.
type Candidates interface {
	// Len returns how many there are, down ones included.
	Len() int

	// Up reports whether the instance at an index may be chosen.
	Up(index int) bool

	// Index returns where the instance with an id is, -1 for nowhere.
	Index(id string) int

	// ID returns the id of the instance at an index.
	ID(index int) string
}

// Strategy chooses an instance. It is called by any number of goroutines.
type Strategy interface {
	// Choose returns the index of an instance that is up, -1 for none.
	Choose(from Candidates) int
}

// RoundRobin returns a strategy that takes the instances by turns. It is the
// default.
func RoundRobin() Strategy { return new(roundRobin) }

type roundRobin struct{ next atomic.Uint64 }

func (r *roundRobin) Choose(from Candidates) int {
	if from.Len() == 0 {
		return -1
	}
	return firstUp(from, int((r.next.Add(1)-1)%uint64(from.Len()))) //nolint:gosec // less than Len
}

// firstUp returns the first instance that is up, from an index on and around.
func firstUp(from Candidates, start int) int {
	for i := range from.Len() {
		if index := (start + i) % from.Len(); from.Up(index) {
			return index
		}
	}
	return -1
}

// Random returns a strategy that takes each instance with the same probability.
func Random() Strategy { return random{rand.IntN} }

type random struct{ intN func(n int) int }

func (r random) Choose(from Candidates) int {
	chosen, up := -1, 0
	for i := range from.Len() {
		if from.Up(i) {
			if up++; r.intN(up) == 0 {
				chosen = i
			}
		}
	}
	return chosen
}

// Sticky returns a strategy that stays with one instance for as long as it is
// there and up. The other strategy chooses it.
func Sticky(other Strategy) Strategy { return &sticky{other: other} }

type sticky struct {
	other Strategy

	mu sync.Mutex
	id string
}

func (s *sticky) Choose(from Candidates) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if index := from.Index(s.id); index >= 0 && from.Up(index) {
		return index
	}
	index := s.other.Choose(from)
	if index >= 0 {
		s.id = from.ID(index)
	}
	return index
}

// DownInstancePolicy says when an instance is not used for a while.
type DownInstancePolicy struct {
	// Threshold is the number of errors that makes an instance down. Default: 2.
	Threshold int

	// Timeout is how long it stays down, counted from the first of them. Default:
	// 30 seconds.
	Timeout time.Duration
}

// ProviderConfig sets up a [ServiceProvider]. The zero value is ready for use.
type ProviderConfig[T any] struct {
	Strategy Strategy // default: [RoundRobin]
	Down     DownInstancePolicy

	// Filters must all accept an instance. They are asked when it changes, and not
	// for each look-up.
	Filters []func(*ServiceInstance[T]) bool
}

// ServiceProvider chooses an instance of a service for each call. It is
// Curator's class of that name. Disabled instances are never chosen.
//
// It is safe for concurrent use.
type ServiceProvider[T any] struct {
	cache    *ServiceCache[T]
	cfg      ProviderConfig[T]
	current  atomic.Pointer[candidates[T]]
	follower *listen.Registration

	mu sync.Mutex // of changes of current
}

// candidate is an instance and what has been noted about it.
type candidate[T any] struct {
	instance *ServiceInstance[T]
	policy   DownInstancePolicy

	mu     sync.Mutex
	errors int
	first  time.Time // of the errors
	noted  atomic.Bool
}

// up reports whether the instance may be used.
func (c *candidate[T]) up() bool {
	if !c.noted.Load() {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.first) >= c.policy.Timeout {
		c.errors = 0
		c.noted.Store(false)
	}
	return c.errors < c.policy.Threshold
}

func (c *candidate[T]) note() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.errors == 0 || time.Since(c.first) >= c.policy.Timeout {
		c.errors, c.first = 0, time.Now()
	}
	c.errors++
	c.noted.Store(true)
}

// candidates implement [Candidates].
type candidates[T any] struct {
	list  []*candidate[T]
	index map[string]int
}

func (c *candidates[T]) Len() int            { return len(c.list) }
func (c *candidates[T]) Up(index int) bool   { return c.list[index].up() }
func (c *candidates[T]) ID(index int) string { return c.list[index].instance.ID }

func (c *candidates[T]) Index(id string) int {
	if index, ok := c.index[id]; ok {
		return index
	}
	return -1
}

// NewProvider returns a provider of the instances of a service. It sends
// nothing.
func (d *ServiceDiscovery[T]) NewProvider(name string, cfg ProviderConfig[T]) (*ServiceProvider[T], error) {
	if cfg.Down.Threshold < 0 || cfg.Down.Timeout < 0 {
		return nil, fmt.Errorf("discovery: provider of %s: down-instance policy %+v, expected no negative values", name, cfg.Down)
	}
	if cfg.Strategy == nil {
		cfg.Strategy = RoundRobin()
	}
	if cfg.Down.Threshold == 0 {
		cfg.Down.Threshold = 2
	}
	if cfg.Down.Timeout == 0 {
		cfg.Down.Timeout = 30 * time.Second
	}
	instances, err := d.NewCache(name)
	if err != nil {
		return nil, err
	}
	p := &ServiceProvider[T]{cache: instances, cfg: cfg}
	p.current.Store(new(candidates[T]))
	p.follower = instances.OnChange(func([]*ServiceInstance[T]) { p.update() })
	return p, nil
}

// update takes over the instances of the cache. What was noted about those that
// have not changed stays.
func (p *ServiceProvider[T]) update() {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := map[*ServiceInstance[T]]*candidate[T]{}
	for _, c := range p.current.Load().list {
		before[c.instance] = c
	}
	next := &candidates[T]{index: map[string]int{}}
	for _, instance := range p.cache.Instances() {
		if !p.accepts(instance) {
			continue
		}
		known := before[instance]
		if known == nil {
			known = &candidate[T]{instance: instance, policy: p.cfg.Down}
		}
		next.index[instance.ID] = len(next.list)
		next.list = append(next.list, known)
	}
	p.current.Store(next)
}

func (p *ServiceProvider[T]) accepts(instance *ServiceInstance[T]) bool {
	if instance.Disabled {
		return false
	}
	for _, accept := range p.cfg.Filters {
		if !accept(instance) {
			return false
		}
	}
	return true
}

// Start begins to follow the service and blocks until its instances are known;
// see [ServiceCache.Start].
func (p *ServiceProvider[T]) Start(ctx context.Context) error {
	if err := p.cache.Start(ctx); err != nil {
		return err
	}
	p.update()
	return nil
}

// Instance chooses an instance among those that this process knows. It sends
// nothing and allocates nothing. It fails with [ErrNoInstance] when there is no
// instance that is enabled, accepted by the filters and up. The instance must
// not be changed.
func (p *ServiceProvider[T]) Instance() (*ServiceInstance[T], error) {
	current := p.current.Load()
	index := p.cfg.Strategy.Choose(current)
	if index < 0 || index >= len(current.list) {
		return nil, fmt.Errorf("discovery: %s: %w: %d known, none is up", p.cache.name, ErrNoInstance, len(current.list))
	}
	return current.list[index].instance, nil
}

// Instances returns all instances that [ServiceProvider.Instance] chooses from,
// without those that are down.
func (p *ServiceProvider[T]) Instances() []*ServiceInstance[T] {
	var up []*ServiceInstance[T]
	for _, c := range p.current.Load().list {
		if c.up() {
			up = append(up, c.instance)
		}
	}
	return up
}

// NoteError reports that a call of an instance has failed. The
// [DownInstancePolicy] decides what follows. It sends nothing: other processes
// do not learn of it.
func (p *ServiceProvider[T]) NoteError(instance *ServiceInstance[T]) {
	for _, c := range p.current.Load().list {
		if c.instance == instance {
			c.note()
			return
		}
	}
}

// Age returns how old the known instances may be; see [ServiceCache.Age].
func (p *ServiceProvider[T]) Age() time.Duration { return p.cache.Age() }

// Name returns the name of the service.
func (p *ServiceProvider[T]) Name() string { return p.cache.name }

// Close stops following, as [ServiceCache.Close] does.
func (p *ServiceProvider[T]) Close() error {
	err := p.cache.Close()
	p.follower.Remove()
	<-p.follower.Done()
	return err
}
