// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"errors"
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

// moveBack moves the connection to a server of a lower rank once one serves again.
func (f *Framework) moveBack() {
	pause := returnPause
	for f.ctx.Err() == nil {
		// No caller waits for this connection, so the wait has no limit.
		if err := f.awaitConnection(f.ctx, 0); err != nil {
			return
		}
		session := f.Session()
		link := session.Context(StandardErrorPolicy)
		select {
		case <-time.After(pause/2 + f.chance.Below("server order", pause)):
		case <-link.Done():
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
