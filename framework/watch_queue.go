// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"sync"

	"github.com/gocurator/curator/framework/internal/watching"
)

// WatchQueue collects watches as they end, for a program with many watches and one goroutine
// that handles them. A watch is in the queue before anything that follows its event in the
// server's stream: once a [Framework.Sync] has returned, the queue has every watch ended by a
// change that was committed before it. The zero value is ready for use. A WatchQueue must not
// be copied.
type WatchQueue struct {
	mu    sync.Mutex
	ended []*Watch
	wake  chan struct{} // has room for one
}

// Add puts the watch into the queue when it ends, or at once if it has ended already. A watch
// that is cancelled first never enters the queue.
func (q *WatchQueue) Add(w *Watch) {
	if !w.one.AddHook(func(watching.Event) { q.push(w) }) {
		q.push(w)
	}
}

// Take returns the watches that have ended since the last call, in order. Their events have
// their paths.
func (q *WatchQueue) Take() []*Watch {
	q.mu.Lock()
	defer q.mu.Unlock()
	ended := q.ended
	q.ended = nil
	return ended
}

// Wake returns a channel that receives a value after watches have entered the queue. The value
// may still be there after Take.
func (q *WatchQueue) Wake() <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.wakingLocked()
}

// wakingLocked returns the channel.
func (q *WatchQueue) wakingLocked() chan struct{} {
	if q.wake == nil {
		q.wake = make(chan struct{}, 1)
	}
	return q.wake
}

func (q *WatchQueue) push(w *Watch) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ended = append(q.ended, w)
	select {
	case q.wakingLocked() <- struct{}{}:
	default:
	}
}
