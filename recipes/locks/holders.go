// SPDX-License-Identifier: Apache-2.0

package locks

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/locks/internal/identity"
)

// nodeKey is the node of a contender, for all views of a client.
type nodeKey struct {
	client       *framework.Framework // without namespace
	folder, name string               // at the server
}

// holders are the holds of this process, whatever driver has let them in. A driver that lets a newcomer in before one of them
// is found out.
var holders holderSet

type holderSet struct {
	mu     sync.Mutex
	byNode map[nodeKey]uint64 // the number of the grant
	grants atomic.Uint64      // how many there were
}

// add notes that the node of a place holds the lock.
func (s *holderSet) add(p *place) {
	p.granted.set()
	grant := s.grants.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byNode == nil {
		s.byNode = make(map[nodeKey]uint64)
	}
	s.byNode[p.key] = grant
}

// remove takes back a call of add, if there was one.
func (s *holderSet) remove(p *place) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byNode, p.key)
}

// grantOf returns the number of the grant of a node, or 0 if it does not hold.
func (s *holderSet) grantOf(node nodeKey) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byNode[node]
}

// ownWait is how long an acquisition waits for a hold of its own client before the log says so: the caller may have
// meant to re-enter the lock.
const ownWait = 10 * time.Second

// warnOfHolder logs that this client waits for its own hold, once for each hold.
func (g *gate) warnOfHolder(l *lock) {
	if h := g.unwarnedHolder(); h != nil && l.reenters {
		h.warn(l.client.Logger(), l.path)
	}
}

// unwarnedHolder returns a hold of this client, if the log has not said yet that others wait for it.
func (g *gate) unwarnedHolder() *place {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, p := range g.nodes {
		if !p.over && p.granted.isSet() && !p.warned {
			p.warned = true
			return p
		}
	}
	return nil
}

func (p *place) warn(logger *slog.Logger, path string) {
	_, _, label := identity.Parse(string(p.data))
	logger.Warn("waiting for a lock that this process holds itself: to re-enter it, "+
		"acquire it with the context of its lease",
		string(keyPath), path, "holder", framework.JoinPath(path, p.key.name), "label", label,
		"waiting", ownWait, "held", p.granted.ago().Round(time.Second))
}
