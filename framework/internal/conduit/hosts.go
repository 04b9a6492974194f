package conduit

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

const (
	// stableAfter is how long a connection must have lived for the next attempt
	// to be made at once.
	stableAfter = time.Second
	minPause    = 50 * time.Millisecond
	maxPause    = time.Second
)

// hosts is go-zookeeper's host provider: it names the servers in turn and, in
// pause, spaces the attempts. Names are resolved by the dialer at each attempt.
// It is also how go-zookeeper's connect loop is told to end: the loop looks at its
// own stop signal only when a provider says that a round is over.
type hosts struct {
	mu          sync.Mutex
	servers     []string
	next        int
	attempts    int       // since the last stable connection
	connectedAt time.Time // zero when not connected
	stopped     bool
}

// Init is called by go-zookeeper with the servers in random order.
func (h *hosts) Init(servers []string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.servers = servers
	return nil
}

// Len is the number of servers.
func (h *hosts) Len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.servers)
}

// Next names the server to try.
func (h *hosts) Next() (server string, roundOver bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	server = h.servers[h.next]
	h.next = (h.next + 1) % len(h.servers)
	return server, h.stopped
}

// Connected is called by go-zookeeper after a handshake.
func (h *hosts) Connected() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.connectedAt = time.Now()
}

func (h *hosts) stop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stopped = true
}

// pause blocks until the next attempt may be made: at once after a stable
// connection and within the first round, then with growing, jittered pauses.
func (h *hosts) pause(ctx context.Context) error {
	wait := h.nextPause()
	if wait == 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (h *hosts) nextPause() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.connectedAt.IsZero() {
		if time.Since(h.connectedAt) >= stableAfter {
			h.attempts = 0
		}
		h.connectedAt = time.Time{}
	}
	round := h.attempts / len(h.servers)
	h.attempts++
	if round == 0 {
		return 0
	}
	ceiling := min(maxPause, minPause<<min(round, 10))
	return ceiling/2 + rand.N(ceiling/2)
}
