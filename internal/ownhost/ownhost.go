// SPDX-License-Identifier: Apache-2.0

// Package ownhost tells requests for a handler's own host from others. Another site could have its name point to
// this machine, and so read and write through the browsers of its visitors (DNS rebinding).
package ownhost

import (
	"net"
	"net/netip"
	"os"
	"strings"
)

// Names are the host names of a handler.
type Names map[string]bool

// New returns localhost, the name of the machine with and without its domain, and hosts.
func New(hosts ...string) Names {
	n := Names{"localhost": true}
	if machine, err := os.Hostname(); err == nil { // without a name it has none of its own
		first, _, _ := strings.Cut(machine, ".")
		hosts = append([]string{machine, first}, hosts...)
	}
	for _, host := range hosts {
		n[plain(host)] = true
	}
	return n
}

// Has reports whether the host of a request is an IP address, which no other site can have, or one of the names.
func (n Names) Has(host string) bool {
	host = plain(host)
	_, err := netip.ParseAddr(host)
	return err == nil || n[host]
}

// plain returns a host as names are compared: without a port, in lower case.
func plain(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
}
