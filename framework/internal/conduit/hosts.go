package conduit

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

const (
	// stableAfter is how long a connection must have lived for the next attempt
	// to be made at once.
	stableAfter = time.Second
	minPause    = 50 * time.Millisecond
	maxPause    = time.Second

	// spreadShare is the part of the session timeout over which the clients of a server
	// that ends spread their first attempts at the others.
	spreadShare = 30
)

// hosts is go-zookeeper's host provider: it names the servers in turn and, in
// pause, spaces the attempts. Names are resolved by the dialer at each attempt,
// and which servers there are is asked before each round of attempts: the first
// after a connection, and again after as many as there are servers.
// It is also how go-zookeeper's connect loop is told to end: the loop looks at its
// own stop signal only when a provider says that a round is over.
type hosts struct {
	ask    func() []string // nil when the servers are always the same
	spread time.Duration

	mu          sync.Mutex
	servers     []string
	next        int
	left        int       // attempts of this round
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
	if h.ask != nil && h.isRoundOver() {
		h.replace(h.ask())
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.left == 0 {
		h.left = len(h.servers)
	}
	h.left--
	server = h.servers[h.next]
	h.next = (h.next + 1) % len(h.servers)
	return server, h.stopped
}

func (h *hosts) isRoundOver() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.left == 0
}

// replace takes other servers, in an order of its own. Pauses go on as they were, so
// that servers that change all the time are not stormed either.
func (h *hosts) replace(servers []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if sameServers(servers, h.servers) {
		return
	}
	h.servers, h.next = slices.Clone(servers), 0
	rand.Shuffle(len(servers), func(i, j int) {
		h.servers[i], h.servers[j] = h.servers[j], h.servers[i]
	})
}

func sameServers(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// Connected is called by go-zookeeper after a handshake.
func (h *hosts) Connected() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.connectedAt = time.Now()
	h.left = 0
}

// all returns the servers, in any order.
func (h *hosts) all() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.servers)
}

// prefer makes a server the next to be tried, if it is still there.
func (h *hosts) prefer(server string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if i := slices.Index(h.servers, server); i >= 0 {
		h.next = i
	}
}

func (h *hosts) stop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stopped = true
}

// untried returns how many servers of this round have not been tried, with the one that
// is being tried.
func (h *hosts) untried() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.left + 1
}

// pause blocks until the next attempt may be made: within the spread after a stable
// connection, at once within the first round, then with growing, jittered pauses.
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
	reconnects := !h.connectedAt.IsZero()
	if reconnects {
		if time.Since(h.connectedAt) >= stableAfter {
			h.attempts = 0
		}
		h.connectedAt = time.Time{}
	}
	round := h.attempts / len(h.servers)
	h.attempts++
	switch {
	case round == 0 && reconnects && h.spread > 0:
		return rand.N(h.spread)
	case round == 0:
		return 0
	}
	ceiling := min(maxPause, minPause<<min(round, 10))
	return ceiling/2 + rand.N(ceiling/2)
}
