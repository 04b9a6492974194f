// SPDX-License-Identifier: Apache-2.0

package framework_test

import (
	"context"
	"net"
	"sync"
)

// pausable makes several servers out of one, one of which may be paused: as of a
// process that is stopped, its kernel accepts connections and takes what is sent.
type pausable struct {
	n *memnet

	mu      sync.Mutex
	current string // the newest that was dialled
	paused  string
}

func (p *pausable) dial(ctx context.Context, network, address string) (net.Conn, error) {
	p.mu.Lock()
	p.current = address
	p.mu.Unlock()
	conn, err := p.n.dial(ctx, network, address)
	return pausableConn{conn, p, address}, err
}

// pauseCurrent pauses the server that was dialled last, and resumes the one before.
func (p *pausable) pauseCurrent() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.paused = p.current
}

func (p *pausable) isPaused(address string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return address == p.paused
}

type pausableConn struct {
	net.Conn
	servers *pausable
	address string
}

func (c pausableConn) Read(b []byte) (int, error) {
	for {
		if n, err := c.Conn.Read(b); err != nil || !c.servers.isPaused(c.address) {
			return n, err
		}
	}
}

func (c pausableConn) Write(b []byte) (int, error) {
	if c.servers.isPaused(c.address) {
		return len(b), nil
	}
	return c.Conn.Write(b)
}
