// SPDX-License-Identifier: Apache-2.0

package ensemble

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

const loopback = "127.0.0.1"

// Ports are drawn from below the ranges that Linux, macOS and Windows use for outgoing connections. A port from those ranges, which
// is what listening on port 0 yields, may be taken by any client while its server is down, and a client that keeps dialling a
// dead server on such a port sooner or later connects to itself and holds the port for good.
const (
	firstPort = 10_000
	lastPort  = 30_000
)

// ports are those a server listens on. A standalone server uses no quorum and no election, and most use no secure one.
type ports struct {
	client, quorum, election, secure int
}

// freePorts returns n sets of ports that were free a moment ago. Somebody else may still take one before the server does.
func freePorts(n int) ([]ports, error) {
	var held []net.Listener // until all are chosen, so that none is chosen twice
	defer func() {
		for _, l := range held {
			l.Close() // nothing was accepted; there is nothing to lose
		}
	}()
	const each = 4
	numbers := make([]int, each*n)
	for i := range numbers {
		l, err := listenSomewhere()
		if err != nil {
			return nil, err
		}
		held = append(held, l)
		numbers[i] = l.Addr().(*net.TCPAddr).Port
	}
	sets := make([]ports, n)
	for i := range sets {
		own := numbers[each*i:]
		sets[i] = ports{client: own[0], quorum: own[1], election: own[2], secure: own[3]}
	}
	return sets, nil
}

func listenSomewhere() (net.Listener, error) {
	const tries = 100
	var errs error
	for range tries {
		port := firstPort + rand.IntN(lastPort-firstPort)
		l, err := net.Listen("tcp", net.JoinHostPort(loopback, strconv.Itoa(port)))
		if err == nil {
			return l, nil
		}
		errs = errors.Join(errs, err)
	}
	return nil, fmt.Errorf("ensemble: no free port between %d and %d in %d tries: %w", firstPort, lastPort, tries, errs)
}
