// SPDX-License-Identifier: Apache-2.0

package ensemble

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"sync"
	"time"
)

// ErrNoNamespaces is what [Start] returns for [WithNetwork] where network namespaces cannot be made. The error says what the system has
// refused. It is possible on Linux, for root, and for any user where "unshare --map-root-user --net true" works; containers often
// have it switched off.
var ErrNoNamespaces = errors.New("ensemble: network namespaces cannot be made here")

// Network is what connects the servers of an ensemble that was started with [WithNetwork], and the hosts that clients run on. It
// is a switch with one link between any two hosts, which can be cut, in one direction or both, and made slow.
//
// A cut link loses packets in silence, as when a cable is pulled. Connections are neither refused nor reset. TCP
// retransmits, so data arrives after [Network.Heal]. A call that changes links has effect on every packet from its
// return on.
//
// Its methods may be called from any goroutine.
type Network struct {
	keeper   *keeper
	observer *Host // from where the package itself asks servers; its links stay as they are

	mu     sync.RWMutex // held to read while a packet is handed over
	hosts  map[byte]*Host
	links  map[direction]*link // those that are not simply up
	joined int
	closed bool
	ports  sync.WaitGroup
}

// Host is a place in a [Network] with an address of its own, for a server or for clients, see [Network.Join].
type Host struct {
	network *Network
	name    string
	number  byte // the last of its address
	space   *os.File
	port    *os.File // the switch's end of its link
}

// WithNetwork puts every server on a host of its own, in a network namespace, so that links between servers, and between servers and
// clients, can be cut; see [Ensemble.Network]. The servers can be reached only from hosts of that network then: give clients
// [Host.DialContext] as their dialer. It needs the commands ip, nsenter and setpriv (Debian's iproute2 and util-linux), and a system
// that lets the process make network namespaces; otherwise Start fails with [ErrNotInstalled] or [ErrNoNamespaces].
//
// No other process sees the namespaces. They end with the test process, whatever ends it. To make them, Start runs its
// own program a second time. An init function of this package keeps the second process from doing anything else.
func WithNetwork() Option {
	return plain(func(s *settings) { s.network = true })
}

// The addresses of a network are among the addresses that RFC 5737 sets aside for examples. The last byte is the number of the
// host, for a server its id.
const (
	firstClient = 11
	lastClient  = 250
	observerNo  = 254
)

func hostAddr(number int) netip.Addr { return netip.AddrFrom4([4]byte{192, 0, 2, byte(number)}) }

// newNetwork makes a network with one host for each server, and puts its log into dir.
func newNetwork(servers int, dir string) (*Network, error) {
	keeper, err := startKeeper(dir)
	if err != nil {
		return nil, err
	}
	n := &Network{keeper: keeper, hosts: map[byte]*Host{}, links: map[direction]*link{}}
	for id := range servers {
		if _, err = n.add(fmt.Sprintf("server %d", id+1), byte(id+1)); err != nil {
			return nil, errors.Join(err, n.close())
		}
	}
	if n.observer, err = n.add("observer", observerNo); err != nil {
		return nil, errors.Join(err, n.close())
	}
	return n, nil
}

func (n *Network) add(name string, number byte) (*Host, error) {
	space, port, err := n.keeper.join(int(number))
	if err != nil {
		return nil, err
	}
	h := &Host{network: n, name: name, number: number, space: space, port: port}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return nil, errors.Join(ErrClosed, space.Close(), port.Close())
	}
	n.hosts[number] = h
	n.ports.Go(h.forward)
	return h, nil
}

// Join adds a host for clients. Its links to all other hosts are up. The name is for messages. A network has room for
// 240 such hosts; they stay until the ensemble is closed.
func (n *Network) Join(name string) (*Host, error) {
	n.mu.Lock()
	n.joined++
	number := firstClient + n.joined - 1
	n.mu.Unlock()
	if number > lastClient {
		return nil, fmt.Errorf("ensemble: host %q does not fit in, the network is full", name)
	}
	h, err := n.add(name, byte(number))
	if err != nil {
		return nil, fmt.Errorf("ensemble: host %q: %w", name, err)
	}
	return h, nil
}

