// SPDX-License-Identifier: Apache-2.0

package checker

import (
	"fmt"
	"slices"
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
		writer := slices.IndexFunc(s.holds, func(h hold) bool { return !h.shared })
		if writer >= 0 {
			return s.holds[writer].owner == op.Owner && s.holds[writer].token == op.Token
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
	holds      []hold // by owner, shared ones last
	permits    int
	newest     int64 // the greatest token of a writer or owner
	newestRead int64 // the greatest token of a reader
}

// hold is what one owner has of a lock, on one side of it.
type hold struct {
	owner  string
	shared bool
	token  int64
	n      int // how often, or how many permits
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

func (s state) find(op Op) int {
	return slices.IndexFunc(s.holds, func(h hold) bool { return h.owner == op.Owner && h.shared == op.Shared })
}

// reenters reports whether the owner acquires a lock that it holds.
func (s state) reenters(op Op) bool {
	i := s.find(op)
	return i >= 0 && s.holds[i].token == op.Token
}

func (s state) acquired(op Op) state {
	if op.Shared {
		s.newestRead = max(s.newestRead, op.Token)
	} else {
		s.newest = max(s.newest, op.Token)
	}
	s.holds = slices.Clone(s.holds)
	if i := s.find(op); i >= 0 {
		s.holds[i].n += op.permits()
		return s
	}
	s.holds = append(s.holds, hold{op.Owner, op.Shared, op.Token, op.permits()})
	slices.SortFunc(s.holds, byOwner)
	return s
}

func (s state) released(op Op) (state, bool) {
	i := s.find(op)
	if i < 0 || s.holds[i].n < op.permits() {
		return s, false
	}
	s.holds = slices.Clone(s.holds)
	if s.holds[i].n -= op.permits(); s.holds[i].n == 0 {
		s.holds = slices.Delete(s.holds, i, i+1)
	}
	return s, true
}

func (s state) equal(other state) bool {
	return s.permits == other.permits && s.newest == other.newest && s.newestRead == other.newestRead &&
		slices.Equal(s.holds, other.holds)
}
