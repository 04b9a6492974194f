package framework

import (
	"errors"
	"fmt"
	"sync"

	"github.com/gocurator/curator/listen"
)

// EnsembleProvider returns the addresses of the servers. It is Curator's EnsembleProvider.
//
// [New] calls it once. The client calls it again before each round of attempts to connect,
// after each notification of an [EnsembleNotifier], and after it has connected to a server
// that is not in the list. A round tries each address of each server once; a lost connection
// begins a new round. The answer is a connection string as for New. The first answer
// determines the chroot: a later answer must have the same chroot, or none.
//
// A later answer that does not parse, or that has another chroot, is logged and otherwise
// ignored. A change that an [EnsembleNotifier] reports takes effect at once: if the server
// of the connection is certainly gone, by name and by address, the client cuts the
// connection and makes another in the same session. Otherwise the connection stays; unlike
// Java's client, this one does not move it to spread the load.
type EnsembleProvider interface {
	// ConnectionString returns the current connection string. It is called from several
	// goroutines, must not block and must not use the client. Do slow lookups in advance.
	ConnectionString() string
}

// EnsembleNotifier is an [EnsembleProvider] that reports changes.
type EnsembleNotifier interface {
	EnsembleProvider

	// OnChange adds a function that is called after every change. A client removes its
	// function when it is closed.
	OnChange(fn func()) *listen.Registration
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
	return optionFunc(func(c *config) error {
		if p == nil {
			return errors.New("ensemble provider nil, expected one such as FixedEnsembleProvider")
		}
		c.ensemble = p
		return nil
	})
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
