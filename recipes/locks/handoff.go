// SPDX-License-Identifier: Apache-2.0

package locks

import (
	"errors"
	"fmt"

	"github.com/gocurator/curator/recipes/locks/internal/heldnode"
)

// WithLocalHandoff lets up to n holds in a row share one node. A release then passes the
// lock, in memory and without a request, to the next goroutine that waits for it with the
// same [InterProcessMutex]. After n holds the lock goes to the next contender in the queue.
// The option is for a lock that is hot within one process: only one turn in n takes the two
// round trips.
//
// It costs fairness: other contenders wait for up to n holds at a time. Goroutines that
// share the mutex get it in the order in which they asked. It also weakens the token: holds
// in a row have the same one, so what the lock protects cannot tell them apart, and the
// token does not stop a goroutine that goes on after its release. Each hold has contexts of
// its own. A loss ends the row, and so does a request to give the lock back
// ([AttemptRevoke]).
//
// A hold of a row begins without a word from the server. If the node was deleted by hand
// while the link to the server is silent, a hold can begin that another client's hold
// excludes, and it lasts until the client hears of the deletion.
//
// Default: 1, a node for each hold. More than 1 is an error for a lock that several owners
// may hold at once, and for a [LockInternals] with another driver than a [QueueDriver].
func WithLocalHandoff(n int) Option {
	return optionFunc(func(c *config) error {
		if n < 1 {
			return fmt.Errorf("WithLocalHandoff(%d), expected 1 or more holds in a row", n)
		}
		c.add(feature{name: "local hand-off", attach: func(l *lock) error {
			switch {
			case n == 1:
				return nil
			case !l.handsOff || !l.exclusive: // in memory a driver of another order has no say
				return errors.New("WithLocalHandoff, expected with an InterProcessMutex only, or with a LockInternals for one lease with a QueueDriver")
			}
			l.cfg.places = 1 // the others of this client wait for the node, in memory
			l.handOver = func(h *hold) bool { return l.gate.handOver(h, n) }
			return nil
		}})
		return nil
	})
}

// handOver gives the node of a released hold to the next goroutine. It returns false if no goroutine waits for it, the row
// of n holds is over, or another client has asked for the node.
func (g *gate) handOver(h *hold, n int) bool {
	g.mu.Lock()
	if len(g.waiting) == 0 || g.waiting[0].l != h.l || int(h.row) >= n || h.node.IsAsked() {
		g.mu.Unlock()
		return false
	}
	next := g.waiting[0]
	g.waiting = g.waiting[1:]
	g.mu.Unlock()
	next.turn <- h.successor() // may wait for a request, so without the mutex
	return true
}

// successor returns the next hold of a row, which has not begun. It takes over the node, the session
// and the watch of h, which has been released.
func (h *hold) successor() *hold {
	s := &hold{
		l: h.l, session: h.session, parent: h.parent, endUse: h.endUse, token: h.token, self: h.self, row: h.row + 1,
		node: heldnode.Node{Client: h.l.client, Path: h.node.Path, Czxid: h.node.Czxid, Own: h.node.HandOver()},
	}
	if h.node.IsAsked() { // the request is for the holder of the node
		s.node.Ask()
	}
	return s
}
