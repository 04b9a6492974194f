// SPDX-License-Identifier: Apache-2.0

package discovery

import (
	"math"
	"math/rand/v2"
	"slices"
	"sync/atomic"
)

// InstanceAt returns the instance at an index of the candidates, for a [Strategy] of one's own that
// looks at more than ids. It returns nil if the instances are of another type, or the candidates
// have no method Instance. The instance is shared and must not be changed.
func InstanceAt[T any](from Candidates, index int) *ServiceInstance[T] {
	if seen, ok := from.(interface {
		Instance(index int) *ServiceInstance[T]
	}); ok {
		return seen.Instance(index)
	}
	return nil
}

// isKept reports whether what is known of candidates serves the next choice. Those of others may
// change, or may not be compared.
func isKept[T any](from Candidates) bool {
	switch from.(type) {
	case *candidates[T], *nearby[T]:
		return true
	default:
		return false
	}
}

// Weighted returns a strategy that takes each instance with a probability in proportion to its
// weight. An instance whose weight is 0 or less is never chosen, and a weight above math.MaxInt32
// counts as that. A provider calls weight once for each list of instances. Instances that [InstanceAt] does not show have the weight 1.
func Weighted[T any](weight func(*ServiceInstance[T]) int) Strategy {
	return &weighted[T]{weight: weight, intN: rand.Int64N}
}

type weighted[T any] struct {
	weight func(*ServiceInstance[T]) int
	intN   func(n int64) int64
	known  atomic.Pointer[weights]
}

// weights are the sums of the weights of the candidates up to each index.
type weights struct {
	from Candidates
	sums []int64
}

func (w *weighted[T]) Choose(from Candidates) int {
	known := w.known.Load()
	if known == nil || !isKept[T](from) || known.from != from {
		known = w.sum(from)
		w.known.Store(known)
	}
	if len(known.sums) == 0 || known.sums[len(known.sums)-1] == 0 {
		return -1
	}
	index, _ := slices.BinarySearch(known.sums, w.intN(known.sums[len(known.sums)-1])+1)
	return index
}

func (w *weighted[T]) sum(from Candidates) *weights {
	known, total := &weights{from: from, sums: make([]int64, from.Len())}, int64(0)
	for i := range known.sums {
		weight := 1
		if instance := InstanceAt[T](from, i); instance != nil {
			weight = w.weight(instance)
		}
		total += int64(min(max(weight, 0), math.MaxInt32)) // the sum must not overflow
		known.sums[i] = total
	}
	return known
}

// SameZone returns a strategy that chooses among the instances of a zone, and among all if none of
// the zone is up. A provider calls zoneOf once for each list of instances. The other strategy
// chooses, such as [Weighted] or [RoundRobin]:
//
//	discovery.SameZone("a", func(i *discovery.ServiceInstance[Meta]) string { return i.Payload.Zone }, discovery.RoundRobin())
func SameZone[T any](zone string, zoneOf func(*ServiceInstance[T]) string, other Strategy) Strategy {
	return &sameZone[T]{zone: zone, zoneOf: zoneOf, other: other}
}

type sameZone[T any] struct {
	zone   string
	zoneOf func(*ServiceInstance[T]) string
	other  Strategy
	known  atomic.Pointer[nearby[T]]
}

// nearby are the candidates of a zone.
type nearby[T any] struct {
	from    Candidates
	indexes []int
}

func (s *sameZone[T]) Choose(from Candidates) int {
	near := s.known.Load()
	if near == nil || !isKept[T](from) || near.from != from {
		near = &nearby[T]{from: from}
		for i := range from.Len() {
			if instance := InstanceAt[T](from, i); instance != nil && s.zoneOf(instance) == s.zone {
				near.indexes = append(near.indexes, i)
			}
		}
		s.known.Store(near)
	}
	if len(near.indexes) == 0 {
		return s.other.Choose(from)
	}
	index := s.other.Choose(near)
	if index < 0 || index >= len(near.indexes) {
		return -1
	}
	return near.indexes[index]
}

func (n *nearby[T]) Len() int            { return len(n.indexes) }
func (n *nearby[T]) Up(index int) bool   { return n.from.Up(n.indexes[index]) }
func (n *nearby[T]) ID(index int) string { return n.from.ID(n.indexes[index]) }

func (n *nearby[T]) Index(id string) int { return slices.Index(n.indexes, n.from.Index(id)) }

func (n *nearby[T]) Instance(index int) *ServiceInstance[T] {
	return InstanceAt[T](n.from, n.indexes[index])
}
