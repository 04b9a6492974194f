// SPDX-License-Identifier: Apache-2.0

package framework

import "sync"

// background is the goroutines of a client that end with its context.
type background struct {
	mu      sync.Mutex
	closed  bool
	running sync.WaitGroup
}

// start starts a goroutine that close waits for, or returns false after close.
func (b *background) start(run func()) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	b.running.Go(run)
	return true
}

// close waits until all goroutines have ended. No other can be started.
func (b *background) close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.running.Wait()
}

func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}
