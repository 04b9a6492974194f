package framework

import "sync"

// WatchQueue collects watches as they end, for a program that has many and one goroutine to
// deal with them. A watch is in the queue before anything that follows its event in the
// server's stream: once a [Framework.Sync] has returned, the queue has every watch that a
// change committed before it has ended. The zero value is ready for use. A WatchQueue must not
// be copied.
type WatchQueue struct {
	mu    sync.Mutex
	ended []*Watch
	wake  chan struct{} // has room for one
}

// Add has the watch join the queue when it ends, and at once if it has ended already. A watch
// that is cancelled first never does.
func (q *WatchQueue) Add(w *Watch) {
	if !w.watches.addHook(w, func(Event) { q.push(w) }) {
		q.push(w)
	}
}

// Take returns the watches that have ended since the last call, in their order. Their events
// have the paths.
func (q *WatchQueue) Take() []*Watch {
	q.mu.Lock()
	defer q.mu.Unlock()
	ended := q.ended
	q.ended = nil
	return ended
}

// Wake returns a channel from which a value can be received after watches have come. There may
// be a value although Take has been called since.
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
