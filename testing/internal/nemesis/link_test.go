// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gocurator/curator/internal/testkit/must"
)

// dial has a client connect at a time, and hang up at another one.
func (p *plan) dial(client, server string, from, to int64) {
	conn := client + server
	p.add(client, event{At: at(from), Kind: dialed, Server: server, Conn: conn}, event{At: at(to), Kind: hungUp, Conn: conn})
}

// Records name a server by its host, whichever way a client reaches it.
func TestLinkHostBehind(t *testing.T) {
	t.Parallel()
	w := must.Get(newWay(clientConfig{Servers: []string{"192.0.2.1:2181", "192.0.2.2:2181"}, Proxied: true}, nil))(t)
	defer func() { require.NoError(t, w.close()) }()
	require.Equal(t, "192.0.2.2", w.hostBehind(w.proxies[1].Addr()))
	require.Equal(t, "192.0.2.1", w.hostBehind("192.0.2.1:2182"))
}
