// SPDX-License-Identifier: Apache-2.0

package conduit

import (
	"cmp"
	"context"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gocurator/curator/internal/chance"
)

const (
	// stableAfter is how long a connection must have lived for the next attempt
	// to be made at once.
	stableAfter = time.Second
	askLimit    = time.Second // within a round
	minPause    = 50 * time.Millisecond
	maxPause    = time.Second

	// Of attempts after refusals, since servers of tickets may lock an identity that fails often.
	minRefusalPause = 500 * time.Millisecond
	maxRefusalPause = 30 * time.Second

	// spreadShare is the part of the session timeout over which the clients of a server
	// that ends spread their first attempts at the others.
	spreadShare = 30
)

// hosts is go-zookeeper's host provider: it names the servers in turn and, in pause,
// spaces the attempts. It asks for the list of servers before each round of attempts: the
// first after a connection, and each time all servers have been tried. It looks a name up
// when its turn comes. It names one address then, and the other addresses of the name at the
// end of the round. So a paused server does not hide another one of the same name.
//
// hosts also ends go-zookeeper's connect loop: the loop looks at its own stop signal only
// when a provider reports that a round is over.
type hosts struct {
	ask    func() []string         // nil when the servers are always the same
	rank   func(server string) int // nil if all are equal
	chance *chance.Source
	asking <-chan []string // receives the awaited answer; used by go-zookeeper's connect loop only

	mu          sync.Mutex
	servers     []string
	next        int      // the place of the server with which the next round begins
	round       []target // to be tried yet: servers, and then other addresses of those that were tried
	now         target   // being tried
	cancel      func()   // ends the attempt that is under way; nil for none
	gone        bool     // now has left the ensemble before its attempt began
	last        string   // the server of the last connection
	preferred   target   // the address of a server that is tried before all others
	again       bool     // now is another address of a server that was tried
	attempts    int      // since the last stable connection
	spread      time.Duration
	connectedAt time.Time // zero when not connected
	stopped     bool

	addresses map[string][]string // of each server, by the newest lookup
	refused   refusals
	clean     atomic.Bool // refused is as after an admission
}

// target is what one attempt connects to.
type target struct {
	server  string
	address string // one of the server's; "" if it has not been looked up
}

// String names the server, and its address if the name may belong to several servers.
func (t target) String() string {
	if t.address == "" || t.address == t.server {
		return t.server
	}
	return t.server + " (" + t.address + ")"
}

// spreadOver sets the time over which clients spread their attempts after this connection.
func (h *hosts) spreadOver(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.spread = d
}

// Init is called by go-zookeeper with the servers in random order.
func (h *hosts) Init(servers []string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.servers = servers; h.chance != nil { // go-zookeeper knows no seed
		slices.Sort(h.servers)
		h.shuffleLocked()
	}
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
		h.refresh()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.gone = false
	if len(h.round) == 0 {
		h.beginRoundLocked()
	}
	h.now, h.round = h.round[0], h.round[1:]
	if h.again = h.now.address != ""; !h.again {
		h.next = (h.next + 1) % len(h.servers)
	}
	return h.now.server, h.stopped
}

// beginRoundLocked begins a round, of ranked servers with those of the lowest rank. A server that is
// preferred comes first.
func (h *hosts) beginRoundLocked() {
	if h.rank != nil {
		h.shuffleLocked()
		place := func(server string) int {
			if server == h.preferred.server {
				return math.MinInt
			}
			return h.rank(server)
		}
		slices.SortStableFunc(h.servers, func(a, b string) int { return cmp.Compare(place(a), place(b)) })
		h.next = 0
	}
	for i := range h.servers {
		h.round = append(h.round, target{server: h.servers[(h.next+i)%len(h.servers)]})
	}
}

// attempt notes how to end the attempt that begins now, nil once there is none.
func (h *hosts) attempt(cancel func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.cancel = cancel; cancel != nil && h.gone {
		cancel()
	}
}

// giveUp ends the round, and the attempt under way, if that is at none of the servers.
func (h *hosts) giveUp(servers []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if slices.Contains(servers, h.now.server) {
		return
	}
	h.round, h.gone = nil, true
	if h.cancel != nil {
		h.cancel()
	}
}

// current returns what is being tried.
func (h *hosts) current() target {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.now
}

