package framework

import (
	"errors"
	"fmt"
	"sync"

	"github.com/gocurator/curator/listen"
)

// EnsembleProvider says where the servers are. It is Curator's EnsembleProvider.
//
// [New] asks it once, and every round of attempts to connect begins with asking it
// again; a round is the first attempt after a connection, and then one for each
// server. The answer is a connection string as for New. The chroot is that of the
// first answer: a later one has the same, or none.
//
// A later answer that is none, or has another chroot, is logged and changes nothing. What
// an [EnsembleNotifier] tells of is acted on at once: if the server of the
// connection is certainly gone, by name and by address, the connection is cut and made
// anew in the same session. Otherwise it stays as it is; it is not moved to spread
// the load, as Java's client does.
type EnsembleProvider interface {
	// ConnectionString returns the connection string of this moment. It is
	// called from several goroutines, must not block and must not use the client.
	// What takes long to find out is found out in advance.
	ConnectionString() string
}

// EnsembleNotifier is an [EnsembleProvider] that tells of changes.
type EnsembleNotifier interface {
	EnsembleProvider

	// OnChange adds a function that is called after every change. A client
	// removes its own when it is closed.
	OnChange(fn func()) *listen.Registration
}

// FixedEnsembleProvider is the connection string that never changes: what [New] takes
// its own argument for.
type FixedEnsembleProvider string

// ConnectionString returns the string itself.
func (p FixedEnsembleProvider) ConnectionString() string { return string(p) }

// DynamicEnsembleProvider is an [EnsembleProvider] whose connection string can be set
// while clients use it. It serves any number of clients. Curator's is the method
// setConnectionString of every provider.
type DynamicEnsembleProvider struct {
	changed listen.Set[struct{}]

	mu  sync.Mutex // guards now
	now string
}

// NewDynamicEnsembleProvider returns a provider that says connectString until it is
// set to something else.
func NewDynamicEnsembleProvider(connectString string) (*DynamicEnsembleProvider, error) {
	if _, _, err := parseConnectString(connectString); err != nil {
		return nil, err
	}
	return &DynamicEnsembleProvider{now: connectString}, nil
}

// ConnectionString returns what was set last.
func (p *DynamicEnsembleProvider) ConnectionString() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now
}

// SetConnectionString changes the connection string. It returns at once, before any
// client has acted on it. An error says what is wrong with the string; nothing has
// changed then.
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

// WithEnsembleProvider sets where the client learns what to connect to. The
// connection string that [New] is given is then empty. Default:
// [FixedEnsembleProvider] of that string.
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
	if c.tracksEnsemble && c.tls != nil {
		return fmt.Errorf("framework: %w: WithEnsembleTracker together with WithTLS: the configuration names the servers' plain ports",
			ErrInvalidOption)
	}
	c.connectString = c.ensemble.ConnectionString()
	c.servers, c.root, err = parseConnectString(c.connectString)
	return err
}
