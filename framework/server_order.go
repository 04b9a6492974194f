// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"errors"
	"math"
	"math/rand/v2"
	"time"
)

// WithServerOrder makes the client prefer servers: it tries those with the lowest rank first, and
// servers of equal rank in random order. The rank of a server is given by its address, such as
// "zk1:2181", as it stands in the connection string. For the servers of one's own zone first:
//
//	framework.WithServerOrder(func(server string) int {
//		if strings.HasPrefix(server, "zone-a-") {
//			return 0
//		}
//		return 1
//	})
//
// After an outage the client moves back. About once a minute, at a random time, it asks a server of
// a lower rank with the four-letter word srvr. If that server serves, the client cuts its connection
// and connects again in the same session. So the clients of a server that returns do not come all
// at once. The pause doubles, up to 16 minutes, as long as moves do not succeed. The client does
// not move while it holds anything under [StandardErrorPolicy], as the hold would be lost.
//
// rank is called once for each server when the client hears of it, and must not use the client.
// Default: all servers have the same rank, and the client does not move by itself.
func WithServerOrder(rank func(server string) int) Option {
	return option("WithServerOrder", rank != nil, func(c *config) { c.Rank = rank },
		"function nil, expected the rank of a server")
}

const (
	returnPause    = time.Minute
	maxReturnPause = 16 * time.Minute
)

// learnRanks asks for the ranks of servers that are new. A function that panics leaves them last.
func (e *ensemble) learnRanks(servers []string, guard func(func())) {
	for _, server := range servers {
		if e.order == nil || !e.noteServer(server) {
			continue
		}
		guard(func() {
			rank := e.order(server)
			e.mu.Lock()
			defer e.mu.Unlock()
			e.ranks[server] = rank
		})
	}
}

// noteServer notes a server, and reports whether it is new. Until its rank is known it comes last.
func (e *ensemble) noteServer(server string) (isNew bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, known := e.ranks[server]; known {
		return false
	}
	e.ranks[server] = math.MaxInt
	return true
}

func (e *ensemble) rank(server string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	if rank, known := e.ranks[server]; known {
		return rank
	}
	return math.MaxInt
}

// rankOf returns the function that orders the servers of the conduit, or nil.
func (e *ensemble) rankOf() func(string) int {
	if e.order == nil {
		return nil
	}
	return e.rank
}

// moveBack moves the connection to a server of a lower rank once one serves again.
func (f *Framework) moveBack() {
	pause := returnPause
	for f.ctx.Err() == nil {
		// No caller waits for this connection, so the wait has no limit.
		if err := f.awaitConnection(f.ctx, 0, nil); err != nil {
			return
		}
		session := f.Session()
		link := session.Context(StandardErrorPolicy)
		timer := time.NewTimer(pause/2 + rand.N(pause))
		select {
		case <-timer.C:
		case <-link.Done():
			timer.Stop()
			continue
		}
		now := f.conduit.Server()
		better := f.better(now)
		switch {
		case better == "":
			pause = returnPause
		case link.Err() == nil && session.whileFree(func() { f.conduit.Cut(errMoves) }):
			f.cfg.Logger.Info("moving to a server that is preferred", "server", better, "from", now)
			pause = min(2*pause, maxReturnPause)
		}
	}
}

var errMoves = errors.New("a server that is preferred serves again")

// better returns a server of the lowest rank that serves, if that is lower than the given one's, or "".
func (f *Framework) better(than string) (server string) {
	lowest := f.ensemble.rank(than)
	for _, s := range f.ensemble.current() {
		if rank := f.ensemble.rank(s); rank < lowest && f.conduit.Serves(f.ctx, s) {
			server, lowest = s, rank
		}
	}
	return server
}
