// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/locks"
)

// held is a lease in the hand of a worker, which records what becomes of it.
type held struct {
	worker *worker
	id     string
	lock   string
	owner  string
	shared bool
	lease  *locks.Lease

	lastValid int64
	over      bool         // the end is recorded
	told      atomic.Int64 // when the end of the lease was signalled, 0 before
}

// listen waits for the signal.
func (h *held) listen() {
	<-h.lease.Done()
	h.told.Store(monotonic())
}

// valid looks at the lease. The time is taken before the look, so at that time it
// was valid for certain.
func (h *held) valid() bool {
	if h.over {
		return false
	}
	at := monotonic()
	if h.lease.Err() == nil {
		h.lastValid = at
		return true
	}
	h.over = true
	err := h.lease.Err()
	h.record(event{
		At: h.told.Load(), Kind: lost, LastValid: h.lastValid, SessionOver: errors.Is(err, framework.ErrSessionExpired), Error: err.Error(),
	})
	return false
}

// release gives the lease back.
func (h *held) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, releaseTime)
	defer cancel()
	if h.valid() {
		h.record(event{Kind: releasing, LastValid: h.lastValid})
	}
	err := h.lease.Release(ctx)
	h.record(event{Kind: released, SessionOver: errors.Is(err, framework.ErrSessionExpired), Error: text(err)})
}

// record adds an event of the hold.
func (h *held) record(e event) {
	e.Hold, e.Lock = h.id, h.lock
	h.worker.client.history.add(e)
}

// Sets are kept in the data of znodes, a name a line, and go on in the next
// when one is full.
const (
	setPart = 2000 // bytes
	setTime = 10 * time.Second
)

// appendToSet adds the hold to the set of its lock, by reading and then writing without
// a condition on the version: the lock must keep other writers out in between. The
// transaction checks the lock's node, so nothing is written after the end of the hold.
func (h *held) appendToSet(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, setTime)
	defer cancel()
	set := h.worker.client.set(h.lock)
	part, data, err := set.last(ctx)
	if err != nil {
		return // nothing was written
	}
	write := framework.SetDataOp(part, append(data, h.id+"\n"...))
	if len(data) > setPart {
		write = framework.CreateOp(set.next(part), []byte(h.id+"\n"))
	}
	_, err = h.lease.Transact(ctx, write)
	h.record(event{Kind: appended, Value: h.id, Outcome: changed(err), Error: text(err)})
}
