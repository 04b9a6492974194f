// SPDX-License-Identifier: Apache-2.0

package locks

import (
	"context"
	"errors"

	"github.com/gocurator/curator/listen"
	"github.com/gocurator/curator/recipes/internal/attempt"
)

// WithQueueListener makes the lock call fn when an acquisition begins to wait, and again when its
// position has changed. The position is the number of contenders that stand before it. The path
// names its node, as [Lease.Path] does once it has the lock. It is empty while the acquisition waits in
// memory behind others of its client; see [WithQueuePlaces]. An acquisition whose node is lost
// joins the queue again with another path.
//
// The listener costs no request. The lock tells what a waiter learns anyway, so the number may be
// too great by contenders that have left since. A waiter watches only the contenders
// before it that it needs, for a mutex the one right before it, and learns another position when that one leaves and
// others are still before it. In memory it knows those of its own client that are before it, and is told once.
// A permit of an [InterProcessSemaphoreV2] tells the position among those that wait for a permit.
//
// Calls come one after the other, on a goroutine of their own, in the order in which the positions
// were learned. So fn may block. The last call may come after the acquisition has returned. A
// panic of fn is logged.
func WithQueueListener(fn func(path string, position int)) Option {
	return optionFunc(func(c *config) error {
		if fn == nil {
			return errors.New("WithQueueListener(nil), expected a function")
		}
		c.add(feature{name: "queue listener", ofQueue: true, attach: func(l *lock) error {
			set := listen.New[queuePlace](attempt.LogPanics(l.client, l.path, "a queue listener panicked"))
			set.Add(func(p queuePlace) { fn(p.path, p.position) })
			l.observers = append(l.observers, queueListener{set: set})
			return nil
		}})
		return nil
	})
}

// queueListener tells a function of the program.
type queueListener struct {
	ignores

	set *listen.Set[queuePlace]
}

func (q queueListener) queued(_ context.Context, path string, position int) {
	if position >= 0 {
		q.set.Notify(queuePlace{path, position})
	}
}

// queuePlace is where an acquisition waits.
type queuePlace struct {
	path     string
	position int
}
