// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/gocurator/curator/recipes/locks"
)

// How workers pass their time. Most holds are short, so that there are many, and the
// locks are nevertheless held nearly all the time by the few that are long, so that
// every fault meets some.
const (
	afterFailure  = 50 * time.Millisecond
	shortHold     = 4 * time.Millisecond
	middleHold    = 100 * time.Millisecond
	longHold      = 3 * time.Second
	patience      = 30 * time.Second       // of an acquisition that is meant to succeed
	impatience    = 200 * time.Millisecond // of one that may be given up
	haste         = 15 * time.Millisecond  // of one by a caller with a short timeout, and then of its pause
	releaseTime   = 30 * time.Second
	lookEvery     = time.Millisecond     // how often a holder looks at its lease
	lookEveryLong = 5 * time.Millisecond // in a long hold
)

// worker takes turns at one lock.
type worker struct {
	client *client
	spec   lockSpec
	kind   workload
	name   string
	random *rand.Rand
	turns  int
	last   bool // this turn must succeed
}

// run takes turns until the workers are to stop, and then one more that has to succeed.
func (w *worker) run() {
	turn, err := w.kind.prepare(w)
	if err != nil {
		w.client.history.add(event{Kind: failed, Lock: w.spec.Name, Error: err.Error()})
		w.client.giveUpOn(w.spec.Name)
		return
	}
	for {
		turn(w.client.ctx)
		most := w.client.cfg.Pause
		if w.hurried() {
			most = min(most, haste)
		}
		if !w.pause(w.upTo(most)) {
			break
		}
	}
	w.last = true
	turn(w.client.ctx)
}

// pause reports whether the workers go on.
func (w *worker) pause(d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-w.client.stopping:
		return false
	}
}

// hurried reports whether acquisitions get little time, one soon after the other.
func (w *worker) hurried() bool { return !w.last && w.client.hurried.Load() }

// bounds returns a context for an acquisition. A part of them is given up soon.
func (w *worker) bounds(ctx context.Context) (context.Context, context.CancelFunc) {
	switch {
	case w.last:
	case w.hurried():
		return context.WithTimeout(ctx, w.upTo(haste))
	case w.random.IntN(5) == 0:
		return context.WithTimeout(ctx, w.upTo(impatience))
	}
	return context.WithTimeout(ctx, patience)
}

// upTo is a random time below d.
func (w *worker) upTo(d time.Duration) time.Duration { return time.Duration(w.random.Int64N(int64(d))) }

// length is how long a hold lasts.
func (w *worker) length() time.Duration {
	switch n := w.random.IntN(100); {
	case w.last || n < 90:
		return w.upTo(shortHold)
	case n < 98:
		return w.upTo(middleHold)
	default:
		return w.upTo(longHold)
	}
}

// acquire makes one acquisition and records it: as holds of the named locks, in
// the order of the leases. It returns nil if there is none.
func (w *worker) acquire(
	ctx context.Context, owner string, shared bool, names []string, acquire func(context.Context) ([]*locks.Lease, error),
) []*held {
	ctx, cancel := w.bounds(ctx)
	defer cancel()
	c := w.call(w.spec.Name, owner, shared)
	leases, err := acquire(ctx)
	returned := monotonic()
	if err != nil {
		c.failed(returned, err)
		return nil
	}
	var all []*held
	for i, lease := range leases {
		all = append(all, c.granted(returned, i, names[i], lease))
	}
	return all
}

// call is a call that may grant leases.
type call struct {
	worker  *worker
	id      string
	lock    string
	owner   string // "" is the hold itself
	shared  bool
	asked   int64 // since when a node may have been asked for
	session int64
}

// call records that a call for a lock begins.
func (w *worker) call(lock, owner string, shared bool) call {
	w.turns++
	c := call{
		worker: w, id: fmt.Sprintf("%s/%d", w.name, w.turns), lock: lock, owner: owner, shared: shared,
		asked: monotonic(), session: w.session(),
	}
	w.client.history.add(event{At: c.asked, Kind: called, Hold: c.id, Lock: lock, Shared: shared})
	return c
}

// failed records that the call has returned without a lease, and then pauses.
func (c call) failed(at int64, err error) {
	w := c.worker
	w.client.history.add(event{At: at, Kind: failed, Hold: c.id, Lock: c.lock, Shared: c.shared, Error: text(err)})
	if w.last {
		w.client.giveUpOn(w.spec.Name)
	}
	if !w.hurried() {
		w.pause(afterFailure)
	}
}

// granted records the n-th lease of the call, which was valid at that moment.
func (c call) granted(at int64, n int, lock string, lease *locks.Lease) *held {
	w := c.worker
	h := &held{worker: w, id: fmt.Sprintf("%s#%d", c.id, n), lock: lock, shared: c.shared, lease: lease}
	h.owner = cmp.Or(c.owner, h.id)
	session := c.session
	if session != w.session() {
		session = 0 // it can be either
	}
	w.client.history.add(event{
		At: at, Kind: acquired, Hold: h.id, Lock: lock, Owner: h.owner, Shared: c.shared, Called: c.asked,
		Token: lease.Token(), Node: lease.Path(), Session: session,
	})
	go h.listen()
	return h
}

// session is the client's at the moment, 0 if it has none.
func (w *worker) session() int64 {
	session := w.client.framework.Session()
	if session == nil {
		return 0
	}
	return session.ID()
}

// tryToo returns an acquisition that is now and then only tried.
func (w *worker) tryToo(lock locks.InterProcessLock) func(context.Context) ([]*locks.Lease, error) {
	return func(ctx context.Context) ([]*locks.Lease, error) {
		acquire := lock.Acquire
		if !w.last && w.random.IntN(10) == 0 {
			acquire = lock.TryAcquire
		}
		lease, err := acquire(ctx)
		if err != nil {
			return nil, err
		}
		return []*locks.Lease{lease}, nil
	}
}

// work is what a holder does: it looks at its leases all the time, and writes to what an
// exclusive lock protects. It returns when it has worked for long enough, or has to stop.
func (w *worker) work(ctx context.Context, all ...*held) {
	until := time.Now().Add(w.length())
	every := lookEvery
	if time.Until(until) > middleHold {
		every = lookEveryLong
	}
	if w.kind.exclusive && !all[0].shared && w.random.IntN(4) == 0 {
		all[0].appendToSet(ctx)
	}
	for {
		if slices.ContainsFunc(all, func(h *held) bool { return !h.valid() }) {
			return
		}
		if !time.Now().Before(until) {
			return
		}
		select {
		case <-time.After(every):
		case <-all[0].lease.Revoked():
			return
		}
	}
}
