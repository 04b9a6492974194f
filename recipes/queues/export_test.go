// SPDX-License-Identifier: Apache-2.0

package queues

import "time"

// Flushing reports whether a flush waits.
func (q *queue) Flushing() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.progress != nil
}

// JumpClock moves the clock of the consumers of a queue forward.
func (q *DistributedDelayQueue) JumpClock(by func() time.Duration) {
	q.order.due = func(name string) time.Time { return dueTime(name).Add(-by()) }
}

// Encode returns the data of a znode with one item.
func Encode(item []byte) []byte { return envelope([][]byte{item}) }