// Network returns the network of the host.
func (h *Host) Network() *Network { return h.network }

// Cut cuts the link between two hosts, both ways.
func (n *Network) Cut(a, b *Host) {
	n.change(func(l *link) { l.cut = true }, direction{a, b}, direction{b, a})
}

// CutOneWay cuts the link in one direction. Packets in the other direction arrive.
func (n *Network) CutOneWay(from, to *Host) {
	n.change(func(l *link) { l.cut = true }, direction{from, to})
}

// Isolate cuts the links between the given hosts and all other hosts, both ways. It leaves the links among the given
// hosts.
func (n *Network) Isolate(group ...*Host) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, other := range n.hosts {
		if other == n.observer || slices.Contains(group, other) {
			continue
		}
		for _, h := range group {
			n.link(direction{h, other}).cut = true
			n.link(direction{other, h}).cut = true
		}
	}
}

// Delay makes every packet between two hosts take so much longer, each way, and thus a round trip twice as much. 0 ends it, for packets
// that have not left yet.
func (n *Network) Delay(a, b *Host, d time.Duration) {
	n.change(func(l *link) { l.delay = d }, direction{a, b}, direction{b, a})
}

// Heal mends the link between two hosts, both ways. A delay stays.
func (n *Network) Heal(a, b *Host) {
	n.change(func(l *link) { l.cut = false }, direction{a, b}, direction{b, a})
}

// HealAll mends all links. Delays stay.
func (n *Network) HealAll() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, l := range n.links {
		l.cut = false
	}
}

func (n *Network) change(f func(*link), directions ...direction) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, d := range directions {
		f(n.link(d))
	}
}

// close ends everything: the connections of hosts are cut off for good.
func (n *Network) close() error {
	n.mu.Lock()
	n.closed = true
	hosts, links := n.hosts, n.links
	n.hosts, n.links = nil, map[direction]*link{}
	n.mu.Unlock()
	var errs []error
	for _, h := range hosts {
		errs = append(errs, h.port.Close(), h.space.Close())
	}
	for _, l := range links {
		close(l.stop)
	}
	n.ports.Wait()
	return errors.Join(append(errs, n.keeper.close())...)
}

// Name returns the name that the host was given. The host of a server is called "server 1", by its id.
func (h *Host) Name() string { return h.name }

// Addr returns the host's address in its network.
func (h *Host) Addr() netip.Addr { return hostAddr(int(h.number)) }

// String returns the name and the address, for messages.
func (h *Host) String() string { return fmt.Sprintf("%s (%v)", h.name, h.Addr()) }

// DialContext connects from the host by TCP, to an address of the network in the form 192.0.2.1:2181. The network is "tcp" or
// "tcp4". It has the form of [net.Dialer.DialContext], so that clients can be told to use it. Across a link that is cut it takes
// until the context ends. Connections are ended by their owners or by Close of the ensemble, which cuts them off in silence.
func (h *Host) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	to, err := netip.ParseAddrPort(address)
	if err == nil && !to.Addr().Is4() || network != "tcp" && network != "tcp4" {
		err = errors.Join(err, fmt.Errorf("%s to %s, expected tcp and an IPv4 address", network, address))
	}
	var conn net.Conn
	if err == nil {
		conn, err = h.network.keeper.dial(ctx, int(h.number), to)
	}
	if err != nil {
		return nil, fmt.Errorf("ensemble: dial %s from %v: %w", address, h, err)
	}
	return conn, nil
}

// Inside returns the command changed so that its process runs on the host, with all its connections. So a test can kill
// and stop a client process. It takes over the path, arguments, folder and environment of cmd, which must not be
// started itself. The caller sets input and output in the returned command. The process keeps its id, and dies with the
// thread that starts it. It has no other network than this one, while it shares files and Unix sockets with the
// machine.
func (h *Host) Inside(cmd *exec.Cmd) *exec.Cmd { return h.network.keeper.inside(h.space, cmd) }
