// SPDX-License-Identifier: Apache-2.0

// Package freeport finds TCP ports for servers that are stopped and started again on the same port.
package freeport

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// Ports are drawn from below the ranges that Linux, macOS and Windows use for outgoing connections. Listening on port 0 yields a
// port from those ranges, and any client may take it while the server is down. A client that keeps dialling a server that is down
// may even get the server's port as its own. It then connects to itself, and holds the port for good.
const (
	first = 10_000
	last  = 30_000
)

// Listen listens on a free port of host, which no outgoing connection will take when the listener is closed.
func Listen(host string) (net.Listener, error) {
	const tries = 100
	var failed error
	for range tries {
		port := first + rand.IntN(last-first)
		l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", net.JoinHostPort(host, strconv.Itoa(port)))
		if err == nil {
			return l, nil
		}
		failed = err
	}
	return nil, fmt.Errorf("no free port between %d and %d in %d tries: %w", first, last, tries, failed)
}
