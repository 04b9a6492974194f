// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"log/slog"
	"math"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/gocurator/curator/framework/internal/conduit"
	"github.com/gocurator/curator/internal/usercode"
	"github.com/gocurator/curator/listen"
)

// lookupLimit bounds the lookups that check whether the server of the connection still
// belongs to the ensemble.
const lookupLimit = 5 * time.Second

// ensemble knows the addresses of the servers: from the provider and, with a tracker, from
// the servers themselves. The newest change counts.
type ensemble struct {
	provider EnsembleProvider
	fixed    bool   // neither the provider nor a tracker can change the servers
	root     chroot // of the first answer
	log      *slog.Logger

	order   func(server string) int // nil without WithServerOrder
	changed chan struct{}           // wakes the goroutine of follow

	mu      sync.Mutex
	said    string // the provider's last answer
	servers []string
	ranks   map[string]int // of the servers, by order
}

func newEnsemble(cfg *config) *ensemble {
	_, fixed := cfg.ensemble.(FixedEnsembleProvider)
	e := &ensemble{
		provider: cfg.ensemble, fixed: fixed && !cfg.tracksEnsemble, root: cfg.root, log: cfg.Logger,
		order: cfg.Rank, ranks: make(map[string]int), changed: make(chan struct{}, 1),
		said: cfg.connectString, servers: cfg.Servers,
	}
	e.learnRanks(cfg.Servers, func(call func()) { call() }) // a panic is the caller's
	return e
}

// follow cuts connections to servers that are gone, until the context ends.
func (e *ensemble) follow(ctx context.Context, connection *conduit.Conduit) {
	if e.fixed {
		return // nothing can change, so no goroutine has to wait for it
	}
	if notifier, ok := e.provider.(interface {
		OnChange(fn func()) *listen.Registration
	}); ok {
		registration, ok := until(ctx, func() (registration *listen.Registration) {
			e.guard(func() { registration = notifier.OnChange(e.look) })
			if registration != nil { // the provider may have nothing to remove, or has panicked
				context.AfterFunc(ctx, registration.Remove) // here, as it may come too late for follow
			}
			return registration
		})
		if !ok {
			return
		}
		if registration != nil {
			defer registration.Remove() // before Close returns
		}
		e.look() // it may have changed before
	}
	for {
		select {
		case <-e.changed:
			servers, ok := until(ctx, e.list)
			if !ok {
				return
			}
			connection.Leave(servers, func(server string, address net.Addr) bool {
				return e.isGone(ctx, servers, server, address)
			})
		case <-ctx.Done():
			return
		}
	}
}

// until returns what fn returns, or false if the context ends first. fn calls functions of the program, and one that
// blocks must not hold up Close.
func until[T any](ctx context.Context, fn func() T) (value T, ok bool) {
	answer := make(chan T, 1)
	go func() { answer <- fn() }()
	select {
	case value = <-answer:
		return value, true
	case <-ctx.Done():
		return value, false
	}
}

// look makes follow check whether the server of the connection is gone.
func (e *ensemble) look() {
	select {
	case e.changed <- struct{}{}:
	default: // a check is due already
	}
}

// onConnected is called with every connection: the servers may have changed since the
// attempt to connect began.
func (e *ensemble) onConnected(server string) {
	if !slices.Contains(e.current(), server) {
		e.look()
	}
}

func (e *ensemble) current() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.servers)
}

// list asks the provider and returns the servers.
func (e *ensemble) list() []string {
	if said, ok := e.ask(); ok && e.isNews(said) {
		switch servers, root, err := parseConnectString(said); {
		case err != nil:
			e.log.Error("connection string refused", "error", err)
		case root != "" && root != e.root:
			// In another tree the client's locks would protect nothing.
			e.log.Error("connection string refused: its chroot differs from the client's chroot",
				"connectionString", said, "chroot", string(e.root))
		default:
			e.adopt(servers)
		}
	}
	return e.current()
}

func (e *ensemble) ask() (said string, ok bool) {
	e.guard(func() { said, ok = e.provider.ConnectionString(), true })
	return said, ok
}

// guard calls a method of the provider, or another function of the program. If it panics, its answer is lost, and the client goes on.
func (e *ensemble) guard(call func()) {
	if p := usercode.Apart(call); p != nil {
		e.log.Error("function of the ensemble panicked", "panic", p.Value, "stack", p.Stack)
	}
}

func (e *ensemble) isNews(said string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if said == e.said {
		return false
	}
	e.said = said
	return true
}

func (e *ensemble) adopt(servers []string) {
	e.learnRanks(servers, e.guard)
	e.mu.Lock()
	before := e.servers
	e.servers = servers
	e.mu.Unlock()
	if !slices.Equal(before, servers) {
		e.log.Info("zookeeper ensemble changed", "servers", servers)
		e.look()
	}
}

// isGone reports whether the server of a connection is certainly none of the servers,
// neither by name nor by address. A name that cannot be looked up may be its name.
func (e *ensemble) isGone(ctx context.Context, servers []string, server string, address net.Addr) bool {
	if slices.Contains(servers, server) || slices.Contains(servers, address.String()) {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, lookupLimit)
	defer cancel()
	for _, s := range servers {
		host, port, err := net.SplitHostPort(s)
		if err != nil {
			return false
		}
		if _, theirs, err := net.SplitHostPort(address.String()); err == nil && theirs != port {
			continue // another server on the same host: no lookup can make it this one
		}
		found, err := net.DefaultResolver.LookupHost(ctx, host)
		if err != nil {
			// In doubt the connection stays: cutting a good one costs more than a late move.
			e.log.Warn("the connection stays: a server of the ensemble cannot be looked up", "server", s, "error", err)
			return false
		}
		for _, ip := range found {
			if net.JoinHostPort(ip, port) == address.String() {
				return false
			}
		}
	}
	return true
}

// remind is the time between two warnings of a client that has not reached a server yet.
const remind = 10 * time.Minute

// unreached counts the attempts to connect of a client that has not had a session yet.
type unreached struct {
	mu     sync.Mutex
	failed int
	warned time.Time // zero before the first warning
}

// note counts a failure, and reports whether to warn.
func (u *unreached) note(servers int) (warn bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.failed++
	if u.failed < servers || !u.warned.IsZero() && time.Since(u.warned) < remind {
		return false
	}
	u.warned = time.Now()
	return true
}

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
