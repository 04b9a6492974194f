package framework

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"strings"
)

// WithEnsembleTracker makes the client follow the ensemble's own configuration: it
// reads and watches /zookeeper/config on every connection and connects to the servers
// named there from then on, until the [EnsembleProvider] has news. The chroot stays.
// It is Curator's EnsembleTracker, which is off here unless asked for: servers may
// advertise addresses that clients cannot reach.
//
// A server's address is what its line says after the semicolon, with the host before
// the first colon where a wildcard stands; lines without a client port are skipped.
// Nothing is followed of a standalone server, which has no configuration, nor when of
// several servers only one has a client port: this is what servers show whose
// zoo.cfg has clientPort outside of the server lines, and that one is the leader.
//
// It takes the right to read /zookeeper/config, which everybody has by default, and
// costs a read and a watch per connection. It cannot go with [WithTLS], as the
// configuration names plain ports.
func WithEnsembleTracker() Option {
	return optionFunc(func(c *config) error { c.tracksEnsemble = true; return nil })
}

// track reads the configuration on every connection and after every change.
func (e *ensemble) track() {
	for e.f.ctx.Err() == nil {
		// Nothing waits for this connection, so nothing limits the wait for it.
		if err := e.f.awaitConnection(e.f.ctx, 0, nil); err != nil {
			return
		}
		linked := e.f.Session().Context(StandardErrorPolicy)
		watch, err := e.readConfig(linked)
		if err != nil {
			if linked.Err() == nil {
				e.log.Warn("the ensemble's configuration cannot be followed on this connection", "error", err)
			}
			<-linked.Done()
			continue
		}
		select {
		case <-watch.Fired():
		case <-e.f.ctx.Done():
			watch.Cancel()
		}
	}
}

// readConfig follows the configuration of this moment, and watches for the next.
func (e *ensemble) readConfig(ctx context.Context) (*Watch, error) {
	var data []byte
	var watch *Watch
	c, err := ReadData(configPath, &data, Watched(&watch)).build(e.f.unrooted())
	if err != nil {
		return nil, err
	}
	if err := e.f.exchange(ctx, c); err != nil {
		return nil, err
	}
	if servers := clientAddresses(string(data)); servers != nil {
		e.adopt(servers)
	}
	return watch, nil
}

// clientAddresses returns the addresses for clients that a configuration names, sorted,
// or nil when it is not to be followed.
func clientAddresses(config string) []string {
	var addresses []string
	lines := 0
	for line := range strings.Lines(config) {
		key, value, found := strings.Cut(strings.TrimSpace(line), "=")
		if !found || !strings.HasPrefix(key, "server.") {
			continue
		}
		lines++
		if address := clientAddress(value); address != "" {
			addresses = append(addresses, address)
		}
	}
	if len(addresses) == 1 && lines > 1 {
		return nil
	}
	slices.Sort(addresses)
	return slices.Compact(addresses)
}

// clientAddress returns the address for clients of
// "host:2888:3888|host2:2888:3888:participant;host:2181", or "" if there is none. The
// host of the client address may be left out or a wildcard.
func clientAddress(server string) string {
	quorum, client, _ := strings.Cut(server, ";")
	client, _, _ = strings.Cut(strings.TrimSpace(client), ";")
	host, port := "", client
	if i := strings.LastIndexByte(client, ':'); i >= 0 {
		host, port = strings.Trim(client[:i], "[]"), client[i+1:]
	}
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
		host = quorumHost(quorum)
	}
	if host == "" || port == "" {
		return ""
	}
	address, err := parseServer(net.JoinHostPort(host, port))
	if err != nil {
		return "" // a port of 0, or what is no server line
	}
	return address
}

// quorumHost returns the host of "host:2888:3888:participant", of which IPv6 stands
// in brackets.
func quorumHost(quorum string) string {
	if inner, found := strings.CutPrefix(quorum, "["); found {
		host, _, _ := strings.Cut(inner, "]")
		return host
	}
	host, _, _ := strings.Cut(quorum, ":")
	return host
}
