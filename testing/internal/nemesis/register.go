// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"

	"github.com/gocurator/curator/recipes/fence"
)

// registers are what the locks protect: one fenced register for each, in the process of
// the campaign. Clients reach them through a Unix socket, which no fault touches, so
// that a holder that is cut off from ZooKeeper can still do harm.
type registers struct {
	folder   string
	listener net.Listener
	serving  sync.WaitGroup

	mu     sync.Mutex
	byLock map[string]*fence.Register
	conns  map[net.Conn]bool // nil once closed
}

func serveRegisters() (*registers, error) {
	folder, err := os.MkdirTemp("", "nemesis-") // the name of a socket has to be short
	if err != nil {
		return nil, fmt.Errorf("nemesis: registers: %w", err)
	}
	listener, err := net.Listen("unix", filepath.Join(folder, "registers"))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("nemesis: registers: %w", err), os.Remove(folder))
	}
	r := &registers{folder: folder, listener: listener, byLock: map[string]*fence.Register{}, conns: map[net.Conn]bool{}}
	r.serving.Go(r.serve)
	return r, nil
}

// socket is where clients reach them.
func (r *registers) socket() string { return r.listener.Addr().String() }

func (r *registers) serve() {
	for {
		conn, err := r.listener.Accept()
		if err != nil {
			return // closed
		}
		r.mu.Lock()
		if r.conns == nil {
			r.mu.Unlock()
			_ = conn.Close() // of a client that came too late
			return
		}
		r.conns[conn] = true
		r.serving.Go(func() { r.answer(conn) })
		r.mu.Unlock()
	}
}

// answer serves one client: "lock token" is answered with the outcome, a line each.
func (r *registers) answer(conn net.Conn) {
	defer func() {
		_ = conn.Close() // the client is gone, or must notice that this is the end
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.conns, conn)
	}()
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		var lock string
		var token int64
		if _, err := fmt.Sscan(lines.Text(), &lock, &token); err != nil {
			return
		}
		result := accepted
		if err := r.of(lock).Accept(token); err != nil {
			result = stale
		}
		if _, err := io.WriteString(conn, string(result)+"\n"); err != nil {
			return
		}
	}
}

func (r *registers) of(lock string) *fence.Register {
	r.mu.Lock()
	defer r.mu.Unlock()
	register := r.byLock[lock]
	if register == nil {
		register = new(fence.Register)
		r.byLock[lock] = register
	}
	return register
}

func (r *registers) close() error {
	err := r.listener.Close()
	r.mu.Lock()
	for conn := range r.conns {
		err = errors.Join(err, conn.Close())
	}
	r.conns = nil
	r.mu.Unlock()
	r.serving.Wait()
	return errors.Join(err, os.RemoveAll(r.folder))
}

// registerClient is a client process' connection to the registers.
type registerClient struct {
	mu      sync.Mutex
	conn    net.Conn
	answers *bufio.Reader
}

func dialRegisters(socket string) (*registerClient, error) {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return nil, fmt.Errorf("nemesis: registers: %w", err)
	}
	return &registerClient{conn: conn, answers: bufio.NewReader(conn)}, nil
}

// write writes to the register of a lock with a token, and returns accepted or stale.
func (c *registerClient) write(lock string, token int64) (outcome, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, err := fmt.Fprintf(c.conn, "%s %d\n", lock, token); err != nil {
		return "", fmt.Errorf("nemesis: register: %w", err)
	}
	answer, err := c.answers.ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("nemesis: register: %w", err)
	}
	return outcome(answer[:len(answer)-1]), nil
}

func (c *registerClient) close() error { return c.conn.Close() }
