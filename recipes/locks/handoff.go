// SPDX-License-Identifier: Apache-2.0

package locks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/gocurator/curator/recipes/locks/internal/telemetry"
)

var errHandoffOfMany = errors.New("WithLocalHandoff, expected with an InterProcessMutex only, or with a LockInternals for one lease")

// WithLocalHandoff lets up to n holds in a row share one node. A release then passes the
// lock, in memory and without a request, to the next goroutine that waits for it with the
// same [InterProcessMutex]. After n holds the lock goes to the next contender in the queue.
// The option is for a lock that is hot within one process: only one turn in n takes the two
// round trips.
//
// It costs fairness: other contenders wait for up to n holds at a time. Goroutines that
// share the mutex get it in the order in which they asked. It also weakens the token: holds
// in a row have the same one, so what the lock protects cannot tell them apart, and the
// token does not stop a goroutine that goes on after its release. Each hold has contexts of
// its own. A loss ends the row, and so does a request to give the lock back
// ([AttemptRevoke]).
//
// A hold of a row begins without a word from the server. If the node was deleted by hand
// while the link to the server is silent, a hold can begin that another client's hold
// excludes, and it lasts until the client hears of the deletion.
//
// Default: 1, a node for each hold. More than 1 is an error for a lock that several owners
// may hold at once.
func WithLocalHandoff(n int) Option {
	return optionFunc(func(c *config) error {
		if n < 1 {
			return fmt.Errorf("WithLocalHandoff(%d), expected 1 or more holds in a row", n)
		}
		c.handoff = n
		return nil
	})
}

// handoff lines up the goroutines that share a lock. At most one of them has a node in the
// queue or a hold; the others wait here.
type handoff struct {
	most int // holds in a row

	mu      sync.Mutex
	busy    bool         // a goroutine has a node or a hold, or is about to join the queue
	waiting []chan *hold // each gets a hold, or nil when it must join the queue itself
}

// take waits for its turn among the goroutines. If the turn comes without a hold, it joins
// the queue.
func (f *handoff) take(ctx context.Context, wait bool, span *telemetry.Span, enter func() (*hold, error)) (*hold, error) {
	turn, err := f.join(wait)
	if err != nil {
		return nil, err
	}
	if turn != nil {
		h, err := f.await(ctx, turn, span)
		if h != nil || err != nil {
			return h, err
		}
	}
	entered := false
	defer func() {
		if !entered { // a hold passes the turn on when it ends; a failure, or a driver's panic, does it here
			f.pass()
		}
	}()
	h, err := enter()
	entered = err == nil
	return h, err
}

// join returns the channel to wait for, or nil when it is the caller's turn.
func (f *handoff) join(wait bool) (chan *hold, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case !f.busy:
		f.busy = true
		return nil, nil
	case !wait:
		return nil, &NotAcquiredError{Position: 1 + len(f.waiting), local: true}
	}
	turn := make(chan *hold, 1)
	f.waiting = append(f.waiting, turn)
	return turn, nil
}

func (f *handoff) await(ctx context.Context, turn chan *hold, span *telemetry.Span) (*hold, error) {
	span.Waits()
	select {
	case h := <-turn:
		if h != nil {
			h.grantedTo(span)
		}
		return h, nil
	case <-ctx.Done():
	}
	place, withdrawn := f.withdraw(turn)
	err := &NotAcquiredError{Position: 1 + place, local: true, cause: ended(ctx)}
	if withdrawn {
		return nil, err
	}
	// The turn came together with the end of the context: give it to the next goroutine.
	if h := <-turn; h != nil {
		h.grantedTo(span)
		return nil, joined(err, unsettled(h.leave(ctx)))
	}
	f.pass()
	return nil, err
}

// withdraw gives up a turn and returns its place among the waiting goroutines, or false if
// the turn has come already.
func (f *handoff) withdraw(turn chan *hold) (place int, withdrawn bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := slices.Index(f.waiting, turn)
	if i < 0 {
		return 0, false
	}
	f.waiting = slices.Delete(f.waiting, i, i+1)
	return i, true
}

// next gives the node of a released hold to the next goroutine. It returns false if no
// goroutine waits or the row is over.
func (f *handoff) next(h *hold) bool {
	f.mu.Lock()
	if len(f.waiting) == 0 || h.row >= f.most || h.isRevoked() {
		f.mu.Unlock()
		return false
	}
	turn := f.waiting[0]
	f.waiting = f.waiting[1:]
	f.mu.Unlock()
	turn <- h.successor() // may wait for a request, so without the mutex
	return true
}

// pass lets the next goroutine join the queue. On a nil handoff it does nothing.
func (f *handoff) pass() {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.busy = len(f.waiting) > 0; f.busy {
		f.waiting[0] <- nil
		f.waiting = f.waiting[1:]
	}
}
