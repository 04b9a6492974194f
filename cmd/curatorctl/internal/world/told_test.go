// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"errors"
	"time"

	"github.com/gocurator/curator/framework"
	"github.com/gocurator/curator/recipes/locks"
)

// queueListener is told the places of waiters. It finds one that rises, as nobody can come before a waiter.
func (m *member) queueListener() locks.Option {
	last := make(map[string]int)
	return locks.WithQueueListener(func(path string, position int) {
		if before, again := last[path]; again && path != "" && position >= before && !m.forgets() {
			m.findf("%s has the place %d, and had %d", path, position, before)
		}
		if last[path] = position; position > 0 && path != "" {
			m.all.chance(rulePlaces)
		}
	})
}

// givesWay releases a lease that somebody has asked for. It finds one that nobody has.
func (m *member) givesWay(lease *locks.Lease) {
	m.all.Lock()
	asked := m.all.operators.asked[lease.Token()]
	m.all.Unlock()
	if !asked {
		m.findf("gives way with %v, which nobody has asked for", lease)
	}
	m.logf("gives way with %v: %v", lease, lease.Release(context.Background()))
}

// asks notes that a hold is about to be asked for.
func (all *truth) asks(token int64) {
	all.Lock()
	defer all.Unlock()
	if all.operators.asked == nil {
		all.operators.asked = make(map[int64]bool)
	}
	all.operators.asked[token] = true
}

// settleAsked has a holder be asked for its lock.
func (all *truth) settleAsked(ctx context.Context, m *member) {
	if !m.o.is("asked", "gives way") {
		return
	}
	all.chance(ruleAsked)
	waiting, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	lease, err := m.mutex.Acquire(waiting)
	if err == nil {
		all.asks(lease.Token())
		err = locks.AttemptRevoke(ctx, all.sorted()[0].client, lease.Path())
	}
	if err != nil {
		m.findf("/mutex: %v", err)
		return
	}
	sleep(ctx, 5*time.Second)
	if err := lease.Err(); !errors.Is(err, locks.ErrReleased) && !m.o.is("longest hold", "1s") {
		m.findf("a holder that was asked for %v does not give way: %v", lease, err)
	}
}

// isLost reports whether a lease was lost, and not released.
func isLost(lease *locks.Lease) bool {
	_, is := errors.AsType[*framework.LostError](lease.Err())
	return is
}
