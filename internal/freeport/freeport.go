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

// Ports are drawn from below the ranges that Linux, macOS and Windows use for outgoing connections. A port from those ranges, which
// is what listening on port 0 yields, may be taken by any client while its server is down, and a client that keeps dialling a
// dead server on such a port sooner or later connects to itself and holds the port for good.
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
