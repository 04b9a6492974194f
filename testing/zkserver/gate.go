// SPDX-License-Identifier: Apache-2.0

package zkserver

import "sync"

// gate is open or shut; a caller of wait at a shut gate waits. The zero gate is open.
type gate struct {
	mu   sync.Mutex
	shut chan struct{} // nil while open, closed on opening
}

func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut == nil {
		g.shut = make(chan struct{})
	}
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut != nil {
		close(g.shut)
		g.shut = nil
	}
}

func (g *gate) isShut() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.shut != nil
}

// wait returns true when the gate is open, or false if cancel is closed first.
func (g *gate) wait(cancel <-chan struct{}) bool {
	for {
		g.mu.Lock()
		shut := g.shut
		g.mu.Unlock()
		if shut == nil {
			return true
		}
		select {
		case <-shut:
		case <-cancel:
			return false
		}
	}
}
