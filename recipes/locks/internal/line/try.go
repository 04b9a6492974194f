// SPDX-License-Identifier: Apache-2.0

package line

import "slices"

// Try is a place without a number: a node that is about to be created, if it can be the
// next one in.
type Try struct {
	LockName string
	Over     chan struct{} // closed when the node was created, or will not be
}

// NewTry returns a try that is not announced.
func NewTry(lockName string) *Try { return &Try{lockName, make(chan struct{})} }

// Announce adds a try, and returns the tries that were announced before.
func (l *Line) Announce(t *Try) (before []*Try) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before = slices.Clone(l.tries)
	l.tries = append(l.tries, t)
	return before
}

// Withdraw removes a try, if it is announced.
func (l *Line) Withdraw(t *Try) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.tries, t); i >= 0 {
		l.tries = slices.Delete(l.tries, i, i+1)
		close(t.Over)
	}
}
