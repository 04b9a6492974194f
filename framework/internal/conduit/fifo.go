// SPDX-License-Identifier: Apache-2.0

package conduit

import "slices"

// fifo is a queue. It reuses its memory, because a connection has one request after
// another for as long as it lives.
type fifo[T any] struct {
	slots []T
	gone  int // how many slots at the beginning have left the queue
}

func (q *fifo[T]) push(v T) {
	// Move only when most slots are free, or each push might copy the queue.
	if len(q.slots) == cap(q.slots) && q.gone > len(q.slots)/2 {
		kept := copy(q.slots, q.all())
		clear(q.slots[kept:])
		q.slots, q.gone = q.slots[:kept], 0
	}
	q.slots = append(q.slots, v)
}

// first returns what was pushed first, false if there is nothing.
func (q *fifo[T]) first() (v T, ok bool) {
	if q.len() == 0 {
		return v, false
	}
	return q.all()[0], true
}

// pushFront puts values before all earlier values, in their order.
func (q *fifo[T]) pushFront(values []T) {
	q.slots, q.gone = slices.Concat(values, q.all()), 0
}

// pop removes the first value; there must be one.
func (q *fifo[T]) pop() { q.popN(1) }

// popN removes the first n values; there must be as many.
func (q *fifo[T]) popN(n int) {
	clear(q.slots[q.gone:][:n])
	q.gone += n
	if q.len() == 0 {
		q.slots, q.gone = q.slots[:0], 0
	}
}

// keep removes what does not match.
func (q *fifo[T]) keep(match func(T) bool) {
	kept := q.slots[:0]
	for _, v := range q.all() {
		if match(v) {
			kept = append(kept, v)
		}
	}
	clear(q.slots[len(kept):])
	q.slots, q.gone = kept, 0
}

func (q *fifo[T]) all() []T { return q.slots[q.gone:] }

func (q *fifo[T]) len() int { return len(q.slots) - q.gone }
