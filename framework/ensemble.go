package framework

import (
	"context"
	"log/slog"
	"net"
	"runtime/debug"
	"slices"
	"sync"
	"time"
)

// lookupLimit bounds how long the names of servers are looked up in order to find out
// whether one of them is that of the connection.
const lookupLimit = 5 * time.Second

// ensemble is what a client knows of where the servers are: from its provider, and,
// when it tracks them, from the servers themselves. The newest change counts.
type ensemble struct {
	f        *Framework
	provider EnsembleProvider
	log      *slog.Logger

	changed chan struct{} // tells the goroutine of follow to look

	mu      sync.Mutex
	said    string // by the provider, last
	servers []string
}

func newEnsemble(f *Framework) *ensemble {
	return &ensemble{
		f: f, provider: f.cfg.ensemble, log: f.cfg.log,
		changed: make(chan struct{}, 1),
		said:    f.cfg.connectString, servers: f.cfg.servers,
	}
}

// start begins to follow what may change. What it starts ends with the client.
func (e *ensemble) start() {
	if _, fixed := e.provider.(FixedEnsembleProvider); fixed && !e.f.cfg.tracksEnsemble {
		return
	}
	e.f.heartbeats.Go(e.follow)
	if e.f.cfg.tracksEnsemble {
		e.f.heartbeats.Go(e.track)
	}
}

// follow cuts connections to servers that are gone.
func (e *ensemble) follow() {
	if notifier, ok := e.provider.(EnsembleNotifier); ok {
		registration := notifier.OnChange(e.look)
		defer registration.Remove()
		e.look() // it may have changed before
	}
	for {
		select {
		case <-e.changed:
			servers := e.list()
			e.f.conduit.Leave(func(server string, address net.Addr) bool {
				return e.isGone(servers, server, address)
			})
		case <-e.f.ctx.Done():
			return
		}
	}
}

// look makes follow look whether the server of the connection is gone.
func (e *ensemble) look() {
	select {
	case e.changed <- struct{}{}:
	default: // it has yet to
	}
}

// onConnected is called with every connection: the servers may have changed since it
// was begun.
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
		case root != "" && root != e.f.cfg.root:
			e.log.Error("connection string refused: its chroot is not that of the client",
				"connectionString", said, "chroot", string(e.f.cfg.root))
		default:
			e.adopt(servers)
		}
	}
	return e.current()
}

// ask asks the provider. One that panics costs its answer, and not the process.
func (e *ensemble) ask() (said string, ok bool) {
	defer func() {
		if recovered := recover(); recovered != nil {
			e.log.Error("ensemble provider panicked", "panic", recovered, "stack", string(debug.Stack()))
		}
	}()
	return e.provider.ConnectionString(), true
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
	e.mu.Lock()
	before := e.servers
	e.servers = servers
	e.mu.Unlock()
	if !slices.Equal(before, servers) {
		e.log.Info("zookeeper ensemble changed", "servers", servers)
		e.look()
	}
}

// isGone tells whether the server of a connection is certainly none of these, neither
// by its name nor by its address. A name that cannot be looked up may be its.
func (e *ensemble) isGone(servers []string, server string, address net.Addr) bool {
	if slices.Contains(servers, server) || slices.Contains(servers, address.String()) {
		return false
	}
	ctx, cancel := context.WithTimeout(e.f.ctx, lookupLimit)
	defer cancel()
	for _, s := range servers {
		host, port, err := net.SplitHostPort(s)
		if err != nil {
			return false
		}
		if _, theirs, err := net.SplitHostPort(address.String()); err == nil && theirs != port {
			continue
		}
		found, err := net.DefaultResolver.LookupHost(ctx, host)
		if err != nil {
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
