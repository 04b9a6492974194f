package locks

import (
	"context"
	"sync"
)

// roster has the holds that are lost when one context of a session ends. One callback of
// the context serves them all: a context of its own would take more memory than the rest of
// a hold.
type roster struct {
	parent context.Context

	mu    sync.Mutex
	holds map[rostered]struct{}
	over  bool // the holds have been abandoned
}

// rostered is a [hold], as its roster sees it.
type rostered interface {
	// conclude ends the signal of the hold. It must not block.
	conclude(cause error)

	// abandon cleans up after the loss of the hold.
	abandon()
}

// rosters has the roster of each context that has not ended.
var rosters = struct {
	sync.Mutex
	of map[context.Context]*roster
}{of: make(map[context.Context]*roster)}

// rosterOf returns the roster of a context.
func rosterOf(parent context.Context) *roster {
	rosters.Lock()
	defer rosters.Unlock()
	r := rosters.of[parent]
	if r == nil {
		r = &roster{parent: parent, holds: make(map[rostered]struct{})}
		rosters.of[parent] = r
		context.AfterFunc(parent, r.abandon)
	}
	return r
}

// add adds a hold. If the context has ended, the hold is abandoned at once.
func (r *roster) add(h rostered) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		go h.abandon()
		return
	}
	r.holds[h] = struct{}{}
}

// end ends a hold with a cause and removes it. It returns false, and does nothing, if the hold
// has ended already, or the context has and so the roster abandons the hold.
func (r *roster) end(h rostered, cause error) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, held := r.holds[h]; !held || r.parent.Err() != nil {
		return false
	}
	delete(r.holds, h)
	h.conclude(cause) // under the mutex, so that no caller finds an end without its cause
	return true
}

// abandon abandons the holds, as the context has ended.
func (r *roster) abandon() {
	rosters.Lock()
	delete(rosters.of, r.parent)
	rosters.Unlock()
	r.mu.Lock()
	holds := r.holds
	r.holds, r.over = nil, true
	r.mu.Unlock()
	for h := range holds {
		go h.abandon()
	}
}
