// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

const defaultPort = "2181"

// parseConnectString reads ZooKeeper's connection string: host:port,host:port,.../chroot.
// The port is 2181 if it is left out. An IPv6 address with a port is in brackets.
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
