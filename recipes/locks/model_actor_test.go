// SPDX-License-Identifier: Apache-2.0

package locks_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/gocurator/curator/recipes/locks"
	"github.com/gocurator/curator/testing/checker"
)

// actor acquires one after the other, and may hold several.
type actor struct {
	client *modelClient

	mu     sync.Mutex
	cancel context.CancelFunc // of the acquisition that is under way, nil when there is none
	wants  wish
	grants []*grant // not released yet
}

// wish is an acquisition that is under way.
type wish struct {
	step  step
	owner string
	token int64 // that of the owner's hold, if he has one; else above all
}

// grant is what one acquisition got, or one permit of it.
type grant struct {
	owner    string
	shared   bool
	leases   []*locks.Lease // of a multi-lock several
	context  func(context.Context) context.Context
	release  func(context.Context) error
	acquired int64        // when it was called for
	released atomic.Int64 // when it was called to be released, 0 before
}

// pick returns one of the actor's grants, the newest for -1, or nil if it has none.
func (a *actor) pick(n int) *grant {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case len(a.grants) == 0:
		return nil
	case n < 0:
		return a.grants[len(a.grants)-1]
	default:
		return a.grants[n%len(a.grants)]
	}
}

// acquire begins an acquisition, unless the actor has one under way.
func (w *world) acquire(a *actor, s step) {
	ctx, cancel := context.WithCancel(context.Background())
	w.mu.Lock()
	w.owners++
	owner := fmt.Sprintf("actor %d, turn %d", s.actor, w.owners)
	w.mu.Unlock()
	owned, token := false, int64(math.MaxInt64)
	g := a.pick(-1)
	if (s.owned || s.verb == downgradeIt) && g != nil {
		ctx, owned = g.context(ctx), true
		if w.program.recipe.reenters {
			owner, token = g.owner, g.leases[0].Token()
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.cancel != nil {
		cancel()
		return
	}
	a.cancel, a.wants = cancel, wish{s, owner, token}
	w.begun.Go(func() {
		call := w.history.Now()
		grants, err := a.client.acquire(ctx, s.verb, s.many())
		if err != nil {
			w.seen.failed.Add(1)
			w.judge(a, s, owned, ctx.Err() != nil, err)
		} else {
			if owned {
				w.seen.reentered.Add(1)
			}
			w.granted(a, owner, call, grants)
			if s.verb == downgradeIt && owned {
				w.release(g)
			}
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		cancel()
		a.cancel = nil
	})
}

// judge reports an acquisition that failed without a reason.
func (w *world) judge(a *actor, s step, owned, cancelled bool, err error) {
	var lost *locks.LostError
	switch {
	case (s.verb == tryIt || s.verb == tryReadIt) && errors.Is(err, locks.ErrNotAcquired):
	case cancelled && errors.Is(err, context.Canceled):
	case errors.As(err, &lost) && (a.client.isHurt() || w.isVandalized()): // a member of a multi-lock that had been acquired
	case owned && (errors.As(err, &lost) || errors.Is(err, locks.ErrReleased) || errors.Is(err, locks.ErrUpgrade) || errors.Is(err, locks.ErrReentered)):
	case w.program.recipe.resizes && errors.Is(err, locks.ErrTooManyLeases):
	default:
		w.failf("actor %d: %s: %w", s.actor, w.program.describe(s), err)
	}
}

// granted records what was acquired together, and watches it end.
func (w *world) granted(a *actor, owner string, call int64, grants []*grant) {
	w.seen.acquired.Add(1)
	now := w.history.Now()
	got := make(map[string]checker.Op) // by lock
	for _, g := range grants {
		g.owner, g.acquired = owner, call
		for _, lease := range g.leases {
			stillborn := lease.Err() != nil
			if w.isGhost(lease.Path()) {
				continue
			}
			folder := path.Dir(lease.Path())
			op, ok := got[folder]
			if !ok {
				op = checker.Op{
					Kind: checker.Acquire, Lock: folder, Owner: owner, Shared: g.shared,
					Token: lease.Token(), Call: call, Return: now,
				}
			}
			op.N++
			got[folder] = op
			w.begun.Go(func() { w.watch(a.client, g, lease, stillborn) })
		}
	}
	for _, op := range got {
		w.history.Add(op)
	}
	a.mu.Lock()
	a.grants = append(a.grants, grants...)
	a.mu.Unlock()
	if w.draining.Load() {
		for _, g := range grants {
			w.release(g)
		}
	}
}

// watch records the end of a lease, whatever it is: it has ended between the moment
// in which that was begun, by its owner or by who has killed the session, and the one
// in which its owner knows. One that had ended when it was returned has done so at any
// time since it was called for.
func (w *world) watch(c *modelClient, g *grant, lease *locks.Lease, stillborn bool) {
	<-lease.Done()
	now := w.history.Now()
	op := checker.Op{Kind: checker.Release, Lock: path.Dir(lease.Path()), Owner: g.owner, Shared: g.shared, Call: now, Return: now}
	if called := g.released.Load(); called != 0 {
		op.Call = called
	}
	if stillborn {
		op.Call = g.acquired
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, kill := range c.kills {
		if kill >= g.acquired {
			op.Call = min(op.Call, kill)
		}
	}
	deleted, vandalized := w.vandalized(lease.Path())
	if vandalized {
		op.Call = min(op.Call, max(deleted, g.acquired))
	}
	w.history.Add(op)
	var lost *locks.LostError
	if !errors.As(lease.Err(), &lost) {
		return
	}
	w.seen.lost.Add(1)
	if len(c.kills) == 0 && !c.cut && !vandalized {
		w.failf("%s was lost for no reason: %w", lease.Path(), lost)
	}
}

// release begins to release a grant, once.
func (w *world) release(g *grant) {
	if !g.released.CompareAndSwap(0, max(w.history.Now(), 1)) {
		return
	}
	for _, a := range w.actors {
		a.mu.Lock()
		a.grants = slices.DeleteFunc(a.grants, func(other *grant) bool { return other == g })
		a.mu.Unlock()
	}
	w.begun.Go(func() {
		var lost *locks.LostError
		if err := g.release(context.Background()); err != nil && !errors.As(err, &lost) {
			w.failf("release: %w", err)
		}
	})
}
