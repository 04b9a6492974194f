// SPDX-License-Identifier: Apache-2.0

package ensemble

import (
	"fmt"
	"net"

	"github.com/gocurator/curator/internal/freeport"
)

const loopback = "127.0.0.1"

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
		l, err := freeport.Listen(loopback)
		if err != nil {
			return nil, fmt.Errorf("ensemble: %w", err)
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
