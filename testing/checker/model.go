// SPDX-License-Identifier: Apache-2.0

package checker

import (
	"fmt"
	"maps"
)

// Model is what a kind of lock allows, one operation after the other.
type Model struct {
	name  string
	start state

	// admits decides on an acquisition. In every model only a held lock can be
	// released.
	admits func(s state, op Op) bool
}

// String returns the name of the model.
func (m Model) String() string { return m.name }

// Mutex is a lock that one owner can hold, once. Tokens rise in the order in which
// it is granted.
func Mutex() Model {
	return Model{name: "mutex", admits: func(s state, op Op) bool {
		return len(s.holds) == 0 && op.Token > s.newest
	}}
}

// Reentrant is a mutex whose owner may acquire it again, with the token of its
// hold, and then has to release it as often.
func Reentrant() Model {
	return Model{name: "re-entrant mutex", admits: func(s state, op Op) bool {
		return s.reenters(op) || Mutex().admits(s, op)
	}}
}

// ReadWrite is a lock that many owners can hold for reading or one for writing.
// Both sides can be re-entered. The writer may acquire the read side too, with its
// token, and may release either first. A writer's token exceeds all earlier tokens,
// a reader's the token of every earlier writer.
func ReadWrite() Model {
	return Model{name: "read/write lock", admits: func(s state, op Op) bool {
		switch {
		case s.reenters(op):
			return true
		case !op.Shared:
			return len(s.holds) == 0 && op.Token > max(s.newest, s.newestRead)
		}
		for writer, h := range s.holds { // one at most
			if !writer.shared {
				return writer.owner == op.Owner && h.token == op.Token
			}
		}
		return op.Token > s.newest
	}}
}

// Semaphore has a number of permits, which a [Resize] changes: more are given out at
// once, fewer take none away. Several are acquired all at the same moment or not at
// all. Tokens say nothing about the order.
func Semaphore(permits int) Model {
	return Model{
		name: fmt.Sprintf("semaphore of %d", permits), start: state{permits: permits},
		admits: func(s state, op Op) bool {
			held := 0
			for _, h := range s.holds {
				held += h.n
			}
			return op.permits() <= s.permits-held
		},
	}
}

// state is a lock between two operations. It is never changed, only replaced.
type state struct {
	holds      map[holder]hold
	permits    int
	newest     int64 // the greatest token of a writer or owner
	newestRead int64 // the greatest token of a reader
}

// holder is an owner on one side of a lock.
type holder struct {
	owner  string
	shared bool
}

// hold is what a holder has.
type hold struct {
	token int64
	n     int // how often, or how many permits
}

// step returns the lock after an operation, or false if it does not allow that.
func (m Model) step(s state, op Op) (state, bool) {
	switch op.Kind {
	case Acquire:
		return s.acquired(op), m.admits(s, op)
	case Release:
		return s.released(op)
	case Resize:
		s.permits = op.N
		return s, true
	default:
		return s, false
	}
}

// reenters reports whether the owner acquires a lock that it holds.
func (s state) reenters(op Op) bool {
	h, held := s.holds[op.holder()]
	return held && h.token == op.Token
}

func (s state) acquired(op Op) state {
	h, held := s.holds[op.holder()]
	if !held {
		h.token = op.Token
	}
	h.n += op.permits()
	next := s.with(op.holder(), h)
	if op.Shared {
		next.newestRead = max(s.newestRead, op.Token)
	} else {
		next.newest = max(s.newest, op.Token)
	}
	return next
}

func (s state) released(op Op) (state, bool) {
	h := s.holds[op.holder()]
	if h.n -= op.permits(); h.n < 0 {
		return s, false
	}
	return s.with(op.holder(), h), true
}

// with returns the state with another hold.
func (s state) with(of holder, h hold) state {
	holds := make(map[holder]hold, len(s.holds)+1)
	maps.Copy(holds, s.holds)
	if holds[of] = h; h.n == 0 {
		delete(holds, of)
	}
	s.holds = holds
	return s
}

func (s state) equal(other state) bool {
	return s.permits == other.permits && s.newest == other.newest && s.newestRead == other.newestRead &&
		maps.Equal(s.holds, other.holds)
}
