// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"sync"

	"github.com/gocurator/curator/listen"
)

// EnsembleProvider returns the addresses of the servers. It is Curator's EnsembleProvider.
//
// [New] calls it once. The client calls it again before each round of attempts to connect,
// and after each notification of the provider. It also calls it after it has connected to a
// server that is not in the list. A round tries each address of each server once; a lost
// connection begins a new round. The answer is a connection string as for New. The first
// answer determines the chroot: a later answer must have the same chroot, or none.
//
// A later answer that does not parse, or that has another chroot, is logged and otherwise
// ignored.
//
// A provider may also have a method OnChange(fn func()) *listen.Registration, as
// [DynamicEnsembleProvider] has: it adds a function that is called after every change. The
// client removes its function when it is closed. A change that is reported takes effect at
// once: a client that is trying to connect to another server gives that up. If the server of
// the connection is certainly gone, by name and by address, the client cuts the connection and
// makes another one in the same session. Otherwise the connection stays; unlike Java's client,
// this one does not move it to spread the load.
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
// [DynamicEnsembleProvider.SetConnectionString]. It panics if fn is nil.
func (p *DynamicEnsembleProvider) OnChange(fn func()) *listen.Registration {
	if fn == nil {
		return p.changed.Add(nil) // panics here, where the caller's mistake shows
	}
	return p.changed.Add(func(struct{}) { fn() })
}
