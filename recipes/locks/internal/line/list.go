// SPDX-License-Identifier: Apache-2.0

package line

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/gocurator/curator/recipes/internal/attempt"
)

// List is the answer to a list of the folder.
type List struct {
	Names   []string
	Pzxid   int64 // of the folder
	History int64 // of the servers; 0 if it may be either of two
	Link    any   // the connection
}

// Lister sends lists, on a goroutine that belongs to no caller. It must not panic, and returns
// an [attempt.PanicError] instead.
type Lister interface {
	// Ready waits until a list can be sent. If it fails so does the list.
	Ready() error

	// List sends a list and returns its answer.
	List() (List, error)
}

// lists are the lists that the places of a line share. One is under way at a time.
type lists struct {
	sent   *list // has not been answered
	next   *list // has not been sent
	asking bool
}

// list is one request for the names in the folder, and its answer.
type list struct {
	done   chan struct{} // closed with the answer
	answer List
	err    error
	told   atomic.Bool // a panic has reached a caller

	mu         sync.Mutex // guards the fields below
	learned    bool       // unset after a panic of the sorter: the next caller learns the list
	contenders []string   // in order
}

// List learns a list, and returns its contenders in order. Callers share a list that is under
// way. If it must be fresh, it is sent after this moment. List blocks until ctx ends or the
// lister has returned.
func (l *Line) List(ctx context.Context, fresh bool, lister Lister) ([]string, error) {
	for {
		shared := l.await(fresh, lister)
		select {
		case <-shared.done:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		_, panicked := errors.AsType[*attempt.PanicError](shared.err)
		switch {
		case panicked && shared.told.Swap(true):
			continue // it has reached one caller, which is enough
		case shared.err != nil:
			return nil, shared.err
		}
		if contenders, current := l.take(shared); current {
			return contenders, nil
		}
	}
}

// await returns a list that has not been answered. A call counts as a miss.
func (l *Line) await(fresh bool, lister Lister) *list {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.misses = neighbours
	if l.lists.sent != nil && !fresh {
		return l.lists.sent
	}
	if l.lists.next == nil {
		l.lists.next = &list{done: make(chan struct{})}
	}
	if !l.lists.asking {
		l.lists.asking = true
		go l.send(lister)
	}
	return l.lists.next
}

// send sends lists one after the other, until no caller needs one.
func (l *Line) send(lister Lister) {
	for l.isAsked() {
		err := lister.Ready()
		l.mu.Lock()
		next := l.lists.next
		l.lists.next, l.lists.sent = nil, next
		l.mu.Unlock()
		if next.err = err; err == nil {
			next.answer, next.err = lister.List()
		}
		l.mu.Lock()
		l.lists.sent = nil
		l.mu.Unlock()
		close(next.done)
	}
}

// isAsked reports whether a caller needs a list. If none does, the next one starts send again.
func (l *Line) isAsked() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lists.asking = l.lists.next != nil
	return l.lists.asking
}

// take learns a list, unless another caller has learned it. It reports false if the list is of
// another history than the line, or of none.
func (l *Line) take(shared *list) (contenders []string, current bool) {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if !shared.learned {
		shared.contenders = l.Sorted(shared.answer.Names)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	current = l.heed(shared.answer.History)
	if current && !shared.learned {
		l.learn(shared.contenders, shared.answer.Pzxid, shared.answer.Link)
		l.trim()
	}
	shared.learned = true
	return shared.contenders, current
}
