// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/gocurator/curator/listen"
)

// lookupLimit bounds the lookups that check whether the server of the connection is still
// one of the ensemble.
const lookupLimit = 5 * time.Second

// ensemble knows the addresses of the servers: from the provider and, with a tracker, from
// the servers themselves. The newest change counts.
type ensemble struct {
	provider EnsembleProvider
	fixed    bool   // neither the provider nor a tracker can change the servers
	root     chroot // of the first answer
	log      *slog.Logger

	changed chan struct{} // wakes the goroutine of follow

	mu      sync.Mutex
	said    string // the provider's last answer
	servers []string
}

func newEnsemble(cfg *config) *ensemble {
	_, fixed := cfg.ensemble.(FixedEnsembleProvider)
	return &ensemble{
		provider: cfg.ensemble, fixed: fixed && !cfg.tracksEnsemble, root: cfg.root, log: cfg.log,
		changed: make(chan struct{}, 1),
		said:    cfg.connectString, servers: cfg.servers,
	}
}

// leaver has a connection, and cuts it if isGone says so of its server.
type leaver interface {
	Leave(isGone func(server string, address net.Addr) bool)
}

// follow cuts connections to servers that are gone, until the context ends.
func (e *ensemble) follow(ctx context.Context, connection leaver) {
	if e.fixed {
		return // nothing can change, so no goroutine has to wait for it
	}
	if notifier, ok := e.provider.(interface {
		OnChange(fn func()) *listen.Registration
	}); ok {
		registration := notifier.OnChange(e.look)
		defer registration.Remove()
		e.look() // it may have changed before
	}
	for {
		select {
		case <-e.changed:
			servers := e.list()
			connection.Leave(func(server string, address net.Addr) bool {
				return e.isGone(ctx, servers, server, address)
			})
		case <-ctx.Done():
			return
		}
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

// ask asks the provider. If it panics, its answer is lost, and the client goes on.
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

// EnsembleProvider returns the addresses of the servers. It is Curator's EnsembleProvider.
//
// [New] calls it once. The client calls it again before each round of attempts to connect,
// after each notification of the provider, and after it has connected to a server
// that is not in the list. A round tries each address of each server once; a lost connection
// begins a new round. The answer is a connection string as for New. The first answer
// determines the chroot: a later answer must have the same chroot, or none.
//
// A later answer that does not parse, or that has another chroot, is logged and otherwise
// ignored.
//
// A provider may also have a method OnChange(fn func()) *listen.Registration, as
// [DynamicEnsembleProvider] has: it adds a function that is called after every change. The client
// removes its function when it is closed. A change that is reported takes effect at once: if the server
// of the connection is certainly gone, by name and by address, the client cuts the
// connection and makes another in the same session. Otherwise the connection stays; unlike
// Java's client, this one does not move it to spread the load.
type EnsembleProvider interface {
	// ConnectionString returns the current connection string. It is called from several
	// goroutines, must not block and must not use the client. Do slow lookups in advance.
	ConnectionString() string
}

// FixedEnsembleProvider is a connection string that never changes. [New] uses it for its
// argument.
type FixedEnsembleProvider string

// ConnectionString returns the string itself.
func (p FixedEnsembleProvider) ConnectionString() string { return string(p) }

// DynamicEnsembleProvider is an [EnsembleProvider] whose connection string can be set
// while clients use it. It serves any number of clients. In Curator every provider has
// setConnectionString.
type DynamicEnsembleProvider struct {
	changed listen.Set[struct{}]

	mu  sync.Mutex // guards now
	now string
}

// NewDynamicEnsembleProvider returns a provider that returns connectString until another
// one is set.
func NewDynamicEnsembleProvider(connectString string) (*DynamicEnsembleProvider, error) {
	if _, _, err := parseConnectString(connectString); err != nil {
		return nil, err
	}
	return &DynamicEnsembleProvider{now: connectString}, nil
}

// ConnectionString returns the connection string that was set last.
func (p *DynamicEnsembleProvider) ConnectionString() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now
}

// SetConnectionString changes the connection string. It returns at once, before any
// client has acted on the change. If the string does not parse, it returns an error and
// changes nothing.
func (p *DynamicEnsembleProvider) SetConnectionString(connectString string) error {
	if _, _, err := parseConnectString(connectString); err != nil {
		return err
	}
	p.mu.Lock()
	p.now = connectString
	p.mu.Unlock()
	p.changed.Notify(struct{}{})
	return nil
}

// OnChange adds a function that is called on a goroutine of its own after every
// [DynamicEnsembleProvider.SetConnectionString].
func (p *DynamicEnsembleProvider) OnChange(fn func()) *listen.Registration {
	return p.changed.Add(func(struct{}) { fn() })
}

// WithEnsembleProvider sets the provider of the servers' addresses. The connection string
// given to [New] must then be empty. Default: [FixedEnsembleProvider] of that string.
func WithEnsembleProvider(p EnsembleProvider) Option {
	return clientOption{"WithEnsembleProvider", func(c *config) error {
		if p == nil {
			return errors.New("ensemble provider nil, expected one such as FixedEnsembleProvider")
		}
		c.ensemble = p
		return nil
	}}
}

// findEnsemble asks the provider for the first time.
func (c *config) findEnsemble(connectString string) (err error) {
	switch {
	case c.ensemble == nil:
		c.ensemble = FixedEnsembleProvider(connectString)
	case connectString != "":
		return fmt.Errorf("framework: %w: connection string %q together with WithEnsembleProvider, expected an empty one",
			ErrInvalidOption, connectString)
	}
	// Following plain ports would take every connection out of TLS.
	if c.tracksEnsemble && c.tls != nil {
		return fmt.Errorf("framework: %w: WithEnsembleTracker together with WithTLS: the configuration names the servers' plain ports",
			ErrInvalidOption)
	}
	c.connectString = c.ensemble.ConnectionString()
	c.servers, c.root, err = parseConnectString(c.connectString)
	return err
}

const defaultPort = "2181"

// parseConnectString reads ZooKeeper's connection string:
// host:port,host:port,.../chroot. The port may be left out for 2181; an IPv6
// address with a port stands in brackets.
func parseConnectString(s string) (servers []string, root chroot, err error) {
	if scheme, _, found := strings.Cut(s, "://"); found {
		return nil, "", fmt.Errorf("framework: connection string %q: the scheme %q, expected none: host:port,host:port/chroot", s, scheme)
	}
	hosts, path, found := strings.Cut(s, "/")
	if found && path != "" {
		if root, err = parseChroot("/" + path); err != nil {
			return nil, "", fmt.Errorf("framework: connection string %q: chroot: %w", s, err)
		}
	}
	for host := range strings.SplitSeq(hosts, ",") {
		server, err := parseServer(strings.TrimSpace(host))
		if err != nil {
			return nil, "", fmt.Errorf("framework: connection string %q: %w", s, err)
		}
		servers = append(servers, server)
	}
	return servers, root, nil
}

// parseChroot reads the path at the end of a connection string. It refuses some paths that
// ZooKeeper accepts, because they are probably typing errors: two services with different
// chroots would lock in different trees, and both would succeed.
func parseChroot(path string) (chroot, error) {
	if err := ValidatePath(path); err != nil {
		return "", err
	}
	// "zk1/app,zk2/app" would be one server with a strange chroot.
	if strings.Contains(path, ",") {
		return "", fmt.Errorf("%q, expected one chroot, after the last server: host:port,host:port/chroot", path)
	}
	for name := range strings.SplitSeq(path[1:], "/") {
		if strings.TrimSpace(name) != name {
			return "", fmt.Errorf("%q, expected no blank before or after the name %q", path, name)
		}
	}
	return chroot(path), nil
}

func parseServer(s string) (string, error) {
	if s == "" {
		return "", fmt.Errorf("an empty server, expected host:port")
	}
	host, port := s, defaultPort
	switch {
	case strings.HasPrefix(s, "[") && strings.HasSuffix(s, "]"):
		host = s[1 : len(s)-1]
	case strings.HasPrefix(s, "[") || strings.Count(s, ":") == 1:
		var err error
		if host, port, err = net.SplitHostPort(s); err != nil {
			return "", fmt.Errorf("server %q: %w", s, err)
		}
	}
	if host == "" {
		return "", fmt.Errorf("server %q has no host", s)
	}
	if strings.ContainsFunc(host, neverInHost) {
		return "", fmt.Errorf("server %q: host %q, expected a name or an address", s, host)
	}
	if _, err := netip.ParseAddr(host); err != nil && strings.Contains(host, ":") {
		return "", fmt.Errorf("server %q: host %q, expected an IPv6 address where there are colons", s, host)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", fmt.Errorf("server %q: port %q, expected 1 to 65535", s, port)
	}
	return net.JoinHostPort(host, port), nil
}

// neverInHost reports whether no host name or address contains the character. Such
// characters come from a wrongly built list, and no connection would ever succeed.
func neverInHost(r rune) bool {
	return r == '[' || r == ']' || r == '@' || r == utf8.RuneError || unicode.IsSpace(r) || unicode.IsControl(r)
}
