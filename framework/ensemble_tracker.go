// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// trackEnsemble reads the configuration on every connection and after every change.
func (f *Framework) trackEnsemble() {
	for f.ctx.Err() == nil {
		// No caller waits for this connection, so the wait has no limit.
		if err := f.awaitConnection(f.ctx, 0); err != nil {
			return
		}
		linked := f.Session().Context(StandardErrorPolicy)
		watch, err := f.followConfig(linked)
		if err != nil {
			f.awaitNextRead(linked, err)
			continue
		}
		select {
		case <-watch.Fired():
		case <-f.ctx.Done():
			watch.Cancel()
		}
	}
}

// awaitNextRead waits after a read that has failed: for the next connection, or for a moment if
// the server was too busy, or had an error inside.
func (f *Framework) awaitNextRead(linked context.Context, err error) {
	var rested <-chan time.Time
	switch {
	case Retryable(err), refusedForNow(err):
		rested = time.After(followPause)
	case linked.Err() == nil:
		f.cfg.Logger.Warn("the ensemble's configuration cannot be followed on this connection", "error", err)
	}
	select {
	case <-rested:
	case <-linked.Done():
	}
}

// followConfig adopts the current configuration, and watches for the next.
func (f *Framework) followConfig(ctx context.Context) (*Watch, error) {
	var data []byte
	var watch *Watch
	if err := f.unrooted().readOnce(ctx, ReadData(configPath, &data, Watched(&watch))); err != nil {
		return nil, err
	}
	_, _ = until(f.ctx, func() (servers []string) {
		f.ensemble.guard(func() { servers = clientAddresses(string(data), f.cfg.trackedAddress) })
		if servers != nil {
			f.ensemble.adopt(servers)
		}
		return servers
	})
	return watch, nil
}

// clientAddresses returns the client addresses in a configuration, sorted, or nil when the
// configuration must be ignored. The function of the program is nil if it has none.
func clientAddresses(config string, own func(line string) string) []string {
	addressOf := clientAddress
	if own != nil {
		addressOf = func(line string) string { return ownAddress(own(line)) }
	}
	var addresses []string
	lines := 0
	for line := range strings.Lines(config) {
		key, value, found := strings.Cut(strings.TrimSpace(line), "=")
		if !found || !strings.HasPrefix(key, "server.") {
			continue
		}
		lines++
		if address := addressOf(value); address != "" {
			addresses = append(addresses, address)
		}
	}
	if len(addresses) == 1 && lines > 1 && own == nil {
		return nil // only the leader shows its client port: following it would lose the rest
	}
	slices.Sort(addresses)
	return slices.Compact(addresses)
}

// ownAddress returns what a function of the program has made of a line, or "" if that is no address.
func ownAddress(said string) string {
	address, err := parseServer(said)
	if err != nil {
		return ""
	}
	return address
}

// clientAddress returns the client address of
// "host:2888:3888|host2:2888:3888:participant;host:2181", or "" if there is none. The
// host of the client address may be missing or a wildcard.
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
		return "" // a port of 0, or not a server line
	}
	return address
}

// quorumHost returns the host of "host:2888:3888:participant", where an IPv6 address is in
// brackets.
func quorumHost(quorum string) string {
	if inner, found := strings.CutPrefix(quorum, "["); found {
		host, _, _ := strings.Cut(inner, "]")
		return host
	}
	host, _, _ := strings.Cut(quorum, ":")
	return host
}
