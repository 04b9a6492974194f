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

// Lister sends lists.
type Lister interface {
	// Ask sends a list, on a goroutine that belongs to no caller and that it may end. It calls
	// Sent of the request right before, and Answered last and in any case. A panic is an
	// [attempt.PanicError].
	Ask(r *Request)
}

// lists are the lists that the places of a line share. One is under way at a time.
type lists struct {
	asked *Request // not answered; nil if none is under way
	next  *Request // not sent
}

// Request is one request for the names in the folder, and its answer.
type Request struct {
	line   *Line
	lister Lister
	done   chan struct{} // closed with the answer
	answer List
	err    error
	sent   moment
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
func (l *Line) await(fresh bool, lister Lister) *Request {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.misses = neighbours
	if l.lists.asked != nil && !fresh {
		return l.lists.asked
	}
	if l.lists.next == nil {
		l.lists.next = &Request{line: l, lister: lister, done: make(chan struct{})}
		if l.lists.asked == nil {
			go lister.Ask(l.lists.next)
		}
	}
	return l.lists.next
}

// Sent says that the request is about to be sent. A list that must be fresh is another one then.
func (r *Request) Sent() {
	r.line.mu.Lock()
	defer r.line.mu.Unlock()
	if r.line.lists.next == r {
		r.line.lists.next, r.line.lists.asked = nil, r
		r.sent = r.line.now()
	}
}

// Answered ends the request, and sends the next one.
func (r *Request) Answered(answer List, err error) {
	r.answer, r.err = answer, err
	r.Sent() // or its callers would wait for ever, if it was not
	r.line.mu.Lock()
	r.line.lists.asked = nil
	if next := r.line.lists.next; next != nil {
		go next.lister.Ask(next)
	}
	r.line.mu.Unlock()
	close(r.done)
}

// take learns a list, unless another caller has learned it. It reports false if the list is of
// another history than the line, or of none.
func (l *Line) take(shared *Request) (contenders []string, current bool) {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if !shared.learned {
		shared.contenders = l.Sorted(shared.answer.Names)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	current = l.heed(shared.answer.History)
	if current && !shared.learned {
		l.learn(shared.contenders, shared.answer.Pzxid, shared.answer.Link, shared.sent)
		l.trim()
	}
	shared.learned = true
	return shared.contenders, current
}
