// SPDX-License-Identifier: Apache-2.0

package discovery

import (
	"iter"
	"sync"
	"time"

	"github.com/gocurator/curator/recipes/cache"
)

// arrivals is the storage of the picture below a [ServiceCache]. It keeps the newest state of
// each instance until the cache has read it, and nothing longer. As the storage, it has all that
// the picture has when Fresh returns, unlike a listener.
type arrivals struct {
	wake func()               // must not block
	lag  func() time.Duration // since the cache below has heard of what it adds

	mu      sync.Mutex
	pending map[string]arrival // by path
	oldest  time.Time          // of pending, zero for none
	reading time.Time          // the oldest of what take has returned, zero once it is applied
	full    bool               // the first picture is
}

// arrival is a new state of a znode.
type arrival struct {
	data []byte
	gone bool
}

// Put notes the data of an instance.
func (a *arrivals) Put(data *cache.ChildData) *cache.ChildData {
	a.add(data.Path, arrival{data: data.Data})
	return nil
}

// Remove notes that an instance is gone.
func (a *arrivals) Remove(path string) *cache.ChildData {
	a.add(path, arrival{gone: true})
	return nil
}

func (a *arrivals) add(path string, state arrival) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.pending[path] = state
	if a.oldest.IsZero() {
		a.oldest = time.Now().Add(-a.lag())
	}
	if a.full {
		a.wake()
	}
}

// complete notes that the first picture is full.
func (a *arrivals) complete() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.full = true
	a.wake()
}

// take returns what has arrived. It reports false until the first picture is full.
func (a *arrivals) take() (arrived map[string]arrival, full bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.full {
		return nil, false
	}
	arrived = a.pending
	a.pending = map[string]arrival{}
	if a.reading.IsZero() { // a take that was not applied counts on
		a.reading = a.oldest
	}
	a.oldest = time.Time{}
	return arrived, true
}

// applied notes that the instances have what take has returned.
func (a *arrivals) applied() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.reading = time.Time{}
}

// age returns for how long something has waited, 0 if nothing does.
func (a *arrivals) age() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case !a.reading.IsZero():
		return time.Since(a.reading)
	case !a.oldest.IsZero():
		return time.Since(a.oldest)
	default:
		return 0
	}
}

// The cache below has what it needs to compare states. It asks for none of these.

// Get returns nothing.
func (a *arrivals) Get(string) (*cache.ChildData, bool) { return nil, false }

// Size returns 0.
func (a *arrivals) Size() int { return 0 }

// Stream yields nothing.
func (a *arrivals) Stream() iter.Seq[*cache.ChildData] { return func(func(*cache.ChildData) bool) {} }

// Clear does nothing: the cache is closed.
func (a *arrivals) Clear() {}
