// SPDX-License-Identifier: Apache-2.0

package queues

// Flushing reports whether a flush waits.
func (q *queue) Flushing() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.progress != nil
}

// Encode returns the data of a znode with one item.
func Encode(item []byte) []byte { return envelope([][]byte{item}) }
