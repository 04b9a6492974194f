// SPDX-License-Identifier: Apache-2.0

package zkserver

import (
	"math"
	"net"
	"runtime"
	"sync"
	"time"
)

// WithMaxQueued sets how many bytes may wait for a client that does not read.
func WithMaxQueued(n int) Option {
	return optionFunc(func(c *config) error {
		c.maxQueued = n
		return nil
	})
}

// Held is how many bytes are counted for connections.
func (s *Server) Held() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held
}

// ConnFootprint is what a connection counts for that does nothing.
const ConnFootprint = connFootprint

// ExpireWhileAwaited lets sessions expire as if all of them were due, as soon as a request of the session id has arrived,
// which cannot be served before that.
func (s *Server) ExpireWhileAwaited(id int64, send func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	send()
	for !s.awaited()[id] {
		runtime.Gosched()
	}
	s.expireLocked(math.MaxInt64)
}

// ExpireAfter lets sessions expire as if all of them were due, after d in which the server does nothing else.
func (s *Server) ExpireAfter(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	time.Sleep(d)
	s.expireLocked(math.MaxInt64)
}

// MemoryPipe returns the two ends of a connection in memory that no server serves.
func MemoryPipe() (a, b net.Conn) { return (&Server{mu: new(sync.Mutex)}).pipe() }
