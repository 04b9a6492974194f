// SPDX-License-Identifier: Apache-2.0

package main

import "slices"

// link is a connection of a client.
type link struct {
	server   string // the host that it leads to
	from, to int64
}

// connect notes the connections of a client by its events.
func (r *roundReport) connect(client string, events []event) {
	open := make(map[string]int) // the links of connections that have not ended
	for _, e := range events {
		switch e.Kind {
		case dialed:
			open[e.Conn] = len(r.links[client])
			r.links[client] = append(r.links[client], link{server: e.Server, from: e.At, to: forever})
		case hungUp:
			if i, ok := open[e.Conn]; ok {
				r.links[client][i].to = e.At
				delete(open, e.Conn)
			}
		default: // says nothing of connections
		}
	}
}

// mayReach reports whether a client may have been connected to one of the servers, given by their
// hosts, between two moments. If the record does not tell where the client was, or which servers are
// meant, it may have been.
func (r *roundReport) mayReach(client string, servers []string, from, to int64) bool {
	if len(r.links[client]) == 0 || len(servers) == 0 {
		return true
	}
	return slices.ContainsFunc(r.links[client], func(l link) bool {
		return l.from <= to && from <= l.to && slices.Contains(servers, l.server)
	})
}