// found takes the addresses, at least one, of the server that is being tried, and returns the
// one to try now. The order is random, to spread clients over the servers of a name.
func (h *hosts) found(addresses []string) target {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.addresses == nil {
		h.addresses = make(map[string][]string)
	}
	h.addresses[h.now.server] = addresses
	var willing, others []target // those that have refused the client come last
	for _, n := range rand.Perm(len(addresses)) {
		switch t := (target{server: h.now.server, address: addresses[n]}); {
		case t == h.preferred:
			willing, h.preferred = slices.Insert(willing, 0, t), target{}
		case h.refused.by[t]:
			others = append(others, t)
		default:
			willing = append(willing, t)
		}
	}
	willing = append(willing, others...)
	h.now, h.round = willing[0], append(h.round, willing[1:]...)
	return h.now
}

// refresh asks for the list of servers. The function that answers is the program's and may
// block, so it runs on a goroutine of its own, one at a time. An answer that takes longer
// than askLimit is used in a later round.
func (h *hosts) refresh() {
	if h.asking == nil {
		answer := make(chan []string, 1)
		go func() { answer <- h.ask() }()
		h.asking = answer
	}
	select {
	case servers := <-h.asking:
		h.asking = nil
		h.replace(servers)
	case <-time.After(askLimit):
	}
}

func (h *hosts) isRoundOver() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.round) == 0
}

// replace installs other servers, in random order. The pauses go on as before, so that
// servers that change all the time are not flooded with attempts.
func (h *hosts) replace(servers []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if sameServers(servers, h.servers) {
		return // keep the place in the round
	}
	h.servers, h.next = slices.Clone(servers), 0
	maps.DeleteFunc(h.addresses, func(server string, _ []string) bool { return !slices.Contains(servers, server) })
	h.shuffleLocked()
}

func (h *hosts) shuffleLocked() {
	h.chance.Shuffle("servers", len(h.servers), func(i, j int) { h.servers[i], h.servers[j] = h.servers[j], h.servers[i] })
}

func sameServers(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// Connected is called by go-zookeeper after a handshake.
func (h *hosts) Connected() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.connectedAt = time.Now()
	h.round, h.last, h.preferred = nil, h.now.server, target{}
}

// all returns the addresses of the servers, as far as they have been looked up.
func (h *hosts) all() map[target]bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.targetsLocked()
}

// prefer makes an address the next to be tried, if it is still there.
func (h *hosts) prefer(t target) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if i := slices.Index(h.servers, t.server); i >= 0 {
		h.next, h.preferred = i, t
	}
}

func (h *hosts) stop() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.stopped = true
}

// untried returns how many attempts of this round are left, with the one under way. The
// server of the last connection does not count while there are other servers to try.
func (h *hosts) untried() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := len(h.round) + 1
	for _, t := range h.round {
		if t == (target{server: h.last}) {
			n--
		}
	}
	return n
}

// addressesLeft returns how many addresses of the server that is being tried are left, with
// the one under way.
func (h *hosts) addressesLeft() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 1
	for _, t := range h.round {
		if t.server == h.now.server && t.address != "" {
			n++
		}
	}
	return n
}

// targetsLocked returns all addresses of the servers, as far as they have been looked up.
func (h *hosts) targetsLocked() map[target]bool {
	all := make(map[target]bool)
	for _, server := range h.servers {
		for _, address := range h.addresses[server] {
			all[target{server, address}] = true
		}
		if len(h.addresses[server]) == 0 {
			all[target{server: server}] = true
		}
	}
	return all
}

// isFirstRound reports whether the servers are tried for the first time since a stable connection.
func (h *hosts) isFirstRound() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.attempts <= len(h.servers)
}

// pause blocks until the next attempt may be made. After a stable connection that is
// within the spread, and within the first round at once. Later attempts come after
// growing, jittered pauses.
func (h *hosts) pause(ctx context.Context) error {
	wait := h.nextPause()
	if wait == 0 {
		return ctx.Err()
	}
	select {
	case <-time.After(wait):
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
		// A server that accepts and cuts must not be tried without pauses.
		if time.Since(h.connectedAt) >= stableAfter {
			h.attempts = 0
		}
		h.connectedAt = time.Time{}
	}
	if h.again {
		return 0 // it belongs to an attempt for which there was a pause
	}
	if h.refused.rounds > 0 {
		ceiling := min(h.refused.ceiling, minRefusalPause<<min(h.refused.rounds, 10))
		wait := ceiling/2 + h.chance.Below("connection", ceiling/2)
		if left := time.Until(h.refused.until); left > 0 {
			wait = min(wait, left) // the attempt that is made then is the last one, or the client would end late
		}
		return wait
	}
	round := h.attempts / len(h.servers)
	h.attempts++
	switch {
	case round == 0 && reconnects && h.spread > 0:
		return h.chance.Below("connection", h.spread)
	case round == 0:
		return 0
	}
	ceiling := min(maxPause, minPause<<min(round, 10))
	return ceiling/2 + h.chance.Below("connection", ceiling/2)
}
