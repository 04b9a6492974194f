// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
)

// relay is a way to a server that can be cut. It copies bytes, and does not look at them.
type relay struct {
	server   string
	listener net.Listener
	ended    sync.WaitGroup

	mu     sync.Mutex
	closed bool              // to connections
	conns  map[net.Conn]bool // of both sides
}

func newRelay(ctx context.Context, server string) (*relay, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &relay{server: server, listener: listener, conns: make(map[net.Conn]bool)}
	r.ended.Go(r.accept)
	return r, nil
}

func (r *relay) addr() string { return r.listener.Addr().String() }

func (r *relay) accept() {
	for {
		client, err := r.listener.Accept()
		if err != nil {
			return // the relay is closed
		}
		r.ended.Go(func() { r.carry(client) })
	}
}

// carry copies both ways until either side ends the connection.
func (r *relay) carry(client net.Conn) {
	server, err := new(net.Dialer).Dial("tcp", r.server)
	if err != nil || !r.enter(client, server) {
		closeAll(client, server)
		return
	}
	var ways sync.WaitGroup
	for _, way := range [][2]net.Conn{{client, server}, {server, client}} {
		ways.Go(func() {
			_, _ = io.Copy(way[1], way[0]) // that it ends is all that matters
			closeAll(client, server)
		})
	}
	ways.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.conns, client)
	delete(r.conns, server)
}

// enter notes the connections, unless the way is cut.
func (r *relay) enter(conns ...net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return false
	}
	for _, c := range conns {
		r.conns[c] = true
	}
	return true
}

func closeAll(conns ...net.Conn) {
	for _, c := range conns {
		if c != nil {
			_ = c.Close() // nothing is left to be written
		}
	}
}

// cut ends all connections, and refuses others.
func (r *relay) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	for c := range r.conns {
		closeAll(c)
	}
}

func (r *relay) close() error {
	err := r.listener.Close()
	r.cut()
	r.ended.Wait()
	if errors.Is(err, net.ErrClosed) {
		err = nil
	}
	return err
}
