// SPDX-License-Identifier: Apache-2.0

package zkserver

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

// Start returns a server that listens and serves until [Server.Close]. Like a new installation it has the nodes
// /zookeeper, /zookeeper/config and /zookeeper/quota. Start fails when an option is invalid or the address is not
// available, and then leaves nothing behind.
func Start(opts ...Option) (*Server, error) {
	cfg, err := newConfig(opts)
	if err != nil {
		return nil, err
	}
	if cfg.observers > 0 {
		return nil, fmt.Errorf("zkserver: %d observers of a server that stands alone: NewEnsemble expected", cfg.observers)
	}
	s := newServer(cfg, 1)
	s.mu, s.journal = new(sync.Mutex), new(journal)
	if err := s.beginRun(); err != nil {
		return nil, err
	}
	return s, nil
}

// newServer returns a server with a number, from 1, that has no mutex and no journal yet.
func newServer(cfg config, id int) *Server {
	s := &Server{
		cfg:         cfg,
		log:         cfg.log,
		created:     time.Now(),
		handlers:    handlers,
		words:       adminCommands,
		addr:        cfg.addr,
		tree:        newTree(),
		watches:     newWatches(),
		sessions:    make(map[int64]*session),
		nextSession: cfg.firstSessionID(id),
		net:         network{cuts: make(map[int64]int)},
	}
	return s
}

// NewEnsemble returns an ensemble of n servers, 3 or 5, and those of [WithObservers], that have elected a leader and serve. The
// options apply to each server; [WithAddr] and [WithKeeper] are no options of an ensemble.
func NewEnsemble(n int, opts ...Option) (*Ensemble, error) {
	if n != 3 && n != 5 {
		return nil, fmt.Errorf("zkserver: ensemble of %d servers: 3 or 5 expected", n)
	}
	cfg, err := newConfig(opts)
	switch {
	case err != nil:
		return nil, err
	case cfg.keeper:
		return nil, errors.New("zkserver: ensemble of servers like Keeper: WithKeeper is for one server")
	case cfg.addr != defaultAddr:
		return nil, fmt.Errorf("zkserver: ensemble at %s: its servers need an address each, leave WithAddr out", cfg.addr)
	}
	e := &Ensemble{
		syncLimit: cfg.syncLimit,
		tick:      cfg.tick,
		wake:      make(chan struct{}, 1),
		stop:      make(chan struct{}),
	}
	servers := n + cfg.observers
	e.links = make([][]link, servers)
	shared := new(journal)
	for i := range servers {
		e.links[i] = make([]link, servers)
		s := newServer(cfg, i+1)
		s.mu, s.journal = &e.mu, shared
		s.member = &member{e: e, s: s, id: i + 1, observes: i >= n, touched: make(map[int64]time.Duration)}
		e.members = append(e.members, s.member)
	}
	for i, m := range e.members {
		if err := m.s.beginRun(); err != nil {
			for _, started := range e.members[:i] {
				err = errors.Join(err, started.s.Close())
			}
			return nil, err
		}
	}
	e.mu.Lock()
	e.configure(0)
	for _, m := range e.members {
		m.looksFrom = -electionTime // the first election takes no time
	}
	e.elect()
	e.settle()
	e.mu.Unlock()
	e.done.Go(e.run)
	return e, nil
}
