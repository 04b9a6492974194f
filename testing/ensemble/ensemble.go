// SPDX-License-Identifier: Apache-2.0

package ensemble

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// patience bounds every wait for servers, whatever the context allows. Two seconds are normal, so this is for a very slow machine.
const patience = time.Minute

// ErrClosed is returned for what cannot be done after [Ensemble.Close].
var ErrClosed = errors.New("ensemble: closed")

// Ensemble is one standalone server, or a quorum with its observers. Its methods may be called from any goroutine.
type Ensemble struct {
	settings *settings
	dir      string
	network  *Network // nil unless asked for
	close    func() error

	adding  sync.Mutex // one server at a time; guards added
	added   int
	mu      sync.Mutex
	servers []*Server // guarded by mu
}

// Start starts the servers and returns when all of them serve clients. The context bounds the start only, at most a minute; the
// servers run until [Ensemble.Close].
//
// A missing Java or ZooKeeper is [ErrNotInstalled]; any other failure carries the end of the failing server's output.
// If another process takes a port in the last moment, Start tries again with other ports. Whatever the error, nothing
// is left behind.
func Start(ctx context.Context, opts ...Option) (*Ensemble, error) {
	s, err := newSettings(opts)
	if err != nil {
		return nil, err
	}
	if err := s.resolve(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	const tries = 5
	for range tries {
		var e *Ensemble
		if e, err = startOnce(ctx, s); !errors.Is(err, errPortTaken) || ctx.Err() != nil {
			return e, err
		}
	}
	return nil, fmt.Errorf("ensemble: in %d tries: %w", tries, err)
}

func startOnce(ctx context.Context, s *settings) (*Ensemble, error) {
	home, err := newFolder(s)
	if err != nil {
		return nil, err
	}
	e := &Ensemble{settings: s, dir: home.path}
	e.close = sync.OnceValue(func() error { return errors.Join(e.end(), home.remove()) })
	if err := e.setUp(); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	if err := e.Restart(ctx); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return e, nil
}

// setUp makes the servers, with their files, and runs none.
func (e *Ensemble) setUp() error {
	sets, err := e.setUpPorts()
	if err != nil {
		return err
	}
	for i, p := range sets {
		server := e.newServer(i+1, p)
		server.observer = i >= e.settings.size
		if e.network != nil {
			server.host = e.network.hosts[byte(server.id)]
			server.ip, server.dial = server.host.Addr().String(), e.network.observer.DialContext
		}
		e.servers = append(e.servers, server)
	}
	for i := range e.servers {
		if err := e.settings.writeConfig(e.servers, i); err != nil {
			return err
		}
	}
	return nil
}

func (e *Ensemble) newServer(id int, p ports) *Server {
	return &Server{
		id: id, ports: p, settings: e.settings, ip: loopback, dial: (&net.Dialer{}).DialContext,
		dir: filepath.Join(e.dir, "server"+strconv.Itoa(id)),
	}
}

// setUpPorts finds free ports, or makes a network, on whose hosts all are free.
func (e *Ensemble) setUpPorts() ([]ports, error) {
	servers := e.settings.size + e.settings.observers
	if !e.settings.network {
		return freePorts(servers)
	}
	var err error
	if e.network, err = newNetwork(servers, filepath.Join(e.dir, "network")); err != nil {
		return nil, err
	}
	return slices.Repeat([]ports{{client: 2181, quorum: 2888, election: 3888, secure: 2281}}, servers), nil
}

// Add starts one more server, which follows the leader and does not vote yet. It returns when the server serves clients. The server
// votes once a client has let it join, with a reconfiguration that has its [Server.Line]. Servers allow that with
// WithConfig("reconfigEnabled", "true"), to a client with [WithSuperDigest]. Add is for quorums without [WithNetwork]. It fails as
// [Server.Restart] does, and leaves nothing behind then.
func (e *Ensemble) Add(ctx context.Context) (*Server, error) {
	if e.settings.size == 1 || e.settings.network {
		return nil, errors.New("ensemble: add a server to a standalone one or in a network, expected WithSize(3) or more without WithNetwork")
	}
	e.adding.Lock()
	defer e.adding.Unlock()
	present := e.Servers()
	sets, err := freePorts(1)
	if err != nil {
		return nil, err
	}
	e.added++
	server := e.newServer(e.settings.size+e.settings.observers+e.added, sets[0])
	present = append(present, server)
	if err := e.settings.writeConfig(present, len(present)-1); err != nil {
		return nil, err
	}
	if err := server.Restart(ctx); err != nil {
		return nil, errors.Join(err, server.end())
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.servers = append(e.servers, server)
	return server, nil
}

// Remove ends a server for good, after a client has let it leave with a reconfiguration. The ensemble no longer has it, and its id is
// not used again.
func (e *Ensemble) Remove(server *Server) error {
	e.mu.Lock()
	e.servers = slices.DeleteFunc(e.servers, func(s *Server) bool { return s == server })
	e.mu.Unlock()
	return server.end()
}

// end kills the servers for good.
func (e *Ensemble) end() error {
	var errs []error
	for _, s := range e.Servers() {
		errs = append(errs, s.end())
	}
	if e.network != nil {
		errs = append(errs, e.network.close())
	}
	return errors.Join(errs...)
}

// Close kills the servers that still run, waits until they are gone, and removes the files of the ensemble. Only the first call does
// something; all return its result.
func (e *Ensemble) Close() error { return e.close() }

// ConnectString returns the addresses of all servers, running or not, as host:port,host:port. A ZooKeeper client
// connects to it.
func (e *Ensemble) ConnectString() string {
	var addrs []string
	for _, s := range e.Servers() {
		addrs = append(addrs, s.Addr())
	}
	return strings.Join(addrs, ",")
}

// Servers returns all servers, running or not, in the order of their ids.
func (e *Ensemble) Servers() []*Server {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.servers)
}

// Server returns server number i, counted from 0. Its id is i+1, until servers are removed. Like indexing a slice, it panics when there is no such server.
func (e *Ensemble) Server(i int) *Server { return e.Servers()[i] }

// Network returns what connects the servers, or nil for an ensemble that was started without [WithNetwork].
func (e *Ensemble) Network() *Network { return e.network }

// Restart kills all servers that run and starts all of them together. A quorum needs that when one server or none is
// left: a single server of three does not serve, so [Server.Restart] would wait until its context ends. It returns when
// all serve. It fails when a server ends again, with the end of its output. It also fails when the context ends, at the
// latest after a minute. The servers are then left as they are.
func (e *Ensemble) Restart(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	servers := e.Servers()
	for _, s := range servers {
		if err := s.Kill(); err != nil {
			return err
		}
	}
	runs := make([]*process, len(servers))
	for i, s := range servers {
		var err error
		if runs[i], err = s.launch(); err != nil {
			return err
		}
	}
	for i, s := range servers {
		if err := s.awaitService(ctx, runs[i]); err != nil {
			return err
		}
	}
	return nil
}
