// SPDX-License-Identifier: Apache-2.0

package discovery

import (
	"hash/maphash"
	"slices"
	"strings"

	"github.com/gocurator/curator/recipes/cache"
)

// entry is an instance that a cache has. It never changes.
type entry[T any] struct {
	path     string
	sum      uint64 // of its data
	instance *ServiceInstance[T]
}

var seed = maphash.MakeSeed()

// entries are the entries of one service, in the order of their paths.
type entries[T any] []*entry[T]

func (e entries[T]) find(path string) (at int, found bool) {
	return slices.BinarySearchFunc(e, path, func(e *entry[T], path string) int { return strings.Compare(e.path, path) })
}

// at returns the entry of a path, nil for none.
func (e entries[T]) at(path string) *entry[T] {
	if at, found := e.find(path); found {
		return e[at]
	}
	return nil
}

// with replaces the entry of a path in place, nil for none.
func (e entries[T]) with(path string, after *entry[T]) entries[T] {
	at, found := e.find(path)
	switch {
	case found && after != nil:
		e[at] = after
	case found:
		e = slices.Delete(e, at, at+1)
	case after != nil:
		e = slices.Insert(e, at, after)
	}
	return e
}

// instances returns the instances in a list of the caller's.
func (e entries[T]) instances() []*ServiceInstance[T] {
	all := make([]*ServiceInstance[T], len(e))
	for i := range e {
		all[i] = e[i].instance
	}
	return all
}

// storage is the storage of the picture below a [ServiceCache]. As the storage, the instances have all that the
// picture has when Fresh returns, unlike a listener. The cache below has what it needs to compare states, and reads
// nothing from its storage.
type storage[T any] struct {
	cache.CuratorCacheStorage // which stays empty

	of *ServiceCache[T]
}

// Put takes over the data of an instance.
func (s storage[T]) Put(data *cache.ChildData) *cache.ChildData {
	s.of.put(data.Path, data.Data)
	return nil
}

// Remove notes that an instance is gone.
func (s storage[T]) Remove(path string) *cache.ChildData {
	s.of.set(path, nil)
	return nil
}
