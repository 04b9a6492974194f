// SPDX-License-Identifier: Apache-2.0

package discovery

import (
	"hash/maphash"
	"maps"
	"slices"
	"strings"
)

// entry is an instance that a cache has. It never changes.
type entry[T any] struct {
	path     string
	sum      uint64 // of its data
	instance *ServiceInstance[T]
}

var seed = maphash.MakeSeed()

// entries are the entries of one service, in the order of their paths. They never change.
type entries[T any] []*entry[T]

// with returns the entries after changes, and reports whether they differ. An entry whose data
// is the same stays the same, even if its znode was created again. It calls read for all other
// data, and leaves out the instances for which read returns nil.
func (e entries[T]) with(changes map[string]arrival, read func(path string, data []byte) *ServiceInstance[T]) (next entries[T], differ bool) {
	next, rest := make(entries[T], 0, len(e)+len(changes)), e
	for _, path := range slices.Sorted(maps.Keys(changes)) {
		at, found := slices.BinarySearchFunc(rest, path, func(e *entry[T], path string) int { return strings.Compare(e.path, path) })
		next = append(next, rest[:at]...)
		rest = rest[at:]
		var before, after *entry[T]
		if found {
			before, rest = rest[0], rest[1:]
		}
		if change := changes[path]; !change.gone {
			after = before
			if sum := maphash.Bytes(seed, change.data); before == nil || before.sum != sum {
				after = nil
				if instance := read(path, change.data); instance != nil {
					after = &entry[T]{path: path, sum: sum, instance: instance}
				}
			}
		}
		if after != nil {
			next = append(next, after)
		}
		differ = differ || before != after
	}
	return append(next, rest...), differ
}

// instances returns the instances in a list of the caller's.
func (e entries[T]) instances() []*ServiceInstance[T] {
	all := make([]*ServiceInstance[T], len(e))
	for i := range e {
		all[i] = e[i].instance
	}
	return all
}
