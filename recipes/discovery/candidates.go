// SPDX-License-Identifier: Apache-2.0

package discovery

import (
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// candidates implement [Candidates]. They do not change, apart from their atomic
// fields.
type candidates[T any] struct {
	provider *ServiceProvider[T]

	of    *entries[T]  // of the cache
	list  entries[T]   // the entries that are up
	until time.Time    // when the first entry that is down is up again; zero if none is down
	stale atomic.Bool  // an instance has gone down since
	told  *atomic.Bool // of a panic of the strategy; shared with those that suit

	indexed sync.Once
	index   map[string]int
}

func (c *candidates[T]) Len() int            { return len(c.list) }
func (c *candidates[T]) ID(index int) string { return c.list[index].instance.ID }

func (c *candidates[T]) Up(index int) bool {
	isNewest := c.provider.current.Load() == c && !c.stale.Load()
	return isNewest || !c.provider.isDown(c.list[index].instance)
}

func (c *candidates[T]) Index(id string) int {
	c.indexed.Do(func() {
		c.index = make(map[string]int, len(c.list))
		for i, e := range c.list {
			c.index[e.instance.ID] = i
		}
	})
	if index, ok := c.index[id]; ok {
		return index
	}
	return -1
}

func (c *candidates[T]) Instance(index int) *ServiceInstance[T] { return c.list[index].instance }

func (c *candidates[T]) at(index int) any { return c.list[index].instance }

// find returns where an instance is, or one that equals it. It looks at the hint first.
func (c *candidates[T]) find(instance any, hint int) int {
	wanted, ok := instance.(*ServiceInstance[T])
	switch {
	case !ok:
		return -1
	case hint < len(c.list) && c.list[hint].instance == wanted:
		return hint
	}
	return slices.IndexFunc(c.list, func(e *entry[T]) bool { return equal(e.instance, wanted) })
}

// only returns the candidates that suit.
func (c *candidates[T]) only(suits func(*ServiceInstance[T]) bool) *candidates[T] {
	if !slices.ContainsFunc(c.list, func(e *entry[T]) bool { return !suits(e.instance) }) {
		return c // as mostly
	}
	few := &candidates[T]{provider: c.provider, of: c.of, told: c.told}
	for _, e := range c.list {
		if suits(e.instance) {
			few.list = append(few.list, e)
		}
	}
	return few
}

// equal reports whether two instances are the same, as Java's equals does.
func equal[T any](a, b *ServiceInstance[T]) bool {
	return a == b || a.ID == b.ID && reflect.DeepEqual(a, b)
}

// note is the errors of an instance.
type note[T any] struct {
	instance *ServiceInstance[T]
	errors   int
	first    time.Time
}

// notes are Curator's DownInstanceManager. The mutex of the provider guards them.
type notes[T any] struct {
	policy DownInstancePolicy
	byID   map[string][]*note[T]
	purged time.Time
}

// add notes an error, and reports whether the instance goes down by it.
func (n *notes[T]) add(instance *ServiceInstance[T]) (down bool) {
	now := time.Now()
	n.purge(now)
	of := n.byID[instance.ID]
	at := slices.IndexFunc(of, func(o *note[T]) bool { return equal(o.instance, instance) })
	if at < 0 {
		own := *instance // which the caller may change
		of = append(of, &note[T]{instance: &own})
		n.byID[instance.ID] = of
		at = len(of) - 1
	}
	o := of[at]
	if o.errors == 0 || now.Sub(o.first) >= n.policy.Timeout {
		o.errors, o.first = 0, now
	}
	o.errors++
	return o.errors == n.policy.Threshold
}

// purge forgets what is over, now and then: a note costs memory only.
func (n *notes[T]) purge(now time.Time) {
	if now.Sub(n.purged) < n.policy.Timeout/2 {
		return
	}
	n.purged = now
	for id, of := range n.byID {
		of = slices.DeleteFunc(of, func(o *note[T]) bool { return now.Sub(o.first) >= n.policy.Timeout })
		if len(of) == 0 {
			delete(n.byID, id)
		} else {
			n.byID[id] = of
		}
	}
}

// withoutDown returns the entries that are up, and when the first of the others is up again.
func (n *notes[T]) withoutDown(all entries[T]) (up entries[T], until time.Time) {
	now := time.Now()
	n.purge(now)
	if len(n.byID) == 0 {
		return all, until
	}
	up = make(entries[T], 0, len(all))
	for _, e := range all {
		end, down := n.isDown(e.instance, now)
		switch {
		case !down:
			up = append(up, e)
		case until.IsZero() || end.Before(until):
			until = end
		}
	}
	return up, until
}

// isDown reports whether an instance is down, and until when.
func (n *notes[T]) isDown(instance *ServiceInstance[T], now time.Time) (until time.Time, down bool) {
	for _, o := range n.byID[instance.ID] {
		if end := o.first.Add(n.policy.Timeout); o.errors >= n.policy.Threshold && now.Before(end) && equal(o.instance, instance) {
			return end, true
		}
	}
	return time.Time{}, false
}
